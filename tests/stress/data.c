/*
 * See data.h. No state, any process.
 */
#include <string.h>
#include <time.h>

#include "data.h"

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

uint64_t rnd_next(struct rnd *r)
{
	r->state += 0x9e3779b97f4a7c15ULL;
	return mix(r->state);
}

unsigned rnd_below(struct rnd *r, unsigned n)
{
	return (unsigned)((rnd_next(r) >> 32) * n >> 32);
}

int rnd_once_in(struct rnd *r, unsigned n)
{
	return rnd_below(r, n) == 0;
}

void data_fill(void *buf, size_t len, uint32_t seed, uint64_t off)
{
	static const char symbols[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	char *out = buf;
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t at = off + i;

		if (i == 0 || at % 8 == 0)
			word = mix(((uint64_t)seed << 32) ^ (at / 8));
		out[i] = symbols[(word >> (at % 8 * 8)) & 63];
	}
}

uint64_t data_hash(const void *buf, size_t len)
{
	const unsigned char *p = buf;
	uint64_t h = 0x2545f4914f6cdd1dULL ^ len;

	for (; len >= 8; p += 8, len -= 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		h = (h ^ word) * 0x100000001b3ULL;
		h ^= h >> 29;
	}
	for (; len; p++, len--)
		h = (h ^ *p) * 0x100000001b3ULL;
	return mix(h);
}

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}
