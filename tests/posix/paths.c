/* SPDX-License-Identifier: MIT */
/*
 * What every call with a path must say about the path itself: each call of a table against each way
 * in which a path can be wrong, or just right.
 */
#include "tests/posix/posix.h"

#include <limits.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

/* Helpers of the calls with two paths; "open" is a directory where everybody may write. */
#define SOURCE "open/source"
#define TARGET "open/target"

enum {
	CREATES = 1,	  /* the name must not be there; else it must */
	NEEDS_DIR = 2,	  /* a directory, not a file */
	NEEDS_LINK = 4,	  /* a symlink */
	FOLLOWS = 8,	  /* a symlink that is the last component is followed */
	WITH_SOURCE = 16, /* needs SOURCE: a file */
	WITH_ATTR = 32,	  /* needs the attribute user.posix */
	MAKES_DIR = 64,	  /* what it creates is a directory */
};

#define ONE(name_, expr)                        \
	static struct call name_(const char *p) \
	{                                       \
		return expr;                    \
	}

static const struct timespec some_time[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};

ONE(p_open, c_open(p, O_RDONLY, 0))
ONE(p_open_w, c_open(p, O_WRONLY, 0))
ONE(p_creat, c_open(p, O_WRONLY | O_CREAT | O_TRUNC, 0644))
ONE(p_excl, c_open(p, O_RDWR | O_CREAT | O_EXCL, 0644))
ONE(p_mkdir, c_mkdir(p, 0755))
ONE(p_mkfifo, c_mkfifo(p, 0644))
ONE(p_mknod, c_mknod(p, S_IFREG | 0644, 0))
ONE(p_mksock, c_mknod(p, S_IFSOCK | 0644, 0))
ONE(p_symlink, c_symlink("text", p))
ONE(p_link_from, c_link(p, TARGET))
ONE(p_link_to, c_link(SOURCE, p))
ONE(p_rename_from, c_rename(p, TARGET))
ONE(p_rename_to, c_rename(SOURCE, p))
ONE(p_noreplace, c_rename2(SOURCE, p, RENAME_NOREPLACE))
ONE(p_exchange, c_rename2(SOURCE, p, RENAME_EXCHANGE))
ONE(p_unlink, c_unlink(p))
ONE(p_rmdir, c_rmdir(p))
ONE(p_chmod, c_chmod(p, 0644))
ONE(p_chown, c_chown(p, -1, 65534))
ONE(p_lchown, c_lchown(p, -1, 65534))
ONE(p_truncate, c_truncate(p, 7))
ONE(p_utimens, c_utimens(p, some_time, 0))
ONE(p_lutimens, c_utimens(p, some_time, AT_SYMLINK_NOFOLLOW))
ONE(p_access, c_access(p, F_OK))
ONE(p_stat, c_stat(p))
ONE(p_lstat, c_lstat(p))
ONE(p_statfs, c_statfs(p))
ONE(p_readlink, c_readlink(p))
ONE(p_chdir, c_chdir(p))
ONE(p_opendir, c_opendir(p))
ONE(p_getxattr, c_getxattr(p, "user.posix"))
ONE(p_setxattr, c_setxattr(p, "user.posix", 0))
ONE(p_removexattr, c_removexattr(p, "user.posix"))
ONE(p_listxattr, c_listxattr(p))

static const struct subject {
	struct call (*call)(const char *path);
	unsigned flags;
} subjects[] = {
	{p_open, FOLLOWS},
	{p_open_w, FOLLOWS},
	{p_creat, CREATES | FOLLOWS},
	{p_excl, CREATES},
	{p_mkdir, CREATES | MAKES_DIR},
	{p_mkfifo, CREATES},
	{p_mknod, CREATES},
	{p_mksock, CREATES},
	{p_symlink, CREATES},
	{p_link_from, 0},
	{p_link_to, CREATES | WITH_SOURCE},
	{p_rename_from, 0},
	{p_rename_to, CREATES | WITH_SOURCE},
	{p_noreplace, CREATES | WITH_SOURCE},
	{p_exchange, WITH_SOURCE},
	{p_unlink, 0},
	{p_rmdir, NEEDS_DIR},
	{p_chmod, FOLLOWS},
	{p_chown, FOLLOWS},
	{p_lchown, 0},
	{p_truncate, FOLLOWS},
	{p_utimens, FOLLOWS},
	{p_lutimens, 0},
	{p_access, FOLLOWS},
	{p_stat, FOLLOWS},
	{p_lstat, 0},
	{p_statfs, FOLLOWS},
	{p_readlink, NEEDS_LINK},
	{p_chdir, NEEDS_DIR | FOLLOWS},
	{p_opendir, NEEDS_DIR | FOLLOWS},
	{p_getxattr, WITH_ATTR},
	{p_setxattr, 0},
	{p_removexattr, WITH_ATTR},
	{p_listxattr, 0},
};

#define each_subject(s)                                        \
	const struct subject *s = subjects;                    \
	s < subjects + sizeof(subjects) / sizeof(subjects[0]); \
	s++

/* So that the call can succeed at PATH, made by OWNER. */
static void prepare(const struct subject *s, const char *path, struct who owner)
{
	if (s->flags & WITH_SOURCE)
		make_for(REG, SOURCE, owner);
	if (s->flags & CREATES)
		return;
	make_for(s->flags & NEEDS_DIR ? DIR_ : s->flags & NEEDS_LINK ? LINK : REG, path, owner);
	if (s->flags & WITH_ATTR)
		lsetxattr(path, "user.posix", "value", 5, 0); /* the test will tell */
}

static void tidy(const struct subject *s, const char *path)
{
	wipe(path);
	if (s->flags & WITH_SOURCE)
		wipe(SOURCE);
	if (s->call == p_rename_from || s->call == p_link_from)
		wipe(TARGET);
}

static void make_open(void)
{
	must(c_mkdir("open", 0777));
}

/* --- paths ------------------------------------------------------------------------------------ */

/* A component that is no directory, or not there, or a link that leads to such. */
static void wrong_component(const struct subject *s)
{
	if (s->flags & WITH_SOURCE)
		make(REG, SOURCE);
	for (each_kind(k)) {
		if (k == DIR_ || k == LINK)
			continue;
		want(ENOTDIR, ROOT, s->call(at("kind%d/x", (int)k)));
		want(ENOTDIR, ROOT, s->call(at("kind%d/x/y", (int)k)));
		want(ENOTDIR, ROOT, s->call(at("to_kind%d/x", (int)k)));
	}
	want(ENOENT, ROOT, s->call(at("%s/x", name())));
	want(ENOENT, ROOT, s->call(at("open/%s/x/y", name())));
	want(ENOENT, ROOT, s->call("dangling/x"));
	want(ENOENT, ROOT, s->call(""));
	want(ELOOP, ROOT, s->call("loop1/x"));
	want(ELOOP, ROOT, s->call("self/x"));
	if (!(s->flags & CREATES))
		want(ENOENT, ROOT, s->call(name()));
	if (s->flags & FOLLOWS) {
		want(ELOOP, ROOT, s->call("loop1"));
		want(ELOOP, ROOT, s->call("self"));
	}
	if ((s->flags & FOLLOWS) && !(s->flags & CREATES))
		want(ENOENT, ROOT, s->call("dangling"));
	tidy(s, "none");
}

/* Through symlinks to directories, with `.`, `..` and doubled slashes: it must succeed. */
static void right_component(const struct subject *s)
{
	static const char *const ways[] = {"dir/%s", "to_dir/%s", "./dir/%s", "dir/../dir/%s",
		"dir//%s", "to_to_dir/%s", "dir/sub/../%s", "to_dir/sub/up/%s"};
	const char *n = name(), *path = at("dir/%s", n);

	for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
		char text[64];

		snprintf(text, sizeof(text), "%.*s%s", (int)(strlen(ways[k]) - 2), ways[k], n);
		prepare(s, path, ROOT);
		want(0, ROOT, s->call(at("%s", text)));
		tidy(s, path);
	}
}

/* A slash at the end asks for a directory. */
static void trailing_slash(const struct subject *s)
{
	const char *n = name(), *slash = at("%s/", n);
	bool dir = s->flags & (NEEDS_DIR | MAKES_DIR);

	prepare(s, n, ROOT);
	if (dir)
		want(0, ROOT, s->call(slash));
	else if (s->flags & NEEDS_LINK)
		want(ENOENT, ROOT, s->call(slash)); /* the link is followed, to nothing */
	else if (s->call == p_creat || s->call == p_excl)
		want(EISDIR, ROOT, s->call(slash));
	else if (s->call == p_rename_to || s->call == p_noreplace)
		want(ENOTDIR, ROOT, s->call(slash));
	else if (s->flags & CREATES)
		want(ENOENT, ROOT, s->call(slash));
	else
		want(ENOTDIR, ROOT, s->call(slash));
	if (!dir && (s->flags & CREATES))
		is_gone(n);
	tidy(s, n);
}

/* Search permission on each directory of the path, for owner, group, extra group and others. */
static const struct searched {
	const char *dir;
	struct who owner, caller;
	mode_t yes, no;
} searched[] = {
	{"s0", ID(65534, 65534), ID(65534, 65534), 0700, 0677},
	{"s1", ID(0, 65534), ID(65534, 65534), 0070, 0767},
	{"s2", ID(0, 65532), ID(65534, 65534, 65532), 0070, 0767},
	{"s3", ID(0, 65531), ID(65534, 65534, 65530, 65532, 65531), 0070, 0767},
	{"s4", ID(0, 0), ID(65534, 65534), 0007, 0776},
	{"s5", ID(0, 0), ID(65534, 65534, 65532), 0007, 0776},
};

enum { SEARCHED = sizeof(searched) / sizeof(searched[0]) };

static void search(const struct subject *s)
{
	struct who nobody = NOBODY;

	for (const struct searched *d = searched; d < searched + SEARCHED; d++) {
		const char *p = at("%s/deep/%s", d->dir, name());

		prepare(s, p, nobody);
		must(c_chmod(d->dir, d->no));
		want(EACCES, d->caller, s->call(p));
		must(c_chmod(d->dir, d->yes));
		want(0, d->caller, s->call(p));
		tidy(s, p);
	}
}

void topic_paths(void)
{
	make_open();
	must(c_mkdir("dir", 0755));
	must(c_mkdir("dir/sub", 0755));
	must(c_symlink("..", "dir/sub/up"));
	must(c_symlink("dir", "to_dir"));
	must(c_symlink("to_dir", "to_to_dir"));
	must(c_symlink("nothing/there", "dangling"));
	must(c_symlink("self", "self"));
	must(c_symlink("loop2", "loop1"));
	must(c_symlink("loop1", "loop2"));
	for (each_kind(k)) {
		if (k == DIR_ || k == LINK)
			continue;
		make(k, at("kind%d", (int)k));
		must(c_symlink(at("kind%d", (int)k), at("to_kind%d", (int)k)));
	}
	for (int k = 0; k < SEARCHED; k++) {
		make_for(DIR_, searched[k].dir, searched[k].owner);
		must(c_mkdir(at("%s/deep", searched[k].dir), 0777));
	}
	for (each_subject(s)) {
		wrong_component(s);
		right_component(s);
		trailing_slash(s);
		search(s);
	}
	for (each_kind(k))
		if (k != DIR_ && k != LINK)
			is_kind(at("kind%d", (int)k), k);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void component_length(const struct subject *s)
{
	static const size_t too_long[] = {256, 257, 1023, 1024, 1025, 4000};
	const char *longest = of_length(NAME_MAX);

	prepare(s, longest, ROOT);
	want(0, ROOT, s->call(longest));
	tidy(s, longest);
	for (size_t k = 0; k < sizeof(too_long) / sizeof(too_long[0]); k++) {
		const char *n = of_length(too_long[k]);

		if (s->flags & WITH_SOURCE)
			make(REG, SOURCE);
		want(ENAMETOOLONG, ROOT, s->call(n));
		want(ENAMETOOLONG, ROOT, s->call(at("open/%s", n)));
		want(ENAMETOOLONG, ROOT, s->call(at("%s/x", n)));
		tidy(s, "none");
	}
}

/* Real directories all the way; DEEP has 3900 bytes. */
static void path_length(const struct subject *s, const char *deep)
{
	size_t rest = PATH_MAX - 1 - strlen(deep) - 1;
	const char *fits = at("%s/%s", deep, of_length(rest));
	const char *over = at("%s/%s", deep, of_length(rest + 1));

	prepare(s, fits, ROOT);
	want(0, ROOT, s->call(fits));
	tidy(s, fits);
	if (s->flags & WITH_SOURCE)
		make(REG, SOURCE);
	want(ENAMETOOLONG, ROOT, s->call(over));
	want(ENAMETOOLONG, ROOT, s->call(of_length(PATH_MAX)));
	tidy(s, "none");
}

/* 40 links are followed, 41 are not: Linux's number. */
static void link_count(void)
{
	const char *last = name();

	make(REG, last);
	for (int k = 1; k <= 41; k++) {
		const char *n = at("chain%d", k);

		must(c_symlink(last, n));
		last = n;
	}
	want(0, ROOT, c_stat("chain39"));
	want(0, ROOT, c_stat("chain40"));
	want(ELOOP, ROOT, c_stat("chain41"));
	want(0, ROOT, c_open("chain40", O_RDWR, 0));
	want(ELOOP, ROOT, c_open("chain41", O_RDWR, 0));
	want(0, ROOT, c_lstat("chain41"));
}

void topic_limits(void)
{
	const char *deep = "deep", *part = of_length(240);

	make_open();
	must(c_mkdir(deep, 0755));
	while (strlen(deep) < 3800) {
		deep = at("%s/%s", deep, part);
		must(c_mkdir(deep, 0755));
	}
	deep = at("%s/%s", deep, of_length(3900 - 1 - strlen(deep)));
	must(c_mkdir(deep, 0755));
	for (each_subject(s)) {
		component_length(s);
		path_length(s, deep);
	}
	link_count();
}

/* --- pointers --------------------------------------------------------------------------------- */

/* By syscall(): a C library, or a sanitizer in it, may read the string itself. */
void topic_pointers(void)
{
	static const struct {
		const char *name;
		long number, a, b, c;
	} calls[] = {
		{"mkdir", SYS_mkdirat, 0, 0755, 0},
		{"mknod", SYS_mknodat, 0, S_IFIFO | 0644, 0},
		{"unlink", SYS_unlinkat, 0, 0, 0},
		{"rmdir", SYS_unlinkat, 0, AT_REMOVEDIR, 0},
		{"open", SYS_openat, 0, O_RDONLY, 0},
		{"create", SYS_openat, 0, O_RDWR | O_CREAT, 0644},
		{"chmod", SYS_fchmodat, 0, 0644, 0},
		{"chown", SYS_fchownat, 0, 0, 0},
		{"access", SYS_faccessat, 0, 0, 0},
		{"utimens", SYS_utimensat, 0, (long)some_time, 0},
	};
	static const long bad[] = {1, -1L, -4096L};
	struct stat st;
	char buf[16];

	make(REG, "file");
	for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
		for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
			long r = syscall(
				calls[k].number, AT_FDCWD, bad[b], calls[k].b, calls[k].c, 0);

			equals(r < 0 ? errno : 0, EFAULT, "errno of %s with a wild pointer",
				calls[k].name);
		}
		equals(syscall(SYS_truncate, bad[b], 5) < 0 ? errno : 0, EFAULT,
			"errno of truncate");
		equals(syscall(SYS_symlinkat, bad[b], AT_FDCWD, "l") < 0 ? errno : 0, EFAULT,
			"errno of symlink, text");
		equals(syscall(SYS_symlinkat, "l", AT_FDCWD, bad[b]) < 0 ? errno : 0, EFAULT,
			"errno of symlink, path");
		equals(syscall(SYS_linkat, AT_FDCWD, bad[b], AT_FDCWD, "l", 0) < 0 ? errno : 0,
			EFAULT, "errno of link, from");
		equals(syscall(SYS_linkat, AT_FDCWD, "file", AT_FDCWD, bad[b], 0) < 0 ? errno : 0,
			EFAULT, "errno of link, to");
		equals(syscall(SYS_renameat2, AT_FDCWD, bad[b], AT_FDCWD, "l", 0) < 0 ? errno : 0,
			EFAULT, "errno of rename, from");
		equals(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, bad[b], 0) < 0 ? errno
											 : 0,
			EFAULT, "errno of rename, to");
		equals(syscall(SYS_newfstatat, AT_FDCWD, bad[b], &st, 0) < 0 ? errno : 0, EFAULT,
			"errno of stat, path");
		equals(syscall(SYS_newfstatat, AT_FDCWD, "file", bad[b], 0) < 0 ? errno : 0, EFAULT,
			"errno of stat, buffer");
		equals(syscall(SYS_readlinkat, AT_FDCWD, bad[b], buf, sizeof(buf)) < 0 ? errno : 0,
			EFAULT, "errno of readlink");
		equals(syscall(SYS_utimensat, AT_FDCWD, "file", bad[b], 0) < 0 ? errno : 0, EFAULT,
			"errno of utimensat, times");
	}
	is_kind("file", REG);
	is_gone("l");
}
