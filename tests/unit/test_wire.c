/* SPDX-License-Identifier: MIT */
#include "common/wire.h"
#include "tests/unit/check.h"
#include "tests/unit/oom.h"

#include <errno.h>
#include <stdlib.h>

static void integers_are_little_endian(void)
{
	static const uint8_t want[] = {1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8};
	struct wire_in in;
	struct buf b;

	buf_init(&b, 100);
	wire_u8(&b, 1);
	wire_u16(&b, 0x0203);
	wire_u32(&b, 0x04050607);
	wire_u64(&b, 0x08090a0b0c0d0e0f);
	CHECK(b.len == sizeof(want) && memcmp(b.data, want, b.len) == 0);
	in = wire_in(b.data, b.len);
	CHECK(wire_get_u8(&in) == 1 && wire_get_u16(&in) == 0x0203);
	CHECK(wire_get_u32(&in) == 0x04050607 && !wire_end(&in));
	CHECK(wire_get_u64(&in) == 0x08090a0b0c0d0e0f && wire_end(&in));
	CHECK(wire_get_u8(&in) == 0 && !wire_end(&in));
	buf_fini(&b);
}

static void short_input_is_bad_and_stays_so(void)
{
	static const uint8_t raw[7] = {1, 1, 1, 1, 1, 1, 1};
	struct wire_in in = wire_in(raw, sizeof(raw));
	size_t n = 9;

	CHECK(wire_get_u64(&in) == 0 && in.bad);
	CHECK(wire_get_u8(&in) == 0 && wire_get_u16(&in) == 0 && wire_get_u32(&in) == 0);
	CHECK(!wire_get_bytes(&in, 10, &n) && n == 0);
	CHECK(!wire_get_str(&in, 10) && !wire_end(&in));
	in = wire_in(NULL, 0);
	CHECK(wire_end(&in));
	CHECK(wire_get_u8(&in) == 0 && in.bad);
}

static void strings_have_limits(void)
{
	struct wire_in in;
	const uint8_t *p;
	struct buf b;
	size_t n;
	char *s;

	buf_init(&b, 100);
	wire_str(&b, "abc");
	wire_bytes(&b, "a\0b", 3);
	wire_bytes(&b, NULL, 0);
	in = wire_in(b.data, b.len);
	s = wire_get_str(&in, 3);
	CHECK_STR(s, "abc");
	free(s);
	p = wire_get_bytes(&in, 3, &n);
	CHECK(n == 3 && memcmp(p, "a\0b", 3) == 0);
	s = wire_get_str(&in, 0);
	CHECK_STR(s, "");
	free(s);
	CHECK(wire_end(&in));

	in = wire_in(b.data, b.len);
	CHECK(!wire_get_str(&in, 2) && in.bad); /* longer than allowed */
	in = wire_in(b.data + 7, b.len - 7);
	CHECK(!wire_get_str(&in, 9) && in.bad); /* a NUL in it */
	for (size_t cut = 0; cut < 7; cut++) {
		in = wire_in(b.data, cut);
		CHECK(!wire_get_str(&in, 9) && in.bad);
	}
	in = wire_in("\xff\xff\xff\xff"
		     "abc",
		7);
	CHECK(!wire_get_bytes(&in, SIZE_MAX, &n) && in.bad && n == 0);
	buf_fini(&b);
}

static void string_without_memory_is_bad(void)
{
	struct wire_in in = wire_in("\1\0\0\0x", 5);

	oom_arm(0);
	CHECK(!wire_get_str(&in, 9));
	oom_arm(-1);
	CHECK(in.bad);
}

static void writer_keeps_its_error(void)
{
	struct buf b;

	buf_init(&b, 6);
	wire_str(&b, "abc");
	CHECK(b.error == -E2BIG);
	wire_u8(&b, 1);
	CHECK(b.error == -E2BIG);
	buf_fini(&b);
}

int main(void)
{
	TEST(integers_are_little_endian);
	TEST(short_input_is_bad_and_stays_so);
	TEST(strings_have_limits);
	TEST(string_without_memory_is_bad);
	TEST(writer_keeps_its_error);
	return check_done();
}
