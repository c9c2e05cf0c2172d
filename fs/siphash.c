/* SPDX-License-Identifier: MIT */
#include "fs/siphash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t seeds[2]; /* written before there are threads */

void siphash_seed(void)
{
	struct timespec t;

	if (getrandom(seeds, sizeof(seeds), 0) == (ssize_t)sizeof(seeds))
		return;
	clock_gettime(CLOCK_REALTIME, &t); /* a kernel without: better than none */
	seeds[0] = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u;
	seeds[1] = (uint64_t)(uintptr_t)&t ^ (uint64_t)t.tv_sec;
}

static uint64_t rotl(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

uint64_t siphash_with(const uint64_t seed[2], const void *p, size_t n)
{
	uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
		seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
	const uint8_t *at = p;
	uint64_t last = (uint64_t)n << 56, word;
	size_t left = n;

	for (; left >= 8; left -= 8, at += 8) {
		memcpy(&word, at, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (size_t k = 0; k < left; k++)
		last |= (uint64_t)at[k] << (8 * k);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int k = 0; k < 3; k++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash(const void *p, size_t n)
{
	return siphash_with(seeds, p, n);
}
