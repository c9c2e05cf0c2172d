/* SPDX-License-Identifier: MIT */
/* The texts of memory.max, cpu.max and pids.max. */
#include "sandbox/limits.h"
#include "tests/unit/check.h"

#include <errno.h>

static void good(unsigned which, const char *text, const char *shown)
{
	struct engine_limits l = {0};
	struct err err = {0};
	struct buf b;

	buf_init(&b, 256);
	CHECK(limits_parse(which, text, &l, &err) == 0);
	limits_render(which, &l, &b);
	CHECK_STR((char *)b.data, shown);
	buf_fini(&b);
}

static void texts(void)
{
	good(ENGINE_LIMIT_MEMORY, "max\n", "max\n");
	good(ENGINE_LIMIT_MEMORY, " 1 \n", "1\n");
	good(ENGINE_LIMIT_MEMORY, "512m", "536870912\n");
	good(ENGINE_LIMIT_MEMORY, "2GB\n", "2147483648\n");
	good(ENGINE_LIMIT_MEMORY, "3k", "3072\n");
	good(ENGINE_LIMIT_MEMORY, "4b", "4\n");
	good(ENGINE_LIMIT_CPU, "max", "max 100000\n");
	good(ENGINE_LIMIT_CPU, "max 50000\n", "max 50000\n");
	good(ENGINE_LIMIT_CPU, "150000\n", "150000 100000\n");
	good(ENGINE_LIMIT_CPU, "1000 1000000", "1000 1000000\n");
	good(ENGINE_LIMIT_PIDS, "max", "max\n");
	good(ENGINE_LIMIT_PIDS, "4194304\n", "4194304\n");
}

static void nonsense(void)
{
	static const char *const memory[] = {"", "\n", "0", "-1", "1 2", "1x", "1mm", "maximum",
		"99999999999999999999", "9007199254740993", "9999999999g", "17179869184g",
		"17179869185g", "0x10", "1.5g"};
	static const char *const cpu[] = {"", "999", "max 999", "max 1000001", "1000 1000 1000",
		"max max", "1e5", "1000000000001", "100000,100000", "-1"};
	static const char *const pids[] = {"", "0", "-1", "4194305", "1.5", "10 10", "all"};
	struct engine_limits l = {.memory = 7};
	struct err err = {0};

	for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); i++)
		CHECK(limits_parse(ENGINE_LIMIT_MEMORY, memory[i], &l, &err) == -EINVAL);
	for (size_t i = 0; i < sizeof(cpu) / sizeof(*cpu); i++)
		CHECK(limits_parse(ENGINE_LIMIT_CPU, cpu[i], &l, &err) == -EINVAL);
	for (size_t i = 0; i < sizeof(pids) / sizeof(*pids); i++)
		CHECK(limits_parse(ENGINE_LIMIT_PIDS, pids[i], &l, &err) == -EINVAL);
	CHECK(l.memory == 7 && !l.cpu_quota_us && !l.pids);
}

static bool raises(unsigned which, const char *from, const char *to)
{
	struct engine_limits a = {0}, b = {0};

	CHECK(limits_parse(which, from, &a, NULL) == 0 && limits_parse(which, to, &b, NULL) == 0);
	return limits_raise(which, &a, &b);
}

static void what_is_more(void)
{
	CHECK(raises(ENGINE_LIMIT_MEMORY, "10", "11") && raises(ENGINE_LIMIT_MEMORY, "10", "max"));
	CHECK(!raises(ENGINE_LIMIT_MEMORY, "10", "10") && !raises(ENGINE_LIMIT_MEMORY, "max", "9"));
	CHECK(!raises(ENGINE_LIMIT_MEMORY, "max", "max"));
	CHECK(raises(ENGINE_LIMIT_PIDS, "1", "2") && !raises(ENGINE_LIMIT_PIDS, "2", "1"));
	CHECK(raises(ENGINE_LIMIT_CPU, "100000", "50000 10000"));
	CHECK(!raises(ENGINE_LIMIT_CPU, "100000", "500000 1000000"));
	CHECK(raises(ENGINE_LIMIT_CPU, "1000000000000 1000", "max"));
	CHECK(!raises(ENGINE_LIMIT_CPU, "max 1000", "1000000000000 1000000"));
}

int main(void)
{
	TEST(texts);
	TEST(nonsense);
	TEST(what_is_more);
	return check_done();
}
