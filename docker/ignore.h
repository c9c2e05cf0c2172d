/* SPDX-License-Identifier: MIT */
/* .dockerignore: which files of a build's context are not sent. Pure, one thread at a time; the
 * time that a path takes is bounded by its length times the patterns'. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define IGNORE_FILE_MAX (1u << 20)

struct ignore;

/* The text of the file. ignore_free it. */
int ignore_parse(const char *text, size_t len, struct ignore **out, struct err *err);
void ignore_free(struct ignore *i);

/* A path below the context, "a/b/c". What matches a directory matches all in it; of several
 * patterns the last one counts. */
bool ignore_matches(struct ignore *i, const char *path);
/* There are exceptions ("!..."): beneath what is ignored there may be what is not. */
bool ignore_has_exceptions(const struct ignore *i);
