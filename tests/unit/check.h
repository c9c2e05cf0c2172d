/* SPDX-License-Identifier: MIT */
/*
 * Unit tests in TAP, without a library:
 *
 *	static void adds(void) { CHECK(1 + 1 == 2); }
 *	int main(void) { TEST(adds); return check_done(); }
 *
 * A CHECK that fails prints its place and ends that test (from any depth, by longjmp: use it in
 * the test's own thread only); the others go on.
 */
#pragma once

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static jmp_buf check_out;
static unsigned check_count, check_failed;
static int check_inside; /* of a TEST */

static inline __attribute__((noreturn)) void check_fail(
	const char *file, int line, const char *what)
{
	printf("# %s:%d: not so: %s\n", file, line, what);
	if (!check_inside) {
		printf("not ok %u - outside of a test\n", check_count + 1);
		exit(1);
	}
	longjmp(check_out, 1);
}

static inline void check_run(const char *name, void (*test)(void))
{
	check_count++;
	check_inside = 1;
	if (setjmp(check_out) == 0) {
		test();
		printf("ok %u - %s\n", check_count, name);
	} else {
		check_failed++;
		printf("not ok %u - %s\n", check_count, name);
	}
	check_inside = 0;
	fflush(stdout);
}

/* The plan, and main's status. */
static inline int check_done(void)
{
	printf("1..%u\n", check_count);
	return check_failed ? 1 : 0;
}

#define TEST(name) check_run(#name, name)
#define CHECK(cond)                                            \
	do {                                                   \
		if (!(cond))                                   \
			check_fail(__FILE__, __LINE__, #cond); \
	} while (0)
/* Of what becomes so by itself: asked again for 20 s and more. */
#define CHECK_SOON(cond)                                                          \
	do {                                                                      \
		for (int left_ = 2000; !(cond); left_--) {                        \
			if (!left_)                                               \
				check_fail(__FILE__, __LINE__, #cond);            \
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); \
		}                                                                 \
	} while (0)
#define CHECK_STR(got, want)                                                                \
	do {                                                                                \
		const char *got_ = (got), *want_ = (want);                                  \
		if (!got_ || strcmp(got_, want_) != 0) {                                    \
			printf("# got \"%s\", want \"%s\"\n", got_ ? got_ : "NULL", want_); \
			check_fail(__FILE__, __LINE__, #got " is " #want);                  \
		}                                                                           \
	} while (0)
