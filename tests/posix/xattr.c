/* SPDX-License-Identifier: MIT */
/* Extended attributes of users; access control lists: as values that come back as they were, and
 * what they allow. */
#include "tests/posix/posix.h"

#include <limits.h>
#include <sys/xattr.h>

static char value[70000], got[70000];

static int err_of(long r)
{
	return r < 0 ? errno : 0;
}

static void round_trip(const char *path, const char *attr, size_t size)
{
	for (size_t k = 0; k < size; k++)
		value[k] = (char)(k * 7 + size);
	equals(err_of(lsetxattr(path, attr, value, size, 0)), 0, "errno of setting %zu bytes",
		size);
	equals(lgetxattr(path, attr, NULL, 0), (long long)size, "size of the value");
	memset(got, '!', sizeof(got));
	equals(lgetxattr(path, attr, got, sizeof(got)), (long long)size, "bytes read");
	holds(memcmp(got, value, size) == 0, "%zu bytes come back as they were", size);
	if (size > 1) /* 0 asks for the size */
		equals(err_of(lgetxattr(path, attr, got, size - 1)), ERANGE,
			"errno with a buffer one byte too short");
}

static bool listed(const char *path, const char *attr)
{
	ssize_t n = llistxattr(path, got, sizeof(got));

	for (ssize_t k = 0; k < n; k += (ssize_t)strlen(got + k) + 1)
		if (strcmp(got + k, attr) == 0)
			return true;
	return false;
}

static void life(enum kind k)
{
	static const size_t sizes[] = {0, 1, 5, 100, 255, 256, 1000, 2000};
	const char *n = name(), *a = "user.posix";
	struct stamp s;

	make(k, n);
	equals(llistxattr(n, NULL, 0), 0, "size of the list at first");
	want(ENODATA, ROOT, c_getxattr(n, a));
	want(ENODATA, ROOT, c_removexattr(n, a));
	want(ENODATA, ROOT, c_setxattr(n, a, XATTR_REPLACE));
	s = stamp(n);
	tick();
	want(0, ROOT, c_setxattr(n, a, XATTR_CREATE));
	times(s, "AMc");
	want(EEXIST, ROOT, c_setxattr(n, a, XATTR_CREATE));
	s = stamp(n);
	tick();
	want(0, ROOT, c_getxattr(n, a));
	want(0, ROOT, c_listxattr(n));
	times(s, "AMC");
	want(0, ROOT, c_setxattr(n, a, XATTR_REPLACE)); /* by the same value */
	times(s, "AM");
	holds(listed(n, a), "it is listed");
	equals(llistxattr(n, NULL, 0), (long long)strlen(a) + 1, "size of the list");
	equals(err_of(llistxattr(n, got, 3)), ERANGE, "errno of a list into 3 bytes");
	for (size_t z = 0; z < sizeof(sizes) / sizeof(sizes[0]); z++)
		round_trip(n, a, sizes[z]);
	for (int i = 0; i < 10; i++)
		want(0, ROOT, c_setxattr(n, at("user.n%d", i), 0));
	for (int i = 0; i < 10; i++)
		holds(listed(n, at("user.n%d", i)), "one of many is listed");
	s = stamp(n);
	tick();
	want(0, ROOT, c_removexattr(n, a));
	times(s, "AMc");
	want(ENODATA, ROOT, c_getxattr(n, a));
	want(ENODATA, ROOT, c_removexattr(n, a));
	holds(!listed(n, a) && listed(n, "user.n5"), "only that one is gone");
	want(EINVAL, ROOT, c_setxattr(n, "user.x", XATTR_CREATE | XATTR_REPLACE | 16));
}

static void wrong_names(void)
{
	make(REG, "names");
	want(0, ROOT, c_setxattr("names", at("user.%s", of_length(250)), 0));
	want(0, ROOT, c_getxattr("names", at("user.%s", of_length(250))));
	want(ERANGE, ROOT, c_setxattr("names", at("user.%s", of_length(251)), 0));
	want(ERANGE, ROOT, c_getxattr("names", at("user.%s", of_length(251))));
	want(EOPNOTSUPP, ROOT, c_setxattr("names", "nonsense.x", 0));
	want(EOPNOTSUPP, ROOT, c_getxattr("names", "nonsense.x"));
	want(EINVAL, ROOT, c_setxattr("names", "user.", 0));
	want(ERANGE, ROOT, c_setxattr("names", "", 0));
	equals(err_of(setxattr("names", "user.big", value, 65537, 0)), E2BIG,
		"errno of 65537 bytes");
	want(ENODATA, ROOT, c_getxattr("names", "user.big"));
	want(0, ROOT, c_setxattr("names", "user.with space\xff\n", 0));
	holds(listed("names", "user.with space\xff\n"), "odd bytes in a name");
}

/* Only files and directories have user attributes. */
static void wrong_kinds(void)
{
	for (each_kind(k)) {
		const char *n = name();

		if (k == REG || k == DIR_)
			continue;
		make(k, n);
		want(EPERM, ROOT, c_setxattr(n, "user.posix", 0));
		want_either(ENODATA, EPERM, ROOT, c_getxattr(n, "user.posix"));
		want(0, ROOT, c_listxattr(n));
	}
}

/* Reading needs r, changing needs w; in a sticky directory only its owner changes its own. */
static void xattr_rights(void)
{
	static const struct {
		struct who caller;
		mode_t mode;
		int get, set;
	} cases[] = {
		{ID(65534, 65534), 0600, 0, 0},
		{ID(65534, 65534), 0400, 0, EACCES},
		{ID(65534, 65534), 0200, EACCES, 0},
		{ID(65534, 65534), 0066, EACCES, EACCES},
		{ID(65533, 65534), 0640, 0, EACCES},
		{ID(65533, 65533, 65534), 0620, EACCES, 0},
		{ID(65533, 65533, 65534), 0660, 0, 0},
		{ID(65533, 65533, 65532), 0660, EACCES, EACCES},
		{ID(65533, 65533), 0666, 0, 0},
		{ID(65533, 65533), 0664, 0, EACCES},
		{ID(0, 0), 0, 0, 0},
	};

	for (enum kind k = REG; k <= DIR_; k++) {
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
			const char *n = name();

			make_for(k, n, WHO(65534, 65534));
			lsetxattr(n, "user.there", "x", 1, 0);
			must(c_chmod(n, cases[c].mode));
			want(cases[c].get, cases[c].caller, c_getxattr(n, "user.there"));
			want(cases[c].set, cases[c].caller, c_setxattr(n, "user.new", 0));
			want(cases[c].set, cases[c].caller, c_removexattr(n, "user.there"));
			want(0, cases[c].caller, c_listxattr(n));
		}
	}
	make_for(DIR_, "sticky", WHO(65534, 65534));
	must(c_chmod("sticky", 01777));
	want(EPERM, OTHER, c_setxattr("sticky", "user.x", 0));
	want(0, NOBODY, c_setxattr("sticky", "user.x", 0));
	want(0, OTHER, c_getxattr("sticky", "user.x"));
}

/* They belong to the file, not to the name; a new file has none. */
static void with_the_file(void)
{
	make(REG, "one");
	want(0, ROOT, c_setxattr("one", "user.posix", 0));
	must(c_link("one", "two"));
	must(c_rename("one", "three"));
	want(0, ROOT, c_getxattr("two", "user.posix"));
	want(0, ROOT, c_getxattr("three", "user.posix"));
	want(0, ROOT, c_removexattr("two", "user.posix"));
	want(ENODATA, ROOT, c_getxattr("three", "user.posix"));
	want(0, ROOT, c_setxattr("two", "user.posix", 0));
	must(c_unlink("two"));
	must(c_unlink("three"));
	make(REG, "two");
	want(ENODATA, ROOT, c_getxattr("two", "user.posix"));
	/* Through a link: getxattr follows, lgetxattr does not. */
	must(c_symlink("two", "link"));
	equals(err_of(setxattr("link", "user.posix", "v", 1, 0)), 0, "errno of setxattr by a link");
	equals(getxattr("link", "user.posix", got, 10), 1, "getxattr by a link");
	want(0, ROOT, c_getxattr("two", "user.posix"));
}

void topic_xattr(void)
{
	life(REG);
	life(DIR_);
	wrong_names();
	wrong_kinds();
	xattr_rights();
	with_the_file();
}

/* --- access control lists
 * ------------------------------------------------------------------------------ */

struct acl_entry {
	unsigned short tag, perm;
	unsigned id;
};

enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHERS = 32 };

struct acl {
	unsigned version; /* 2 */
	struct acl_entry e[6];
};

static const char *const access_ = "system.posix_acl_access", *const default_ =
								      "system.posix_acl_default";

/* rw- for the owner, user 65533 and group 65532 named, mask. */
static const struct acl list = {2, {{USER_OBJ, 6, -1U}, {USER, 6, 65533}, {GROUP_OBJ, 4, -1U},
					   {GROUP, 4, 65532}, {MASK, 6, -1U}, {OTHERS, 0, -1U}}};
/* All to others, nothing to user 65533 and group 65532. */
static const struct acl against = {2, {{USER_OBJ, 6, -1U}, {USER, 0, 65533}, {GROUP_OBJ, 7, -1U},
					      {GROUP, 0, 65532}, {MASK, 7, -1U}, {OTHERS, 7, -1U}}};

static void acl_on(const char *path, const char *attr)
{
	struct acl back = {0};

	want(ENODATA, ROOT, c_getxattr(path, attr));
	equals(err_of(setxattr(path, attr, &list, sizeof(list), 0)), 0, "errno of setting %s",
		attr);
	equals(getxattr(path, attr, &back, sizeof(back)), sizeof(list), "size of %s", attr);
	holds(memcmp(&back, &list, sizeof(list)) == 0, "%s comes back as it was", attr);
	holds(listed(path, attr), "%s is listed", attr);
}

static int set_list(const void *path)
{
	return err_of(setxattr(path, access_, &list, sizeof(list), 0));
}

/* RIGHTS as 4 read, 2 write: what w has, by open and by access. */
static void may(struct who w, const char *path, int rights)
{
	want(rights & 4 ? 0 : EACCES, w, c_open(path, O_RDONLY, 0));
	want(rights & 2 ? 0 : EACCES, w, c_open(path, O_WRONLY, 0));
	want((rights & 6) == 6 ? 0 : EACCES, w, c_open(path, O_RDWR, 0));
	want(rights & 4 ? 0 : EACCES, w, c_access(path, R_OK));
	want(rights & 2 ? 0 : EACCES, w, c_access(path, W_OK));
}

/* The list, not the mode, says what those may who are not the owner. */
static void allowed(void)
{
	struct who named = OTHER, in = WHO(65531, 65532), also_in = WHO(65531, 65531, 65532),
		   group = WHO(65531, 65534), stranger = WHO(65531, 65531);

	make_for(REG, "rights", WHO(65534, 65534));
	must(c_chmod("rights", 0600));
	may(named, "rights", 0);
	equals(set_list("rights"), 0, "errno of setting it");
	may(NOBODY, "rights", 6);
	may(named, "rights", 6);
	may(in, "rights", 4);
	may(also_in, "rights", 4);
	may(group, "rights", 4); /* though the mode is 0660 */
	may(stranger, "rights", 0);
	may(ROOT, "rights", 6);
	must(c_chmod("rights", 0640)); /* the mask */
	may(named, "rights", 4);
	must(c_chmod("rights", 0600));
	may(named, "rights", 0);
	may(in, "rights", 0);
	equals(err_of(setxattr("rights", access_, &against, sizeof(against), 0)), 0,
		"errno of another list");
	may(named, "rights", 0); /* though the mode is 0677 */
	may(in, "rights", 0);
	may(stranger, "rights", 6);
	must(c_removexattr("rights", access_));
	may(named, "rights", 6);
	make_for(DIR_, "search", WHO(65534, 65534));
	make(REG, "search/f");
	equals(err_of(setxattr("search", access_, &against, sizeof(against), 0)), 0,
		"errno of one for a directory");
	want(0, stranger, c_stat("search/f"));
	want(EACCES, named, c_stat("search/f"));
	want(EACCES, named, c_opendir("search"));
	want(EACCES, also_in, c_unlink("search/f"));
	want(0, stranger, c_unlink("search/f"));
}

/* What is made in a directory with a default list has it, and no umask counts. */
static void inherited(void)
{
	struct who maker = masked(NOBODY, 077);

	make(DIR_, "heirs");
	must(c_chmod("heirs", 0777));
	want(0, maker, c_open("heirs/before", O_CREAT | O_WRONLY, 0666));
	is_mode("heirs/before", 0600);
	equals(err_of(setxattr("heirs", default_, &list, sizeof(list), 0)), 0,
		"errno of setting a default");
	want(0, maker, c_open("heirs/file", O_CREAT | O_WRONLY, 0666));
	is_mode("heirs/file", 0660);
	may(OTHER, "heirs/file", 6);
	want(0, maker, c_open("heirs/closed", O_CREAT | O_WRONLY, 0640));
	is_mode("heirs/closed", 0640);
	may(OTHER, "heirs/closed", 4);
	want(0, maker, c_mkfifo("heirs/fifo", 0666));
	is_mode("heirs/fifo", 0660);
	want(0, maker, c_mkdir("heirs/dir", 0777));
	is_mode("heirs/dir", 0660);
	equals(getxattr("heirs/dir", default_, NULL, 0), sizeof(list), "size of the heir's own");
	must(c_removexattr("heirs", default_));
	want(0, maker, c_open("heirs/after", O_CREAT | O_WRONLY, 0666));
	is_mode("heirs/after", 0600);
}

void topic_acl(void)
{
	struct stamp s;

	make_for(REG, "file", WHO(65534, 65534));
	s = stamp("file");
	tick();
	acl_on("file", access_);
	times(s, "AMc");
	is_mode("file", 0660); /* the mask is what the mode shows for the group */
	equals(run_as(OTHER, set_list, "file"), EPERM, "errno of a stranger");
	equals(run_as(NOBODY, set_list, "file"), 0, "errno of the owner");
	must(c_chmod("file", 0640));
	is_mode("file", 0640);
	want_either(EINVAL, EOPNOTSUPP, ROOT, c_setxattr("file", access_, 0)); /* nonsense */
	equals(err_of(setxattr("file", access_, &list, sizeof(list) - 4, 0)), EINVAL,
		"errno of a part");
	want(0, ROOT, c_removexattr("file", access_));
	want(ENODATA, ROOT, c_getxattr("file", access_));
	equals(err_of(setxattr("file", default_, &list, sizeof(list), 0)), EACCES,
		"errno of a default for a file");
	make(DIR_, "dir");
	acl_on("dir", default_);
	acl_on("dir", access_);
	is_mode("dir", 0660);
	want(0, ROOT, c_removexattr("dir", default_));
	want(ENODATA, ROOT, c_getxattr("dir", default_));
	equals(getxattr("dir", access_, NULL, 0), sizeof(list), "size of the other");
	allowed();
	inherited();
}
