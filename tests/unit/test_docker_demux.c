/* SPDX-License-Identifier: MIT */
#include "docker/demux.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

static const char raw[] = "\1\0\0\0\0\0\0\5hello"
			  "\2\0\0\0\0\0\0\4oops"
			  "\1\0\0\0\0\0\0\0"
			  "\3\0\0\0\0\0\0\1!"
			  "\1\0\0\0\0\0\0\6 world";
#define RAW (sizeof(raw) - 1)

/* Feeds n bytes of raw from `from`, in a block of their own so that a sanitizer sees its ends. */
static size_t feed(struct demux *d, size_t from, size_t n, char *out)
{
	uint8_t *p = malloc(n ? n : 1);
	ssize_t got;

	memcpy(p, raw + from, n);
	got = demux_feed(d, p, n);
	if (got > 0)
		memcpy(out, p, (size_t)got);
	free(p);
	CHECK(got >= 0 && (size_t)got <= n);
	return (size_t)got;
}

static void whole_at_every_split(void)
{
	for (size_t a = 0; a <= RAW; a++) {
		for (size_t b = a; b <= RAW; b++) {
			struct demux d;
			char out[RAW + 1];
			size_t n;

			demux_init(&d);
			n = feed(&d, 0, a, out);
			n += feed(&d, a, b - a, out + n);
			n += feed(&d, b, RAW - b, out + n);
			out[n] = 0;
			CHECK_STR(out, "hello world");
			CHECK_STR(d.words, "oops!");
		}
	}
}

static void both_at_every_split(void)
{
	for (size_t a = 0; a <= RAW; a++) {
		struct demux d;
		char out[RAW + 1];
		size_t n;

		demux_init(&d);
		d.both = true;
		n = feed(&d, 0, a, out);
		n += feed(&d, a, RAW - a, out + n);
		out[n] = 0;
		CHECK_STR(out, "hellooops world");
		CHECK_STR(d.words, "!");
	}
}

static void whole_byte_by_byte(void)
{
	struct demux d;
	char out[RAW + 1];
	size_t n = 0;

	demux_init(&d);
	for (size_t i = 0; i < RAW; i++)
		n += feed(&d, i, 1, out + n);
	out[n] = 0;
	CHECK_STR(out, "hello world");
}

static void refuses_what_is_no_stream(void)
{
	static const uint8_t bad[][8] = {{0, 0, 0, 0, 0, 0, 0, 1}, {4, 0, 0, 0, 0, 0, 0, 1},
		{1, 1, 0, 0, 0, 0, 0, 1}, {1, 0, 0, 9, 0, 0, 0, 1},
		{'H', 'T', 'T', 'P', 0, 0, 0, 1}, {1, 0, 0, 0, 4, 0, 0, 1},
		{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct demux d;
		uint8_t p[8];

		demux_init(&d);
		memcpy(p, bad[i], 8);
		CHECK(demux_feed(&d, p, 8) == -EPROTO);
		memcpy(p, raw, 8);
		CHECK(demux_feed(&d, p, 8) == -EPROTO);
	}
}

static void words_have_a_cap(void)
{
	struct demux d;
	uint8_t p[1024];

	demux_init(&d);
	for (int i = 0; i < 60; i++) {
		memset(p, i ? 'x' : 0, sizeof(p));
		memcpy(p, "\2\0\0\0\0\0\3\370", 8);
		CHECK(demux_feed(&d, p, sizeof(p)) == 0);
	}
	CHECK(strlen(d.words) == DEMUX_WORDS_MAX && d.words[0] == ' ');
}

/* A hostile sandbox writes to the relay's stderr, or empty frames, without end. */
static void a_flood_is_cut_off(void)
{
	static const uint8_t kinds[2][9] = {"\2\0\0\0\0\0\0\1x", "\1\0\0\0\0\0\0\0"};
	static const size_t len[2] = {9, 8};

	for (int k = 0; k < 2; k++) {
		struct demux d;
		ssize_t got = 0;
		unsigned n = 0;

		demux_init(&d);
		for (; n < 2 * DEMUX_NOISE_MAX && got == 0; n++) {
			uint8_t p[9];

			memcpy(p, kinds[k], len[k]);
			got = demux_feed(&d, p, len[k]);
		}
		CHECK(got == -EPROTO);
		CHECK(n <= DEMUX_NOISE_MAX + 1);
	}
}

int main(void)
{
	TEST(whole_at_every_split);
	TEST(both_at_every_split);
	TEST(whole_byte_by_byte);
	TEST(refuses_what_is_no_stream);
	TEST(words_have_a_cap);
	TEST(a_flood_is_cut_off);
	return check_done();
}
