/* SPDX-License-Identifier: MIT */
/* Archives as engines take and give them, made and read by libarchive in memory. Pure. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Appends to out a tar of one regular file, owned by root. */
int tar_make(
	const char *name, mode_t mode, const void *p, size_t n, struct buf *out, struct err *err);

/* The content of the first regular file in a tar, appended to out, and its mode. -ENOENT: there is
 * none. -EPROTO: this is no tar. */
int tar_read(const void *p, size_t n, struct buf *out, mode_t *mode, struct err *err);

/* The same of size bytes of the file `from`, into the file `to`; memory does not grow with it. */
int tar_make_file(const char *name, mode_t mode, int from, uint64_t size, int to, struct err *err);
