/*
 * Numbers that look random and bytes that follow from them: a seed says it all, on both sides.
 */
#ifndef STRESS_DATA_H
#define STRESS_DATA_H

#include <stddef.h>
#include <stdint.h>

struct rnd {
	uint64_t state;
};

uint64_t rnd_next(struct rnd *r);
/* 0 .. n-1 */
unsigned rnd_below(struct rnd *r, unsigned n);
/* true once in n */
int rnd_once_in(struct rnd *r, unsigned n);

/* The bytes that a write with this seed puts at this offset of a file: letters and digits. */
void data_fill(void *buf, size_t len, uint32_t seed, uint64_t off);
uint64_t data_hash(const void *buf, size_t len);

int64_t now_ns(void); /* CLOCK_REALTIME */

#endif
