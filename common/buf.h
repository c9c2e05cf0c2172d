/* SPDX-License-Identifier: MIT */
/* A growing byte buffer with a mandatory cap, so that no peer can eat memory. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* always followed by a NUL that len does not count, once anything was added
			*/
	size_t len;
	size_t cap;
	size_t max;
	int error; /* sticky: 0, or the first -ENOMEM/-E2BIG; later appends do nothing */
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);

/* Empties it, keeps the memory, clears the error. */
void buf_reset(struct buf *b);

/* buf_fini for what was secret: zeroes first. */
void buf_wipe(struct buf *b);

/* Room for n more bytes at data + len; the caller says by buf_commit what it used. NULL on error.
 */
uint8_t *buf_reserve(struct buf *b, size_t n);
/* n bytes of what was reserved are there. */
void buf_commit(struct buf *b, size_t n);
/* Appends all that can be read from fd: 0, b->error (-E2BIG: there is more than the cap), or
 * read's -errno. */
int buf_read_fd(struct buf *b, int fd);

int buf_append(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drops n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

/* Hands the memory over (free() it) and leaves b empty; NULL after an error. */
char *buf_steal(struct buf *b);
