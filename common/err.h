/* SPDX-License-Identifier: MIT */
/*
 * An error for a person: the code and a sentence. Lives on the caller's stack, owns nothing.
 * Functions return 0 (or a count) or -errno; err_set returns the negative code so that
 * `return err_set(err, ENOENT, "no image %s", ref);` is the usual last line.
 */
#pragma once

#include <stdarg.h>

#define ERR_MSG_MAX 512

struct err {
	int code; /* positive errno, 0 while nothing failed */
	char msg[ERR_MSG_MAX];
};

/* Fills err (which may be NULL) and returns -code. Control characters become spaces: one line. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "text: " before the message that is there; returns -err->code. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "ENOENT" for ENOENT; "E?" for a number that Linux does not name. */
const char *err_name(int code);

/* What an untrusted errno may become: 1..133, never ENOSYS (one such reply would switch an
 * operation off for the whole mount), EIO for anything else. Takes and returns positive codes. */
int err_sanitise(int code);
