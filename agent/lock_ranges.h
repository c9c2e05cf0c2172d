/* SPDX-License-Identifier: MIT */
/* A set of byte ranges, first and last byte each, in order and apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *at;
	size_t n, room;
};

/* -ENOMEM: nothing has changed. */
int ranges_add(struct ranges *r, uint64_t start, uint64_t end);
/* Takes a range out; what was there of it goes to out (empty before), if that is not NULL. */
int ranges_cut(struct ranges *r, uint64_t start, uint64_t end, struct ranges *out);
bool ranges_has(const struct ranges *r, uint64_t start, uint64_t end); /* the whole of it */
void ranges_fini(struct ranges *r);
