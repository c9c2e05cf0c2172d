/* SPDX-License-Identifier: MIT */
#include "common/buf.h"
#include "tests/unit/check.h"
#include "tests/unit/oom.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void starts_empty(void)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK(b.len == 0 && b.error == 0 && !b.data);
	buf_fini(&b);
	CHECK(b.max == 10);
}

static void appends_and_ends_in_nul(void)
{
	struct buf b;

	buf_init(&b, 100000);
	for (int i = 0; i < 10000; i++)
		CHECK(buf_append(&b, "abcdefgh", 8) == 0);
	CHECK(b.len == 80000 && b.data[80000] == 0 && b.data[79999] == 'h');
	CHECK(buf_printf(&b, "%d-%s", 42, "x") == 0);
	CHECK_STR((char *)b.data + 80000, "42-x");
	buf_fini(&b);
}

static void cap_holds_and_error_sticks(void)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK(buf_append(&b, "0123456789", 10) == 0);
	CHECK(buf_append(&b, "", 0) == 0);
	CHECK(buf_append(&b, "x", 1) == -E2BIG);
	CHECK(b.len == 10 && b.data[10] == 0 && b.cap <= 11);
	buf_consume(&b, 5);
	CHECK(buf_append(&b, "x", 1) == -E2BIG); /* sticky */
	CHECK(buf_printf(&b, "%s", "") == -E2BIG);
	buf_reset(&b);
	CHECK(b.len == 0 && buf_puts(&b, "again") == 0);
	CHECK(!buf_reserve(&b, SIZE_MAX) && b.error == -E2BIG);
	buf_fini(&b);
	buf_init(&b, 10);
	CHECK(buf_printf(&b, "%s", "01234567890") == -E2BIG && b.len == 0);
	buf_fini(&b);
}

/* As much as a pipe holds at most. */
static int read_back(struct buf *b, const char *text)
{
	int pipes[2], rc;
	size_t n = strlen(text);

	CHECK(pipe(pipes) == 0 && write(pipes[1], text, n) == (ssize_t)n);
	close(pipes[1]);
	rc = buf_read_fd(b, pipes[0]);
	close(pipes[0]);
	return rc;
}

static void reads_a_whole_file(void)
{
	struct buf b;

	buf_init(&b, 6);
	CHECK(read_back(&b, "") == 0 && b.len == 0);
	CHECK_STR((char *)b.data, "");
	CHECK(read_back(&b, "abc") == 0);
	memset(b.data + 4, 'x', b.cap - 4); /* only the NUL ends it */
	CHECK_STR((char *)b.data, "abc");
	CHECK(read_back(&b, "def") == 0 && b.len == 6);
	CHECK_STR((char *)b.data, "abcdef");
	CHECK(read_back(&b, "g") == -E2BIG && b.error == -E2BIG && b.len == 6);
	buf_wipe(&b);
	CHECK(!b.data && b.max == 6 && !b.error);
	CHECK(buf_read_fd(&b, -1) == -EBADF && !b.error);
	buf_fini(&b);
}

static void consumes(void)
{
	struct buf b;

	buf_init(&b, 10);
	buf_consume(&b, 3);
	buf_puts(&b, "abcdef");
	buf_consume(&b, 2);
	CHECK_STR((char *)b.data, "cdef");
	buf_consume(&b, 99);
	CHECK(b.len == 0 && b.data[0] == 0);
	buf_fini(&b);
}

static void steals(void)
{
	struct buf b;
	char *s;

	buf_init(&b, 10);
	s = buf_steal(&b);
	CHECK_STR(s, "");
	free(s);
	buf_puts(&b, "text");
	s = buf_steal(&b);
	CHECK_STR(s, "text");
	CHECK(!b.data && b.len == 0 && b.max == 10);
	free(s);
	buf_puts(&b, "longer than ten");
	CHECK(!buf_steal(&b));
	buf_fini(&b);
}

static void survives_no_memory(void)
{
	struct buf b;
	long before = oom_live();

	buf_init(&b, 1000);
	oom_arm(0);
	CHECK(buf_puts(&b, "x") == -ENOMEM);
	oom_arm(-1);
	CHECK(buf_puts(&b, "x") == -ENOMEM && b.len == 0);
	buf_reset(&b);
	CHECK(buf_puts(&b, "x") == 0);
	oom_arm(0);
	CHECK(!buf_reserve(&b, 500) && b.error == -ENOMEM);
	oom_arm(-1);
	CHECK_STR((char *)b.data, "x"); /* what was there is still there */
	CHECK(!buf_steal(&b));
	CHECK(oom_live() == before);
}

int main(void)
{
	TEST(starts_empty);
	TEST(appends_and_ends_in_nul);
	TEST(cap_holds_and_error_sticks);
	TEST(reads_a_whole_file);
	TEST(consumes);
	TEST(steals);
	TEST(survives_no_memory);
	return check_done();
}
