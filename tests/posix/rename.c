/* SPDX-License-Identifier: MIT */
/* rename, and renameat2's flags. What directories and sticky bits forbid is in rights.c and
 * sticky.c. */
#include "tests/posix/posix.h"

#include <linux/fs.h>

static ino_t ino_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 ? 0 : st.st_ino;
}

/* To a name that is free: in the same directory, then in another. */
static void to_free_name(enum kind k)
{
	const char *d1 = name(), *d2 = name();
	const char *a = at("%s/a", d1), *b = at("%s/b", d1), *c = at("%s/c", d2);
	struct stamp dir1, dir2, file;
	ino_t ino;

	make(DIR_, d1);
	make(DIR_, d2);
	make_for(k, a, WHO(65533, 65532));
	ino = ino_of(a);
	dir1 = stamp(d1);
	file = stamp(a);
	tick();
	want(0, ROOT, c_rename(a, b));
	is_gone(a);
	is_kind(b, k);
	is_owner(b, 65533, 65532);
	equals((long long)ino_of(b), (long long)ino, "inode number");
	times(dir1, "Amc");
	file.path = b;
	times(file, "AMc");
	dir1 = stamp(d1);
	dir2 = stamp(d2);
	tick();
	want(0, ROOT, c_rename(b, c));
	is_gone(b);
	is_kind(c, k);
	equals((long long)ino_of(c), (long long)ino, "inode number");
	times(dir1, "Amc");
	times(dir2, "Amc");
	is_links(c, k == DIR_ ? 2 : 1);
	is_links(d1, 2);
	is_links(d2, k == DIR_ ? 3 : 2);
	want(ENOENT, ROOT, c_rename(a, b));
	want(ENOENT, ROOT, c_rename(b, c));
	is_kind(c, k);
}

/* Over each other kind. */
static void over(enum kind from, enum kind to)
{
	const char *d1 = name(), *d2 = name(), *a = at("%s/a", d1), *b = at("%s/b", d2);
	int err = from == DIR_ && to != DIR_ ? ENOTDIR : from != DIR_ && to == DIR_ ? EISDIR : 0;
	struct stamp dir1, dir2, file;
	ino_t ino;

	make(DIR_, d1);
	make(DIR_, d2);
	make(from, a);
	make(to, b);
	ino = ino_of(a);
	dir1 = stamp(d1);
	dir2 = stamp(d2);
	file = stamp(a);
	tick();
	want(err, ROOT, c_rename(a, b));
	if (err) {
		is_kind(a, from);
		is_kind(b, to);
		times(dir1, "AMC");
		times(dir2, "AMC");
		times(file, "AMC");
	} else {
		is_gone(a);
		is_kind(b, from);
		equals((long long)ino_of(b), (long long)ino, "inode number");
		times(dir1, "Amc");
		times(dir2, "Amc");
		is_links(d1, 2);
		is_links(d2, from == DIR_ ? 3 : 2);
	}
}

static void replaced_loses_a_link(enum kind k)
{
	const char *a = name(), *b = name(), *c = name();
	struct stamp left;

	make(k, a);
	make(k, b);
	must(c_link(b, c));
	is_links(c, 2);
	left = stamp(c);
	tick();
	want(0, ROOT, c_rename(a, b));
	is_links(c, 1);
	times(left, "AMc");
	/* Two names of one file: nothing happens, and that is a success. */
	must(c_link(c, a));
	want(0, ROOT, c_rename(a, c));
	is_kind(a, k);
	is_same_file(a, c);
	is_links(c, 2);
	want(0, ROOT, c_rename(c, c));
	is_links(c, 2);
}

static void directories(void)
{
	make(DIR_, "d");
	make(DIR_, "d/sub");
	make(DIR_, "d/sub/sub");
	make(DIR_, "other");
	make(REG, "file");
	want(EINVAL, ROOT, c_rename("d", "d/sub/x"));
	want(EINVAL, ROOT, c_rename("d", "d/x"));
	want(EINVAL, ROOT, c_rename("d", "d/sub"));
	want(EINVAL, ROOT, c_rename("d", "d/sub/sub"));
	want(EINVAL, ROOT, c_rename("d/sub", "d/sub/sub/x"));
	want_either(ENOTEMPTY, EEXIST, ROOT, c_rename("d/sub", "d"));
	want_either(ENOTEMPTY, EEXIST, ROOT, c_rename("d/sub/sub", "d"));
	want_either(ENOTEMPTY, EEXIST, ROOT, c_rename("other", "d"));
	want_either(EBUSY, EINVAL, ROOT, c_rename("d/.", "x"));
	want_either(EBUSY, EINVAL, ROOT, c_rename("d/sub/..", "x"));
	want_either(EBUSY, EINVAL, ROOT, c_rename(".", "x"));
	want_either(EBUSY, EINVAL, ROOT, c_rename("..", "x"));
	want_either(EBUSY, EEXIST, ROOT, c_rename("other", "d/."));
	want_either(EBUSY, EEXIST, ROOT, c_rename("other", "d/sub/.."));
	want(ENOTDIR, ROOT, c_rename("d", "file"));
	want(EISDIR, ROOT, c_rename("file", "d"));
	want(ENOTDIR, ROOT, c_rename("file", "new/"));
	want(0, ROOT, c_rename("other/", "new/"));
	is_kind("new", DIR_);
	want(0, ROOT, c_rename("d", "d"));
	/* The whole tree comes along, and `..` is the new parent. */
	is_links("d", 3);
	is_links("new", 2);
	want(0, ROOT, c_rename("d", "new/d"));
	is_kind("new/d/sub/sub", DIR_);
	is_links("new", 3);
	is_same_file("new/d/..", "new");
	is_same_file("new/d/sub/../..", "new");
	make(DIR_, "empty");
	want(0, ROOT, c_rename("new/d", "empty"));
	is_kind("empty/sub/sub", DIR_);
	is_links("new", 2);
	is_same_file("empty/..", ".");
	for (each_kind(k)) {
		const char *d = name(), *full = name();

		make(DIR_, d);
		make(DIR_, full);
		make(k, at("%s/n", full));
		want_either(ENOTEMPTY, EEXIST, ROOT, c_rename(d, full));
		is_kind(at("%s/n", full), k);
		is_kind(d, DIR_);
	}
}

/* A directory that changes its parent must be writable itself, since its `..` changes. */
static void directory_rights(void)
{
	struct who nobody = NOBODY;

	must(c_mkdir("p1", 0777));
	must(c_mkdir("p2", 0777));
	make_for(DIR_, "p1/d", nobody);
	must(c_chmod("p1/d", 0555));
	want(EACCES, NOBODY, c_rename("p1/d", "p2/d"));
	want(EACCES, OTHER, c_rename("p1/d", "p2/d"));
	want(0, NOBODY, c_rename("p1/d", "p1/e"));
	must(c_chmod("p1/e", 0755));
	want(EACCES, OTHER, c_rename("p1/e", "p2/d"));
	want(0, NOBODY, c_rename("p1/e", "p2/d"));
	must(c_chmod("p2/d", 0575));
	must(c_chown("p2/d", 0, 65534));
	want(0, WHO(65533, 65533, 65534), c_rename("p2/d", "p1/d"));
	is_links("p1", 3);
	is_links("p2", 2);
	/* A file may be moved whatever its mode. */
	make(REG, "p1/f");
	must(c_chmod("p1/f", 0));
	want(0, NOBODY, c_rename("p1/f", "p2/f"));
	is_mode("p2/f", 0);
	is_owner("p2/f", 0, 0);
}

/* Links are moved, not followed. */
static void symlinks(void)
{
	make(REG, "target");
	must(c_symlink("target", "link"));
	want(0, ROOT, c_rename("link", "link2"));
	is_kind("link2", LINK);
	is_kind("target", REG);
	make(REG, "over");
	want(0, ROOT, c_rename("over", "link2"));
	is_kind("link2", REG);
	is_kind("target", REG);
	make(DIR_, "todir");
	must(c_symlink("todir", "dlink"));
	make(DIR_, "dir");
	want(ENOTDIR, ROOT, c_rename("dir", "dlink"));
	want(0, ROOT, c_rename("target", "dlink"));
	is_kind("dlink", REG);
	is_kind("todir", DIR_);
}

static void open_files(void)
{
	char buf[4] = "";
	int a, b;

	make(REG, "oa");
	make(REG, "ob");
	a = open("oa", O_RDWR);
	b = open("ob", O_RDWR);
	equals(write(a, "aaa", 3), 3, "write");
	equals(write(b, "bbb", 3), 3, "write");
	want(0, ROOT, c_rename("oa", "ob"));
	equals(pread(a, buf, 3, 0), 3, "pread of what was moved");
	holds(memcmp(buf, "aaa", 3) == 0, "its bytes");
	equals(pread(b, buf, 3, 0), 3, "pread of what was replaced");
	holds(memcmp(buf, "bbb", 3) == 0, "its bytes");
	equals(write(a, "A", 1), 1, "write to what was moved");
	is_size("ob", 4);
	close(a);
	close(b);
}

void topic_rename(void)
{
	for (each_kind(k)) {
		to_free_name(k);
		for (each_kind(k2))
			over(k, k2);
		if (k != DIR_)
			replaced_loses_a_link(k);
	}
	directories();
	directory_rights();
	symlinks();
	open_files();
}

/* --- flags
 * ----------------------------------------------------------------------------------------- */

static void exchange(enum kind k1, enum kind k2)
{
	const char *d1 = name(), *d2 = name(), *a = at("%s/a", d1), *b = at("%s/b", d2);
	struct stamp dir1, dir2, f1, f2;
	ino_t ia, ib;

	make(DIR_, d1);
	make(DIR_, d2);
	make(k1, a);
	make(k2, b);
	ia = ino_of(a);
	ib = ino_of(b);
	dir1 = stamp(d1);
	dir2 = stamp(d2);
	f1 = stamp(a);
	f2 = stamp(b);
	tick();
	want(EEXIST, ROOT, c_rename2(a, b, RENAME_NOREPLACE));
	equals((long long)ino_of(b), (long long)ib, "inode number");
	times(dir1, "AMC");
	times(dir2, "AMC");
	want(0, ROOT, c_rename2(a, b, RENAME_EXCHANGE));
	is_kind(a, k2);
	is_kind(b, k1);
	equals((long long)ino_of(a), (long long)ib, "inode number");
	equals((long long)ino_of(b), (long long)ia, "inode number");
	times(dir1, "Amc");
	times(dir2, "Amc");
	f1.path = b;
	f2.path = a;
	times(f1, "AMc");
	times(f2, "AMc");
	is_links(d1, k2 == DIR_ ? 3 : 2);
	is_links(d2, k1 == DIR_ ? 3 : 2);
	want(EINVAL, ROOT, c_rename2(a, b, RENAME_NOREPLACE | RENAME_EXCHANGE));
	want(EINVAL, ROOT, c_rename2(a, b, 1U << 20));
}

void topic_rename_flags(void)
{
	for (each_kind(k1)) {
		const char *a = name(), *b = name();

		for (each_kind(k2))
			exchange(k1, k2);
		make(k1, a);
		want(ENOENT, ROOT, c_rename2(a, b, RENAME_EXCHANGE));
		want(ENOENT, ROOT, c_rename2(b, a, RENAME_EXCHANGE));
		want(ENOENT, ROOT, c_rename2(b, a, RENAME_NOREPLACE));
		want(0, ROOT, c_rename2(a, b, RENAME_NOREPLACE));
		is_gone(a);
		is_kind(b, k1);
	}
	make(DIR_, "dir");
	make(DIR_, "dir/sub");
	make(DIR_, "full");
	make(REG, "full/x");
	make(REG, "dir/sub/y");
	want(EINVAL, ROOT, c_rename2("dir", "dir/sub", RENAME_EXCHANGE));
	want(EINVAL, ROOT, c_rename2("dir/sub", "dir", RENAME_EXCHANGE));
	want(0, ROOT, c_rename2("full", "dir/sub", RENAME_EXCHANGE)); /* full ones too */
	is_kind("full/y", REG);
	is_kind("dir/sub/x", REG);
	is_same_file("dir/sub/..", "dir");
}
