/* SPDX-License-Identifier: MIT */
/* What went wrong lately, in words: the text of .sandboxfs/errors. Any thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

struct report;

struct report *report_new(void);
void report_free(struct report *r);

/* One failure: whose it is, the operation ("mkdir"), the path from the mount's root, the code and
 * the words. */
void report_add(
	struct report *r, uint32_t uid, const char *op, const char *path, const struct err *err);

/* The last 200, oldest first, a line each; of these, that user's. */
#define REPORT_ALL UINT32_MAX
void report_render(struct report *r, uint32_t uid, struct buf *out);
