/* SPDX-License-Identifier: MIT */
#include "common/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void put(struct buf *b, uint64_t v, size_t n)
{
	uint8_t raw[8];

	for (size_t i = 0; i < n; i++)
		raw[i] = (uint8_t)(v >> (8 * i));
	buf_append(b, raw, n);
}

void wire_u8(struct buf *b, uint8_t v)
{
	put(b, v, 1);
}

void wire_u16(struct buf *b, uint16_t v)
{
	put(b, v, 2);
}

void wire_u32(struct buf *b, uint32_t v)
{
	put(b, v, 4);
}

void wire_u64(struct buf *b, uint64_t v)
{
	put(b, v, 8);
}

void wire_bytes(struct buf *b, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		b->error = b->error ? b->error : -E2BIG;
		return;
	}
	wire_u32(b, (uint32_t)n);
	buf_append(b, p, n);
}

void wire_str(struct buf *b, const char *s)
{
	wire_bytes(b, s, strlen(s));
}

struct wire_in wire_in(const void *p, size_t n)
{
	const uint8_t *from = p;

	return (struct wire_in){.p = from, .end = n ? from + n : from};
}

static uint64_t get(struct wire_in *in, size_t n)
{
	uint64_t v = 0;

	if (in->bad || (size_t)(in->end - in->p) < n) {
		in->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)in->p[i] << (8 * i);
	in->p += n;
	return v;
}

uint8_t wire_get_u8(struct wire_in *in)
{
	return (uint8_t)get(in, 1);
}

uint16_t wire_get_u16(struct wire_in *in)
{
	return (uint16_t)get(in, 2);
}

uint32_t wire_get_u32(struct wire_in *in)
{
	return (uint32_t)get(in, 4);
}

uint64_t wire_get_u64(struct wire_in *in)
{
	return get(in, 8);
}

const uint8_t *wire_get_bytes(struct wire_in *in, size_t max, size_t *n)
{
	size_t len = wire_get_u32(in);
	const uint8_t *p;

	*n = 0;
	if (in->bad || len > max || (size_t)(in->end - in->p) < len) {
		in->bad = true;
		return NULL;
	}
	p = in->p;
	in->p += len;
	*n = len;
	return p;
}

char *wire_get_str(struct wire_in *in, size_t max)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(in, max, &n);
	char *s;

	if (in->bad)
		return NULL;
	if (n && memchr(p, 0, n)) {
		in->bad = true;
		return NULL;
	}
	s = malloc(n + 1);
	if (!s) {
		in->bad = true;
		return NULL;
	}
	if (n)
		memcpy(s, p, n);
	s[n] = 0;
	return s;
}

bool wire_end(const struct wire_in *in)
{
	return !in->bad && in->p == in->end;
}
