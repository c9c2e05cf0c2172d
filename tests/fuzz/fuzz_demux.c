/* SPDX-License-Identifier: MIT */
/* The engine's attached streams: the output may not depend on how the bytes were cut into reads.
 * The first byte is the size of the cuts. */
#include "docker/demux.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feeds in pieces, gathers the output in place; -1 once it is no such stream. */
static ssize_t feed_all(struct demux *d, uint8_t *p, size_t n, size_t piece)
{
	size_t out = 0;
	ssize_t r;

	for (size_t at = 0, now; at < n; at += now) {
		now = n - at < piece ? n - at : piece;
		r = demux_feed(d, p + at, now);
		if (r > (ssize_t)now)
			abort();
		if (r < 0) {
			if (demux_feed(d, p + at, now) >= 0)
				abort();
			return -1;
		}
		memmove(p + out, p + at, (size_t)r);
		out += (size_t)r;
	}
	return (ssize_t)out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct demux whole, cut;
	uint8_t *a, *b;
	ssize_t n, m;

	if (size < 2)
		return 0;
	a = malloc(size - 1);
	b = malloc(size - 1);
	if (!a || !b)
		abort();
	memcpy(a, data + 1, size - 1);
	memcpy(b, data + 1, size - 1);
	demux_init(&whole);
	demux_init(&cut);
	n = feed_all(&whole, a, size - 1, size - 1);
	m = feed_all(&cut, b, size - 1, (size_t)data[0] + 1);
	if (n != m || (n > 0 && memcmp(a, b, (size_t)n) != 0))
		abort();
	if (strlen(whole.words) != whole.words_len || strcmp(whole.words, cut.words) != 0)
		abort();
	free(a);
	free(b);
	return 0;
}
