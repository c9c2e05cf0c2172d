/* SPDX-License-Identifier: MIT */
#include "common/err.h"
#include "tests/unit/check.h"

#include <errno.h>

static void sets_and_returns(void)
{
	struct err e = {0};

	CHECK(err_set(&e, ENOENT, "no image %s", "x") == -ENOENT);
	CHECK(e.code == ENOENT);
	CHECK_STR(e.msg, "no image x");
	CHECK(err_set(NULL, EIO, "nobody hears") == -EIO);
}

static void stays_one_line(void)
{
	struct err e = {0};

	err_set(&e, EIO, "a\nb\tc\x1b[31m\x7f%s", "\r\n");
	CHECK_STR(e.msg, "a b c [31m   ");
}

static void cuts_long_text(void)
{
	char text[2 * ERR_MSG_MAX];
	struct err e = {0};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	err_set(&e, EIO, "%s", text);
	CHECK(strlen(e.msg) == ERR_MSG_MAX - 1);
	CHECK(err_prefix(&e, "%s", text) == -EIO && strlen(e.msg) == ERR_MSG_MAX - 1);
}

static void prefixes(void)
{
	struct err e = {0};

	err_set(&e, EPERM, "not allowed");
	CHECK(err_prefix(&e, "demo%d", 1) == -EPERM);
	CHECK_STR(e.msg, "demo1: not allowed");
	CHECK(err_prefix(NULL, "x") == -EIO);
}

static void names(void)
{
	CHECK_STR(err_name(ENOENT), "ENOENT");
	CHECK_STR(err_name(EHOSTDOWN), "EHOSTDOWN");
	CHECK_STR(err_name(512), "E?");
	CHECK_STR(err_name(-5), "E?");
}

static void sanitises_every_value(void)
{
	for (int i = -70000; i < 70000; i++) {
		int got = err_sanitise(i);

		CHECK(got >= 1 && got <= 133 && got != ENOSYS);
		CHECK(i < 1 || i > 133 || i == ENOSYS || got == i);
		CHECK((i >= 1 && i <= 133) || got == EIO);
	}
	CHECK(err_sanitise(ENOSYS) == EOPNOTSUPP);
	CHECK(err_sanitise(512) == EIO);
}

int main(void)
{
	TEST(sets_and_returns);
	TEST(stays_one_line);
	TEST(cuts_long_text);
	TEST(prefixes);
	TEST(names);
	TEST(sanitises_every_value);
	return check_done();
}
