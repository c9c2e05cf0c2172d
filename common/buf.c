/* SPDX-License-Identifier: MIT */
#include "common/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 65536u

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void buf_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_fini(b);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	size_t want, cap;
	uint8_t *p;

	if (b->error)
		return NULL;
	if (n > b->max || b->len > b->max - n) {
		b->error = -E2BIG;
		return NULL;
	}
	want = b->len + n + 1;
	if (want > b->cap) {
		cap = b->cap ? b->cap : 64;
		while (cap < want)
			cap *= 2;
		if (cap > b->max + 1)
			cap = b->max + 1;
		p = realloc(b->data, cap);
		if (!p) {
			b->error = -ENOMEM;
			return NULL;
		}
		b->data = p;
		b->cap = cap;
	}
	return b->data + b->len;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	uint8_t *to = buf_reserve(b, n);

	if (!to)
		return b->error;
	if (n)
		memcpy(to, p, n);
	buf_commit(b, n);
	return 0;
}

void buf_commit(struct buf *b, size_t n)
{
	b->len += n;
	b->data[b->len] = 0;
}

int buf_read_fd(struct buf *b, int fd)
{
	for (;;) {
		size_t room = b->max - b->len;
		uint8_t *to, one;
		ssize_t n;

		to = buf_reserve(b, room < CHUNK ? room : CHUNK);
		if (!to)
			return b->error;
		/* At the cap one byte more tells whether that was all. */
		n = room ? read(fd, to, room < CHUNK ? room : CHUNK) : read(fd, &one, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n && !room)
			return b->error = -E2BIG;
		buf_commit(b, (size_t)n);
		if (!n)
			return 0;
	}
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	uint8_t *to;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return b->error = -EINVAL;
	to = buf_reserve(b, (size_t)n);
	if (!to)
		return b->error;
	va_start(ap, fmt);
	vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	b->len -= n;
	if (b->len)
		memmove(b->data, b->data + n, b->len);
	if (b->data)
		b->data[b->len] = 0;
}

char *buf_steal(struct buf *b)
{
	char *p;

	if (!b->data && !b->error)
		buf_append(b, "", 0);
	if (b->error) {
		buf_fini(b);
		return NULL;
	}
	p = (char *)b->data;
	*b = (struct buf){.max = b->max};
	return p;
}
