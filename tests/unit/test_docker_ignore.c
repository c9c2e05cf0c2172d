/* SPDX-License-Identifier: MIT */
/* .dockerignore, by a table of patterns and paths. */
#include "docker/ignore.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

static bool ignored(const char *text, const char *path)
{
	struct ignore *i = NULL;
	bool yes;

	CHECK(ignore_parse(text, strlen(text), &i, NULL) == 0);
	yes = ignore_matches(i, path);
	ignore_free(i);
	return yes;
}

static const struct {
	const char *text, *path;
	bool ignored;
} table[] = {
	{"", "a", false},
	{"a", "a", true},
	{"a", "b", false},
	{"a", "ab", false},
	{"a", "b/a", false}, /* from the context's root */
	{"a", "a/b/c", true},
	{"/a", "a", true},
	{"a/", "a/x", true},
	{"./a/../b", "b", true},
	{"../a", "a", false},
	{"a//b/.", "a/b", true},
	{"# a\n#b", "a", false},
	{" # a", "# a", true}, /* a comment begins the line */
	{"  a  \r\n", "a", true},
	{"\xef\xbb\xbf"
	 "a",
		"a", true},
	{"*", "a", true},
	{"*", "a/b", true},
	{"*.o", "x.o", true},
	{"*.o", "d/x.o", false},
	{"*/*.o", "d/x.o", true},
	{"*/*.o", "d/e/x.o", false},
	{"**/*.o", "x.o", true},
	{"**/*.o", "d/e/x.o", true},
	{"**", "a/b", true},
	{"**/b", "b", true},
	{"**/b", "ab", false},
	{"**/b", "a/cb", false},
	{"**/b", "a/b/c", true},
	{"a/**", "a/b/c", true},
	{"a/**", "a", false},
	{"a/**/z", "a/z", true},
	{"a/**/z", "a/b/c/z", true},
	{"a/**/z", "a/bz", false},
	{"a**b", "ab", true},
	{"a**b", "ax/b", true},
	{"**/**/x", "a/x", true},
	{"?", "a", true},
	{"?", "ab", false},
	{"a?b", "a/b", false},
	{"*b*", "abc", true},
	{"*b*", "a/b", false},
	{"a.b", "axb", false},
	{"a$", "a$", true},
	{"a+(b)|^", "a+(b)|^", true},
	{"[ab]c", "bc", true},
	{"[a-c]x", "bx", true},
	{"[^a-c]x", "bx", false},
	{"[^a-c]x", "dx", true},
	{"[]]", "]", true},
	{"[\\]]", "]", true},
	{"[^a]b", "/b", false},
	{"\\*", "*", true},
	{"\\*", "a", false},
	{"\\!a", "!a", true},
	{"*\n!a", "a", false},
	{"*\n!a", "a/b", false},
	{"*\n! a\n", "a", false},
	{"!a\n*", "a", true}, /* the last counts */
	{"*.md\n!README*.md\nREADME-secret.md", "README.md", false},
	{"*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true},
	{"*.md\n!README*.md\nREADME-secret.md", "x.md", true},
	{"a\n!a/b", "a/b", false},
	{"a\n!a/b", "a/c", true},
	{"a\n!**/keep", "a/b/keep", false},
	{"\xc3\xa4?", "\xc3\xa4x", true},
};

static void the_table(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		if (ignored(table[i].text, table[i].path) == table[i].ignored)
			continue;
		printf("# \"%s\" of \"%s\"\n", table[i].path, table[i].text);
		CHECK(!"as in the table");
	}
}

static void bad_ones(void)
{
	static const char *const bad[] = {"a\n!\n", "[", "[^", "[a-", "a\\", "[\\"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct ignore *ignore = NULL;
		struct err err = {0};

		CHECK(ignore_parse(bad[i], strlen(bad[i]), &ignore, &err) == -EINVAL);
		CHECK(!ignore && strstr(err.msg, ".dockerignore, line "));
	}
}

/* What would take a backtracking matcher for ever, and what is as large as it may be. */
static void no_pattern_is_slow(void)
{
	char pattern[4000], path[4001];

	for (size_t i = 0; i + 1 < sizeof(pattern); i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[sizeof(pattern) - 1] = 0;
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	CHECK(!ignored(pattern, "b"));
	CHECK(ignored(pattern, path));
	for (size_t i = 0; i + 3 < sizeof(pattern); i += 3)
		memcpy(pattern + i, "**/", 3);
	pattern[sizeof(pattern) - 1] = 0;
	CHECK(ignored(pattern, path));
}

static void exceptions_are_known(void)
{
	struct ignore *i = NULL;

	CHECK(ignore_parse("a\nb", 3, &i, NULL) == 0 && !ignore_has_exceptions(i));
	ignore_free(i);
	CHECK(ignore_parse("a\n!b", 4, &i, NULL) == 0 && ignore_has_exceptions(i));
	ignore_free(i);
}

int main(void)
{
	TEST(the_table);
	TEST(bad_ones);
	TEST(no_pattern_is_slow);
	TEST(exceptions_are_known);
	return check_done();
}
