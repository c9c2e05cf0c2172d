/* SPDX-License-Identifier: MIT */
#include "fs/symlink.h"
#include "tests/unit/check.h"
#include "tests/unit/safe_link.h"

#include <errno.h>
#include <stdlib.h>

static const struct link_place top = {TREE_WORKSPACE, 0, 0, true, "/workspace", "demo"};
static const struct link_place deep = {TREE_WORKSPACE, 2, 2, true, "/workspace/a/b", "demo"};
static const struct link_place root = {TREE_ROOTFS, 0, 0, true, "", "demo"};
static const struct link_place etc = {TREE_ROOTFS, 1, 1, true, "/etc", "py@x"};

static void shows(const struct link_place *at, const char *text, const char *want)
{
	char *out = NULL;

	CHECK(symlink_show(at, text, &out) == 0);
	CHECK_STR(out, want);
	CHECK(safe_link(at, out));
	free(out);
}

static void refuses(const struct link_place *at, const char *text, int code)
{
	char *out = NULL;

	CHECK(symlink_show(at, text, &out) == -code);
	CHECK(!out);
}

static void inside_is_unchanged(void)
{
	shows(&top, "f", "f");
	shows(&top, "a/b/c", "a/b/c");
	shows(&top, "./f//g/", "./f//g/");
	shows(&top, "...", "...");
	shows(&top, "..a/b..", "..a/b..");
	shows(&deep, "../../f", "../../f");
	shows(&deep, "./.././../f", "./.././../f");
	shows(&etc, "../bin/sh", "../bin/sh");
}

static void absolute_is_under_rootfs(void)
{
	shows(&top, "/etc/passwd", "../../.sandboxfs/rootfs/demo/etc/passwd");
	shows(&deep, "/etc//./passwd", "../../../../.sandboxfs/rootfs/demo/etc/passwd");
	shows(&top, "/", "../../.sandboxfs/rootfs/demo");
	shows(&top, "/../../etc", "../../.sandboxfs/rootfs/demo/etc");
	shows(&root, "/etc", "etc");
	shows(&root, "/", ".");
	shows(&etc, "/bin/sh", "../bin/sh");
}

static void climbing_is_under_rootfs(void)
{
	shows(&top, "../etc/passwd", "../../.sandboxfs/rootfs/demo/etc/passwd");
	shows(&deep, "../../../x", "../../../../.sandboxfs/rootfs/demo/x");
	shows(&top, "../../../../../x", "../../.sandboxfs/rootfs/demo/x");
	shows(&top, "..", "../../.sandboxfs/rootfs/demo");
	shows(&root, "../../x", "x");
	shows(&etc, "../../../x", "../x");
}

static void up_after_a_name_is_refused(void)
{
	refuses(&top, "a/../b", EPERM);
	refuses(&deep, "a/b/s/../../..", EPERM);
	refuses(&deep, "../a/..", EPERM);
	refuses(&top, "/a/../b", EPERM);
	refuses(&top, "a/./../b", EPERM);
}

/* A directory that is being moved from depth 1 to 3: what is right at both passes. */
static void only_what_is_right_everywhere_passes_on_the_way(void)
{
	static const struct link_place going = {
		TREE_WORKSPACE, 3, 1, false, "/workspace/a/b/d", "demo"};
	static const struct link_place lost = {TREE_WORKSPACE, 0, 0, false, "/workspace", "demo"};

	shows(&going, "f", "f");
	shows(&going, "../f", "../f");
	refuses(&going, "../../f", ESTALE);
	refuses(&going, "../../../../f", ESTALE);
	refuses(&going, "/etc/passwd", ESTALE);
	shows(&lost, "a/f", "a/f");
	refuses(&lost, "../f", ESTALE);
	refuses(&lost, "/etc/passwd", ESTALE);
}

static void too_long_is_refused(void)
{
	char text[4200];

	memset(text, 'x', sizeof(text));
	text[0] = '/';
	text[4095] = 0;
	refuses(&top, text, ENAMETOOLONG);
}

/* The path of the workspace comes from the agent. */
static void a_place_that_lies_leads_nowhere(void)
{
	static const char *const dirs[] = {"/../../../..", "/workspace/../../../x", "//..//..//y/z",
		"..", "/a/b/../../../../c/d"};
	static const char *const texts[] = {
		"../x", "../../x", "/x", "..", "../../../canary/secret"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
			struct link_place at = {TREE_WORKSPACE, 0, 0, true, dirs[i], "demo"};
			char *out = NULL;

			if (symlink_show(&at, texts[k], &out) == 0 && !safe_link(&at, out)) {
				printf("# dir %s, text %s: %s\n", dirs[i], texts[k], out);
				CHECK(!"safe");
			}
			free(out);
		}
}

static void stores(const struct link_place *at, const char *text, const char *want)
{
	char *out = NULL;

	CHECK(symlink_store(at, text, &out) == 0);
	CHECK_STR(out, want);
	free(out);
}

static void what_was_shown_is_stored_as_it_was(void)
{
	stores(&top, "../../.sandboxfs/rootfs/demo/etc/passwd", "/etc/passwd");
	stores(&deep, "../../../../.sandboxfs/rootfs/demo/etc", "/etc");
	stores(&top, "../../.sandboxfs/rootfs/demo", "/");
	stores(&top, "../../.sandboxfs/rootfs/other/etc", "../../.sandboxfs/rootfs/other/etc");
	stores(&top, "../.sandboxfs/rootfs/demo/etc", "../.sandboxfs/rootfs/demo/etc");
	stores(&top, "/etc/passwd", "/etc/passwd");
	stores(&top, "a/../b", "a/../b");
	stores(&top, "f", "f");
}

int main(void)
{
	TEST(inside_is_unchanged);
	TEST(absolute_is_under_rootfs);
	TEST(climbing_is_under_rootfs);
	TEST(up_after_a_name_is_refused);
	TEST(only_what_is_right_everywhere_passes_on_the_way);
	TEST(too_long_is_refused);
	TEST(a_place_that_lies_leads_nowhere);
	TEST(what_was_shown_is_stored_as_it_was);
	return check_done();
}
