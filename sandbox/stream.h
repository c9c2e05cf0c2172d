/* SPDX-License-Identifier: MIT */
/* A two-way byte stream to an agent, whatever carries it. Non-blocking; one thread at a time may
 * read, one may write (they may be different threads). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct stream {
	int fd; /* for epoll; readable or writable when an earlier call said -EAGAIN */

	/* Bytes read, 0 at the end, -EAGAIN, or -errno. Read until -EAGAIN: a layer below may hold
	 * bytes that epoll does not know of. */
	ssize_t (*read)(struct stream *s, void *p, size_t n);
	/* Bytes taken (may be fewer than n), -EAGAIN, or -errno. After -EAGAIN the same bytes must
	 * be offered again: TLS may have begun with them. */
	ssize_t (*write)(struct stream *s, const void *p, size_t n);
	/* What the far end said on its standard error, or "": the words for a stream that ended. */
	const char *(*words)(struct stream *s);
	/* Closes the descriptor and frees the stream. */
	void (*close)(struct stream *s);
};
