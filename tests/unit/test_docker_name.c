/* SPDX-License-Identifier: MIT */
#include "docker/name.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void both_ways(const char *ns, const char *dir, enum engine_mark mark, const char *want)
{
	enum engine_mark m = ENGINE_MARK_NONE;
	char *name = NULL, *back = NULL;

	CHECK(name_encode(ns, dir, mark, ID, &name) == 0);
	CHECK_STR(name, want);
	CHECK(name_decode(name, ns, &back, &m) == 0);
	CHECK_STR(back, mark == ENGINE_MARK_REMOVING ? "" : dir);
	CHECK(m == mark);
	free(name);
	free(back);
}

static void known_names(void)
{
	both_ways("default", "demo", ENGINE_MARK_NONE, "sandboxfs-default-demo");
	both_ways("default", "py@de-mo", ENGINE_MARK_PAUSED, "sandboxfs-default-py_ade-mo_p");
	both_ways("default", "a:s1@b", ENGINE_MARK_STOPPED, "sandboxfs-default-a_cs1_ab_s");
	both_ways("my-ns_1", "x_", ENGINE_MARK_PAUSED, "sandboxfs-my_dns__1-x___p");
	both_ways("n", "a_p", ENGINE_MARK_NONE, "sandboxfs-n-a__p");
	both_ways("n", "a__s", ENGINE_MARK_STOPPED, "sandboxfs-n-a____s_s");
	both_ways("n", "gone", ENGINE_MARK_REMOVING,
		"sandboxfs-n-_x0123456789abcdef0123456789abcdef");
}

/* Names of up to four characters of the ones that matter: no two the same, all come back. */
static void every_short_name(void)
{
	static const char set[] = "ax_.-@:";
	unsigned taken = 0;

	for (unsigned n = 0; n < 7 * 7 * 7 * 7; n++) {
		char dir[5] = {set[n % 7], set[n / 7 % 7], set[n / 49 % 7], set[n / 343], 0};
		enum engine_mark m;
		char *name = NULL, *back = NULL;

		if (name_encode("n", dir, n % 3, NULL, &name))
			continue;
		taken++;
		CHECK(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == strlen(name));
		CHECK(name_decode(name, "n", &back, &m) == 0);
		CHECK_STR(back, dir);
		CHECK(m == n % 3);
		free(name);
		free(back);
	}
	CHECK(taken > 100);
}

static void not_ours(void)
{
	static const char *const names[] = {"", "sandboxfs-", "sandboxfs-n", "sandboxfs-n-",
		"sandboxfs-m-a", "sandboxfs-nn-a", "other-n-a", "sandboxfs-n-_p", "sandboxfs-n-a_",
		"sandboxfs-n-a_q", "sandboxfs-n-a_pb", "sandboxfs-n-a_p_s", "sandboxfs-n-a_dx",
		"sandboxfs-n-_x", "sandboxfs-n-_x0123", "sandboxfs-n-_xABCDEF012345",
		"sandboxfs-n-a_a", "sandboxfs-n-_ab", "sandboxfs-n-.a", "sandboxfs-n-a/b",
		"sandboxfs-n-a_a_ab", "sandboxfs-_fill-0123456789abcdef", "sandboxfs-n--a"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		enum engine_mark m = ENGINE_MARK_STOPPED;
		char *dir = NULL;

		CHECK(name_decode(names[i], "n", &dir, &m) == -EINVAL);
		CHECK(!dir && m == ENGINE_MARK_STOPPED);
	}
}

static void not_encodable(void)
{
	char *name = NULL;

	CHECK(name_encode("n", "", ENGINE_MARK_NONE, NULL, &name) == -EINVAL);
	CHECK(name_encode("n", "a b", ENGINE_MARK_NONE, NULL, &name) == -EINVAL);
	CHECK(name_encode("n", "\303\244", ENGINE_MARK_NONE, NULL, &name) == -EINVAL);
	CHECK(name_encode("n/x", "a", ENGINE_MARK_NONE, NULL, &name) == -EINVAL);
	CHECK(name_encode("n", "a", ENGINE_MARK_REMOVING, "../x", &name) == -EINVAL);
	CHECK(!name);
}

static void ids(void)
{
	CHECK(name_is_id(ID) && name_is_id("0123456789ab"));
	CHECK(!name_is_id(NULL) && !name_is_id("") && !name_is_id("0123456789a"));
	CHECK(!name_is_id(ID "0") && !name_is_id("0123456789abX") && !name_is_id("../../../../.."));
}

int main(void)
{
	TEST(known_names);
	TEST(every_short_name);
	TEST(not_ours);
	TEST(not_encodable);
	TEST(ids);
	return check_done();
}
