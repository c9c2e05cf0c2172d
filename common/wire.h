/* SPDX-License-Identifier: MIT */
/*
 * Bytes on the wire: little-endian integers, and byte strings with a 32-bit length before them.
 * The writer appends to a struct buf (its sticky error is the writer's). The reader has a sticky
 * `bad`: after a short or oversized field every get returns 0 or empty, so a parser reads all its
 * fields and asks once, with wire_end(), whether the message was whole.
 */
#pragma once

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_in {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
};

void wire_u8(struct buf *b, uint8_t v);
void wire_u16(struct buf *b, uint16_t v);
void wire_u32(struct buf *b, uint32_t v);
void wire_u64(struct buf *b, uint64_t v);
void wire_bytes(struct buf *b, const void *p, size_t n); /* u32 length, then the bytes */
void wire_str(struct buf *b, const char *s);		 /* wire_bytes of strlen(s) */

struct wire_in wire_in(const void *p, size_t n);
uint8_t wire_get_u8(struct wire_in *in);
uint16_t wire_get_u16(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);

/* Points into the message; at most max bytes, else bad. *n is 0 when bad. */
const uint8_t *wire_get_bytes(struct wire_in *in, size_t max, size_t *n);

/* A new NUL-terminated copy (free() it); bad, and NULL, if it is longer than max or has a NUL. */
char *wire_get_str(struct wire_in *in, size_t max);

/* True when nothing was bad and nothing is left over. */
bool wire_end(const struct wire_in *in);
