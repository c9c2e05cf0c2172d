/* SPDX-License-Identifier: MIT */
/* Names of files: link, unlink. */
#include "tests/posix/posix.h"

/* A directory on another file system, "" if there is none; with a file `f` that we remove. */
static const char *elsewhere(void)
{
	static const char *const places[] = {"/dev/shm", "/tmp", "/var/tmp", "/run"};
	struct stat here, there;

	if (stat(".", &here) < 0)
		bail("stat: %s", strerror(errno));
	for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
		if (stat(places[k], &there) == 0 && there.st_dev != here.st_dev)
			return at("%s/posix.%d", places[k], (int)getpid());
	return "";
}

static void links_of(enum kind k)
{
	const char *d = name(), *a = name(), *b = at("%s/b", d), *c = at("%s/c", d);
	struct stamp dir, file;

	must(c_mkdir(d, 0755));
	make(k, a);
	is_links(a, 1);
	dir = stamp(d);
	file = stamp(a);
	tick();
	want(0, ROOT, c_link(a, b));
	times(dir, "Amc");
	times(file, "AMc");
	is_links(a, 2);
	is_links(b, 2);
	is_same_file(a, b);
	is_kind(b, k);
	want(0, ROOT, c_link(b, c));
	is_links(a, 3);
	is_same_file(a, c);
	/* They share all attributes. */
	must(c_lchown(b, 65534, 65533));
	is_owner(a, 65534, 65533);
	is_owner(c, 65534, 65533);
	if (k != LINK) {
		must(c_chmod(c, 0201));
		is_mode(a, 0201);
		is_mode(b, 0201);
	}
	/* Taken already: by itself, by another name of it, by another kind. */
	file = stamp(a);
	dir = stamp(d);
	tick();
	want(EEXIST, ROOT, c_link(a, a));
	want(EEXIST, ROOT, c_link(a, b));
	for (each_kind(other)) {
		const char *n = name();

		make(other, n);
		want(EEXIST, ROOT, c_link(a, n));
		is_kind(n, other);
		is_links(n, other == DIR_ ? 2 : 1);
	}
	times(file, "AMC");
	times(dir, "MC");
	is_links(a, 3);
	tick();
	want(0, ROOT, c_unlink(a));
	is_gone(a);
	is_links(b, 2);
	file.path = b;
	times(file, "AMc");
	file = stamp(c);
	tick();
	want(0, ROOT, c_unlink(b));
	times(dir, "Amc");
	times(file, "AMc");
	is_links(c, 1);
	want(ENOENT, ROOT, c_link(a, b));
	want(0, ROOT, c_unlink(c));
	is_gone(c);
	want(ENOENT, ROOT, c_link(c, a));
}

/* Whose file it is: with fs.protected_hardlinks only one's own, or what one may read and write. */
static void whose(void)
{
	FILE *f = fopen("/proc/sys/fs/protected_hardlinks", "re");
	int guarded = f ? fgetc(f) == '1' : 0;
	struct who nobody = NOBODY;

	if (f)
		fclose(f);
	must(c_mkdir("whose", 0777));
	for (each_kind(k)) {
		const char *n = at("whose/%s", name());

		if (k == DIR_)
			continue;
		make_for(k, n, nobody);
		want(0, NOBODY, c_link(n, at("%s.own", n)));
		want(0, ROOT, c_link(n, at("%s.root", n)));
		if (k == LINK)
			continue;
		must(c_chmod(n, 0644));
		want(guarded ? EPERM : 0, OTHER, c_link(n, at("%s.ro", n)));
		must(c_chmod(n, 0666));
		if (k == REG)
			want(0, OTHER, c_link(n, at("%s.rw", n)));
		must(c_chmod(n, 0660));
		if (k == REG)
			want(0, WHO(65533, 65533, 65534), c_link(n, at("%s.group", n)));
		if (guarded && k == REG)
			want(EPERM, OTHER, c_link(n, at("%s.no", n)));
	}
}

static void not_linked(void)
{
	const char *far = elsewhere();

	make(DIR_, "dir");
	make(REG, "file");
	want(EPERM, ROOT, c_link("dir", "dir2"));
	want(EPERM, NOBODY, c_link("dir", "dir2"));
	is_gone("dir2");
	is_links("dir", 2);
	if (!*far)
		return;
	make(REG, far);
	want(EXDEV, ROOT, c_link("file", at("%s.x", far)));
	want(EXDEV, ROOT, c_link(far, "x"));
	want(EXDEV, ROOT, c_rename("file", at("%s.x", far)));
	want(EXDEV, ROOT, c_rename(far, "x"));
	want(EXDEV, ROOT, c_rename(far, "file"));
	want(EXDEV, ROOT, c_rename("dir", at("%s.x", far)));
	wipe(far);
	is_kind("file", REG);
	is_kind("dir", DIR_);
	is_gone("x");
	is_links("file", 1);
}

/* linkat with AT_SYMLINK_FOLLOW, and of an open descriptor. */
static void linkat_follows(void)
{
	int fd;

	make(REG, "target");
	must(c_symlink("target", "soft"));
	equals(linkat(AT_FDCWD, "soft", AT_FDCWD, "hard", AT_SYMLINK_FOLLOW), 0,
		"linkat, following");
	is_same_file("hard", "target");
	equals(linkat(AT_FDCWD, "soft", AT_FDCWD, "hard_soft", 0), 0, "linkat, not following");
	is_same_file("hard_soft", "soft");
	is_links("target", 2);
	is_links("soft", 2);
	fd = open("target", O_RDONLY);
	equals(linkat(AT_FDCWD, at("/proc/self/fd/%d", fd), AT_FDCWD, "by_fd", AT_SYMLINK_FOLLOW),
		0, "linkat of a descriptor");
	is_same_file("by_fd", "target");
	is_links("target", 3);
	close(fd);
}

static void many(void)
{
	enum { N = 200 };

	make(REG, "many");
	must(c_mkdir("links", 0755));
	for (int k = 0; k < N; k++)
		must(c_link("many", at("links/%d", k)));
	is_links("many", N + 1);
	for (int k = 0; k < N; k += 2)
		must(c_unlink(at("links/%d", k)));
	is_links("many", N / 2 + 1);
	is_same_file("many", "links/199");
}

void topic_link(void)
{
	for (each_kind(k))
		if (k != DIR_)
			links_of(k);
	whose();
	not_linked();
	linkat_follows();
	many();
}

/* --- unlink --------------------------------------------------------------------------------------
 */

static void unlink_open_file(void)
{
	char buf[16] = "";
	struct stat st;
	int fd, fd2;

	must(c_mkdir("open", 0755));
	fd = open("open/file", O_RDWR | O_CREAT | O_EXCL, 0640);
	equals(write(fd, "hello", 5), 5, "write");
	want(0, ROOT, c_unlink("open/file"));
	is_gone("open/file");
	equals(fstat(fd, &st), 0, "fstat of a file without a name");
	equals((long long)st.st_nlink, 0, "its link count");
	equals(st.st_size, 5, "its size");
	equals(st.st_mode, S_IFREG | 0640, "its mode");
	equals(pread(fd, buf, sizeof(buf), 0), 5, "pread of it");
	holds(memcmp(buf, "hello", 5) == 0, "its bytes");
	equals(pwrite(fd, "HELLO!", 6, 0), 6, "pwrite to it");
	equals(ftruncate(fd, 3), 0, "ftruncate of it");
	equals(fchmod(fd, 0600), 0, "fchmod of it");
	equals(fchown(fd, 65534, 65533), 0, "fchown of it");
	equals(fsync(fd), 0, "fsync of it");
	equals(fstat(fd, &st), 0, "fstat of it");
	equals(st.st_size, 3, "its size now");
	equals(st.st_mode & 07777, 0600, "its mode now");
	equals(st.st_uid, 65534, "its owner now");
	/* The name is free for another file. */
	fd2 = open("open/file", O_RDWR | O_CREAT | O_EXCL, 0644);
	holds(fd2 >= 0, "the name can be used again");
	equals(write(fd2, "other", 5), 5, "write to the new file");
	equals(pread(fd, buf, sizeof(buf), 0), 3, "pread of the old");
	holds(memcmp(buf, "HEL", 3) == 0, "the old file's bytes");
	close(fd);
	close(fd2);
	is_size("open/file", 5);
	want(0, ROOT, c_unlink("open/file"));
	want(0, ROOT, c_rmdir("open"));
}

void topic_unlink(void)
{
	struct who nobody = NOBODY;

	for (each_kind(k)) {
		const char *d = name(), *n = at("%s/n", d);
		struct stamp dir;

		must(c_mkdir(d, 0755));
		must(c_chown(d, 65534, 65534));
		make_for(k, n, WHO(65533, 65533)); /* whose the file is does not matter */
		dir = stamp(d);
		tick();
		if (k == DIR_) {
			want(EISDIR, ROOT, c_unlink(n));
			want(EISDIR, NOBODY, c_unlink(n));
			is_kind(n, DIR_);
			times(dir, "AMC");
			continue;
		}
		want(EACCES, OTHER, c_unlink(n));
		is_kind(n, k);
		times(dir, "AMC");
		want(0, NOBODY, c_unlink(n));
		is_gone(n);
		times(dir, "Amc");
		want(ENOENT, NOBODY, c_unlink(n));
	}
	/* The link goes, not what it names. */
	make_for(REG, "target", nobody);
	must(c_symlink("target", "link"));
	want(0, ROOT, c_unlink("link"));
	is_gone("link");
	is_kind("target", REG);
	make(DIR_, "to");
	must(c_symlink("to", "link"));
	want(ENOTDIR, ROOT, c_unlink("link/"));
	want(0, ROOT, c_unlink("link"));
	is_kind("to", DIR_);
	want(EISDIR, ROOT, c_unlink("."));
	want(EISDIR, ROOT, c_unlink("to/."));
	want(EISDIR, ROOT, c_unlink("to/.."));
	unlink_open_file();
}
