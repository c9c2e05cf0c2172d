/* SPDX-License-Identifier: MIT */
/* What went wrong lately, in words: the text of .sandboxfs/errors. Any thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

struct report;

struct report *report_new(void);
void report_free(struct report *r);

/* One failure: the operation ("mkdir"), the path from the mount's root, the code and the words. */
void report_add(struct report *r, const char *op, const char *path, const struct err *err);

/* The last 200, oldest first, a line each. */
void report_render(struct report *r, struct buf *out);
