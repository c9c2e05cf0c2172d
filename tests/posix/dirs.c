/* SPDX-License-Identifier: MIT */
/* mkdir, rmdir, symlink; FIFOs and sockets. */
#include "tests/posix/posix.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

/* --- mkdir
 * ---------------------------------------------------------------------------------------- */

void topic_mkdir(void)
{
	const char *d = "parent";
	struct stat st, up;

	must(c_mkdir(d, 0755));
	is_links(d, 2);
	for (nlink_t k = 0; k < 20; k++) {
		want(0, ROOT, c_mkdir(at("%s/%lu", d, (unsigned long)k), 0700));
		is_links(d, k + 3);
	}
	if (stat("parent/7/..", &st) < 0 || stat(d, &up) < 0)
		bail("stat: %s", strerror(errno));
	holds(st.st_ino == up.st_ino, "`..` of a new directory is its parent");
	if (stat("parent/7/.", &st) < 0 || stat("parent/7", &up) < 0)
		bail("stat: %s", strerror(errno));
	holds(st.st_ino == up.st_ino, "`.` of a new directory is itself");
	for (nlink_t k = 20; k > 0; k--) {
		want(0, ROOT, c_rmdir(at("%s/%lu", d, (unsigned long)k - 1)));
		is_links(d, k + 1);
	}
	want(EEXIST, ROOT, c_mkdir(".", 0755));
	want(EEXIST, ROOT, c_mkdir("..", 0755));
	want(EEXIST, ROOT, c_mkdir("parent/.", 0755));
	want(EEXIST, ROOT, c_mkdir("parent/..", 0755));
	must(c_symlink("nowhere", "dangling"));
	want(EEXIST, ROOT, c_mkdir("dangling", 0755));
	is_gone("nowhere");
	must(c_symlink("parent", "to_dir"));
	want(EEXIST, ROOT, c_mkdir("to_dir", 0755));
	want(0, ROOT, c_mkdir("to_dir/sub", 0755));
	is_kind("parent/sub", DIR_);
}

/* --- rmdir
 * ---------------------------------------------------------------------------------------- */

static void rmdir_not_empty(void)
{
	for (each_kind(k)) {
		const char *d = name(), *n = at("%s/n", d);
		struct stamp dir;

		make(DIR_, d);
		make(k, n);
		dir = stamp(d);
		tick();
		want_either(ENOTEMPTY, EEXIST, ROOT, c_rmdir(d));
		times(dir, "MC");
		is_kind(n, k);
		wipe(n);
		want(0, ROOT, c_rmdir(d));
		is_gone(d);
	}
}

static void rmdir_in_use(void)
{
	struct stat st;
	int fd;

	make(DIR_, "used");
	fd = open("used", O_RDONLY | O_DIRECTORY);
	want(0, ROOT, c_rmdir("used"));
	equals(fstat(fd, &st), 0, "fstat of a removed directory");
	equals((long long)st.st_nlink, 0, "its link count");
	equals(mkdirat(fd, "x", 0755) < 0 ? errno : 0, ENOENT, "errno of mkdir in it");
	equals(openat(fd, "x", O_CREAT | O_RDWR, 0644) < 0 ? errno : 0, ENOENT,
		"errno of creat in it");
	equals(symlinkat("t", fd, "x") < 0 ? errno : 0, ENOENT, "errno of symlink in it");
	equals(fchdir(fd), 0, "fchdir to it");
	equals(open("x", O_CREAT | O_RDWR, 0644) < 0 ? errno : 0, ENOENT,
		"errno of creat from within");
	holds(!getcwd((char[PATH_MAX]){0}, PATH_MAX) && errno == ENOENT, "it has no path");
	equals(chdir(".."), 0, "chdir to `..` of it");
	equals(fstatat(AT_FDCWD, "used", &st, 0) < 0 ? errno : 0, ENOENT,
		"errno of stat of the name");
	close(fd);
}

void topic_rmdir(void)
{
	struct who nobody = NOBODY;

	for (each_kind(k)) {
		const char *n = name();

		if (k == DIR_)
			continue;
		make(k, n);
		want(ENOTDIR, ROOT, c_rmdir(n));
		is_kind(n, k);
	}
	rmdir_not_empty();
	make(DIR_, "dir");
	must(c_symlink("dir", "link"));
	want(ENOTDIR, ROOT, c_rmdir("link"));
	want(EINVAL, ROOT, c_rmdir("dir/."));
	want(EINVAL, ROOT, c_rmdir("."));
	want_either(ENOTEMPTY, EEXIST, ROOT, c_rmdir("dir/.."));
	want_either(ENOTEMPTY, EEXIST, ROOT, c_rmdir(".."));
	is_kind("dir", DIR_);
	{
		struct stamp parent;

		make_for(DIR_, "parent", nobody);
		make_for(DIR_, "parent/d", WHO(65533, 65533));
		is_links("parent", 3);
		parent = stamp("parent");
		tick();
		want(EACCES, OTHER, c_rmdir("parent/d"));
		times(parent, "AMC");
		is_links("parent", 3);
		want(0, NOBODY, c_rmdir("parent/d"));
		times(parent, "Amc");
		is_links("parent", 2);
	}
	/* Nobody may read it, and still it can be removed. */
	make_for(DIR_, "parent/closed", nobody);
	must(c_chmod("parent/closed", 0));
	want(0, NOBODY, c_rmdir("parent/closed"));
	rmdir_in_use();
}

/* --- symlink
 * -------------------------------------------------------------------------------------- */

static void link_text(const char *text)
{
	static char buf[PATH_MAX + 1];
	const char *n = name();
	size_t len = strlen(text);
	ssize_t got;

	want(0, NOBODY, c_symlink(text, at("texts/%s", n)));
	n = at("texts/%s", n);
	is_size(n, (off_t)len);
	got = readlink(n, buf, sizeof(buf));
	equals(got, (long long)len, "length of the text");
	holds(got == (ssize_t)len && memcmp(buf, text, len) == 0, "the text is what was written");
	/* A short buffer gets the beginning. */
	memset(buf, '!', sizeof(buf));
	got = readlink(n, buf, 1);
	holds(got == 1 && buf[0] == text[0] && buf[1] == '!', "readlink fills the buffer, no more");
	is_owner(n, 65534, 65534);
	is_mode(n, 0777);
	is_kind(n, LINK);
}

void topic_symlink(void)
{
	static const size_t lengths[] = {
		1, 2, 59, 60, 61, 255, 256, 1000, 1023, 1024, 2048, 4000, 4095};

	must(c_mkdir("texts", 0777));
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
		link_text(of_length(lengths[k]));
	link_text("a/b/c");
	link_text("name with spaces");
	link_text("../symlink");
	link_text("\xff\x01\n");
	link_text(".");
	link_text("..");
	want(ENAMETOOLONG, ROOT, c_symlink(of_length(4096), "long"));
	want(ENAMETOOLONG, ROOT, c_symlink(of_length(5000), "long"));
	is_gone("long");
	want(ENOENT, ROOT, c_symlink("", "empty"));
	is_gone("empty");
	for (each_kind(k)) {
		const char *n = name();

		make(k, n);
		want(EEXIST, ROOT, c_symlink("text", n));
		is_kind(n, k);
		if (k != LINK)
			want(EINVAL, ROOT, c_readlink(n));
		want(k == LINK ? ENOENT : 0, ROOT, c_stat(n));
		/* What it names can be used through it. */
		must(c_symlink(n, at("%s.to", n)));
		want(k == LINK ? ENOENT : 0, ROOT, c_stat(at("%s.to", n)));
		want(0, ROOT, c_lstat(at("%s.to", n)));
	}
	/* creat through a dangling link makes the target. */
	must(c_symlink("made", "maker"));
	want(0, ROOT, c_open("maker", O_CREAT | O_WRONLY, 0600));
	is_kind("made", REG);
	is_kind("maker", LINK);
	must(c_symlink("texts", "dir"));
	want(0, NOBODY, c_open("dir/in", O_CREAT | O_WRONLY, 0600));
	is_kind("texts/in", REG);
	want(0, ROOT, c_opendir("dir"));
	want(ENOTDIR, ROOT, c_open("dir", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
}

/* --- FIFOs, sockets, devices
 * ------------------------------------------------------------------------ */

static void fifo_carries(void)
{
	char buf[16] = "";
	int r, w;

	must(c_mkfifo("fifo", 0600));
	want(ENXIO, ROOT, c_open("fifo", O_WRONLY | O_NONBLOCK, 0));
	r = open("fifo", O_RDONLY | O_NONBLOCK);
	w = open("fifo", O_WRONLY | O_NONBLOCK);
	holds(r >= 0 && w >= 0, "both ends open");
	equals(read(r, buf, sizeof(buf)) < 0 ? errno : 0, EAGAIN, "errno of a read of nothing");
	equals(write(w, "bytes", 5), 5, "write");
	equals(read(r, buf, sizeof(buf)), 5, "read");
	holds(memcmp(buf, "bytes", 5) == 0, "the bytes");
	close(w);
	equals(read(r, buf, sizeof(buf)), 0, "read after the writer is gone");
	equals(lseek(r, 0, SEEK_SET) < 0 ? errno : 0, ESPIPE, "errno of lseek");
	close(r);
	is_size("fifo", 0);
	want(EINVAL, ROOT, c_truncate("fifo", 0));
}

static void socket_carries(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX, .sun_path = "socket"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), a;
	char buf[16] = "";

	equals(bind(s, (struct sockaddr *)&sun, sizeof(sun)), 0, "bind");
	is_kind("socket", SOCK);
	equals(listen(s, 1), 0, "listen");
	equals(connect(c, (struct sockaddr *)&sun, sizeof(sun)), 0, "connect");
	a = accept(s, NULL, NULL);
	equals(write(c, "bytes", 5), 5, "write");
	equals(read(a, buf, sizeof(buf)), 5, "read");
	close(a);
	close(c);
	close(s);
	want(EADDRINUSE, ROOT, c_bind("socket"));
	want(ENXIO, ROOT, c_open("socket", O_RDONLY, 0));
	want(ENXIO, ROOT, c_open("socket", O_RDWR, 0));
	want(EINVAL, ROOT, c_truncate("socket", 0));
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	equals(connect(c, (struct sockaddr *)&sun, sizeof(sun)) < 0 ? errno : 0, ECONNREFUSED,
		"errno of connect to a socket that nobody has");
	close(c);
	want(0, ROOT, c_unlink("socket"));
	want(0, NOBODY, c_mkdir("bound/d", 0700));
	/* bind honours the umask and belongs to who binds. */
	want(0, masked(NOBODY, 027), c_bind("bound/s"));
	is_mode("bound/s", 0750);
	is_owner("bound/s", 65534, 65534);
}

static void devices(void)
{
	static const mode_t types[] = {S_IFCHR, S_IFBLK};
	struct stat st;

	for (size_t k = 0; k < 2; k++) {
		dev_t dev = makedev(1, 3 + k);
		const char *n = name();

		/* Not for users; in a sandbox's tree not for root either. */
		want(EPERM, NOBODY, c_mknod(at("bound/%s", n), types[k] | 0600, dev));
		want(EPERM, WHO(65534, 0, 65533), c_mknod(at("bound/%s", n), types[k] | 0600, dev));
		is_gone(at("bound/%s", n));
		if (options.no_devices) {
			want(EPERM, ROOT, c_mknod(n, types[k] | 0600, dev));
			is_gone(n);
			continue;
		}
		want(0, ROOT, c_mknod(n, types[k] | 0640, dev));
		if (lstat(n, &st) < 0)
			bail("lstat: %s", strerror(errno));
		holds(st.st_rdev == dev, "the device number is kept");
		holds((st.st_mode & S_IFMT) == types[k], "the type is kept");
		is_mode(n, 0640);
	}
	want(EPERM, ROOT, c_mknod("dir", S_IFDIR | 0755, 0));
	want(EINVAL, ROOT, c_mknod("link", S_IFLNK | 0777, 0));
	want(0, ROOT, c_mknod("plain", 0644, 0)); /* no type is a file */
	is_kind("plain", REG);
}

void topic_special(void)
{
	must(c_mkdir("bound", 0777));
	fifo_carries();
	socket_carries();
	devices();
}
