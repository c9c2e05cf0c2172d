/* SPDX-License-Identifier: MIT */
/* Archives, good and hostile, made here and unpacked beside a file that none of them may touch. */
#include "bwrap/unpack.h"
#include "test_unpack_make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SECRET "do not touch"
/* VFS_CAP_REVISION_2 with CAP_NET_RAW, effective: what ping has. */
static const unsigned char net_raw[20] = {1, 0, 0, 2, 0, 0x20};

static char base[64]; /* has out/ and secret */
static struct err err;

static const char *at(const char *name)
{
	static char path[4][4600];
	static unsigned i;
	char *s = path[i++ % 4];

	snprintf(s, sizeof(path[0]), "%s/out/%s", base, name);
	return s;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void clean(void)
{
	CHECK(nftw(at(""), remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT);
	CHECK(mkdir(at(""), 0700) == 0 && chmod(at(""), 0755) == 0);
}

static int unpack_fd(int fd, bool one_id)
{
	int dir, ret;

	snprintf(err.msg, sizeof(err.msg), "none");
	err.code = 0;
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	dir = open(at(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	ret = unpack_archive(fd, dir, one_id, NULL, NULL, &err);
	close(dir);
	CHECK(ret <= 0 && (ret == 0 ? err.code == 0 : err.code == -ret && *err.msg));
	return ret;
}

static char *slurp(const char *path)
{
	static char text[2][65536];
	static unsigned i;
	char *s = text[i++ % 2];
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, s, sizeof(text[0]) - 1);

	CHECK(n >= 0);
	close(fd);
	s[n] = 0;
	return s;
}

/* Nothing beside out/ was made, changed or removed. */
static void contained(void)
{
	char path[96];
	struct dirent *d;
	struct stat st;
	int seen = 0;
	DIR *dir = opendir(base);

	CHECK(dir);
	while ((d = readdir(dir)))
		seen += strcmp(d->d_name, "out") == 0 || strcmp(d->d_name, "secret") == 0
				? 1
				: (d->d_name[0] == '.' ? 0 : 100);
	closedir(dir);
	CHECK(seen == 2);
	snprintf(path, sizeof(path), "%s/secret", base);
	CHECK_STR(slurp(path), SECRET);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600 && st.st_nlink == 1 &&
		st.st_uid == geteuid());
}

/* Ends the archive; it must be refused so, with these words. */
static void refused(int code, const char *words)
{
	int ret;

	end();
	clean();
	ret = unpack_fd(tar_fd, false);
	if (ret != -code || !strstr(err.msg, words))
		printf("# got %d: %s\n", ret, err.msg);
	CHECK(ret == -code);
	CHECK(strstr(err.msg, words));
	contained();
}

static bool is(const char *name, unsigned mode, uid_t uid, gid_t gid)
{
	struct stat st;

	if (lstat(at(name), &st) < 0) {
		printf("# no %s\n", name);
		return false;
	}
	if (st.st_mode == mode && st.st_uid == uid && st.st_gid == gid &&
		st.st_mtim.tv_sec == WHEN && st.st_mtim.tv_nsec == NSEC)
		return true;
	printf("# %s: %o %u:%u %lld.%09ld\n", name, st.st_mode, st.st_uid, st.st_gid,
		(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return false;
}

static void put_good_tree(void)
{
	struct archive_entry *e;

	put_dir("./", 0751);
	put_dir("./usr/", 0755);
	e = owned(entry("./usr/prog", AE_IFREG, 04755), 1000, 1001);
	archive_entry_xattr_add_entry(e, "user.note", "hello", 5);
	archive_entry_xattr_add_entry(e, "security.capability", net_raw, sizeof(net_raw));
	archive_entry_xattr_add_entry(e, "trusted.overlay.opaque", "y", 1);
	put(e, "program");
	put_link("./usr/same", "./usr/prog");
	put_file("./deep/er/file", "its directories have no members");
	e = owned(entry("./closed", AE_IFDIR, 02555), 12, 34);
	archive_entry_xattr_add_entry(e, "user.dir", "d", 1);
	put(e, NULL);
	put_file("closed//./in", "written after its directory was closed");
	put_symlink("./out", "../secret");
	put_symlink("./abs", "/etc/passwd");
	put_link("./abs2", "abs");
	put(owned(entry("./pipe", AE_IFIFO, 0620), 5, 6), NULL);
	put_file("./empty", NULL);
	put_file("./sp ace\n\xff\xc3\xa9", "any bytes");
	put_file("./\xc3\xa9", "UTF-8");
	put_file("./late/x", "x");
	put(owned(entry("./late", AE_IFDIR, 0700), 65535, 65534), NULL);
	put_file("./twice", "old and longer");
	put_file("./twice", "new");
	put_file("./...", "a name");
}

static void a_good_tree(void)
{
	char value[64];
	struct stat a, b;

	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	put_good_tree();
	end();
	clean();
	CHECK(unpack_fd(tar_fd, false) == 0);
	contained();
	CHECK(is(".", S_IFDIR | 0751, 0, 0));
	CHECK(is("usr", S_IFDIR | 0755, 0, 0));
	CHECK(is("usr/prog", S_IFREG | 04755, 1000, 1001));
	CHECK_STR(slurp(at("usr/prog")), "program");
	CHECK(getxattr(at("usr/prog"), "user.note", value, sizeof(value)) == 5);
	CHECK(memcmp(value, "hello", 5) == 0);
	CHECK(getxattr(at("usr/prog"), "security.capability", value, sizeof(value)) == 20);
	CHECK(memcmp(value, net_raw, 20) == 0);
	CHECK(getxattr(at("usr/prog"), "trusted.overlay.opaque", value, sizeof(value)) < 0);
	CHECK(stat(at("usr/prog"), &a) == 0 && stat(at("usr/same"), &b) == 0);
	CHECK(a.st_ino == b.st_ino && a.st_nlink == 2);
	CHECK(stat(at("deep/er"), &a) == 0 && (a.st_mode & 07777) == 0755 && a.st_uid == 0);
	CHECK(is("closed", S_IFDIR | 02555, 12, 34));
	CHECK(getxattr(at("closed"), "user.dir", value, sizeof(value)) == 1);
	CHECK(is("closed/in", S_IFREG | 0644, 0, 0));
	CHECK(is("out", S_IFLNK | 0777, 0, 0));
	CHECK(readlink(at("out"), value, sizeof(value)) == 9 && !memcmp(value, "../secret", 9));
	CHECK(lstat(at("abs"), &a) == 0 && lstat(at("abs2"), &b) == 0 && a.st_ino == b.st_ino);
	CHECK(is("pipe", S_IFIFO | 0620, 5, 6));
	CHECK(is("empty", S_IFREG | 0644, 0, 0));
	CHECK_STR(slurp(at("sp ace\n\xff\xc3\xa9")), "any bytes");
	CHECK_STR(slurp(at("\xc3\xa9")), "UTF-8");
	CHECK(is("late", S_IFDIR | 0700, 65535, 65534));
	CHECK_STR(slurp(at("twice")), "new");
	CHECK_STR(slurp(at("...")), "a name");
}

/* As GNU tar and others write it, by every filter. */
static void formats_and_filters(void)
{
	static const int formats[] = {ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FORMAT_TAR_GNUTAR,
		ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FORMAT_TAR};
	static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP,
		ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_LZ4,
		ARCHIVE_FILTER_LZIP, ARCHIVE_FILTER_LZMA, ARCHIVE_FILTER_COMPRESS};
	char name[99] = "";

	memset(name, 'n', sizeof(name) - 1);
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		for (size_t k = 0; k < sizeof(filters) / sizeof(*filters); k++) {
			begin(formats[i], filters[k]);
			put_dir("d", 0711);
			put_file("d/f", "text");
			put_symlink("d/l", "f");
			put_link("h", "d/f");
			put_file(name, "long name");
			end();
			clean();
			if (unpack_fd(tar_fd, false) < 0)
				printf("# format %x, filter %d: %s\n", formats[i], filters[k],
					err.msg);
			CHECK(err.code == 0);
			CHECK_STR(slurp(at("h")), "text");
			CHECK_STR(slurp(at(name)), "long name");
		}
}

static void holes(void)
{
	const la_int64_t size = 64 << 20, mid = 32 << 20;
	struct archive_entry *e = entry("sparse", AE_IFREG, 0644);
	static char data[4096], got[4096];
	struct stat st;
	int fd;

	memset(data, 'x', sizeof(data));
	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	archive_entry_set_size(e, size);
	archive_entry_sparse_add_entry(e, mid, sizeof(data));
	CHECK(archive_write_header(w, e) == ARCHIVE_OK);
	for (la_int64_t i = 0; i < size; i += sizeof(data)) {
		static char zero[sizeof(data)];

		CHECK(archive_write_data(w, i == mid ? data : zero, sizeof(data)) >= 0);
	}
	archive_entry_free(e);
	end();
	clean();
	CHECK(unpack_fd(tar_fd, false) == 0);
	CHECK(stat(at("sparse"), &st) == 0 && st.st_size == size && st.st_blocks < 2000);
	fd = open(at("sparse"), O_RDONLY | O_CLOEXEC);
	CHECK(pread(fd, got, sizeof(got), mid) == sizeof(got) && !memcmp(got, data, sizeof(got)));
	CHECK(pread(fd, got, 1, mid - 1) == 1 && !got[0]);
	close(fd);
}

#define REFUSED(code, words, ...)                                              \
	do {                                                                   \
		begin(ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_NONE); \
		put_file("good", "text");                                      \
		__VA_ARGS__;                                                   \
		refused(code, words);                                          \
	} while (0)

static void names_that_lead_out(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/secret", base);
	REFUSED(EINVAL, "absolute name", put_file(path, "overwritten"));
	REFUSED(EINVAL, "absolute name", put_dir("/", 0777));
	REFUSED(EINVAL, "member ../secret has '..'", put_file("../secret", "overwritten"));
	REFUSED(EINVAL, "'..'", put_file("./a/../../secret", "overwritten"));
	REFUSED(EINVAL, "'..'", put_dir("..", 0777));
	REFUSED(EINVAL, "'..'", put_dir("a/..", 0777));
	REFUSED(EINVAL, "'..'", put_symlink("../new", "x"));
	REFUSED(EINVAL, "hard link h", put_link("h", "../secret"));
	REFUSED(EINVAL, "hard link h", put_link("h", path));
}

static void ways_through_links(void)
{
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_file("up/new", "x"));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_dir("up", 0777));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_dir("up/d/e", 0777));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_link("h", "up/secret"));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_link("up/h", "good"));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".."); put_symlink("up/h", "good"));
	REFUSED(EINVAL, "goes through 'up'", put_symlink("up", ".");
		put(entry("up/p", AE_IFIFO, 0600), NULL));
	REFUSED(EINVAL, "goes through 'b'", put_dir("a", 0755); put_symlink("a/b", "../..");
		put_file("a/b/new", "x"));
	/* Through a name for the link itself. */
	REFUSED(EINVAL, "goes through 'up2'", put_symlink("up", ".."); put_link("up2", "up");
		put_file("up2/new", "x"));
	/* In a directory whose descriptor is known. */
	REFUSED(EINVAL, "goes through 'b'", put_file("a/x", "x"); put_symlink("a/b", "../..");
		put_file("a/y", "y"); put_file("a/b/new", "x"));
	REFUSED(EINVAL, "not a directory", put_file("good/beneath", "x"));
}

static void members_that_cannot_be(void)
{
	REFUSED(EPERM, "--exclude=./dev/*", put(entry("./dev/sda", AE_IFBLK, 0660), NULL));
	REFUSED(EPERM, "member dev/null is a device", put(entry("dev/null", AE_IFCHR, 0666), NULL));
	REFUSED(EINVAL, "not before it", put_link("h", "nowhere"));
	REFUSED(EINVAL, "not before it", put_link("h", "no/where"));
	REFUSED(EINVAL, "hard link to the directory", put_dir("d", 0755); put_link("h", "d"));
	REFUSED(EINVAL, "hard link to the directory", put_link("h", "./"));
	REFUSED(EINVAL, "as a directory and", put_dir("d", 0755); put_file("d", "x"));
	REFUSED(EINVAL, "root is not a directory", put_symlink(".", "/"));
	REFUSED(EINVAL, "which is no id",
		put(owned(entry("x", AE_IFREG, 0644), 1ll << 40, 0), NULL));
}

/* What replaces a link or one of several names leaves what was behind it. */
static void replaces_and_does_not_follow(void)
{
	begin(ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_NONE);
	put_symlink("a", "../secret");
	put_file("a", "new a");
	put_file("b", "old b");
	put_link("c", "b");
	put_file("b", "new b");
	put_link("b", "b");
	end();
	clean();
	CHECK(unpack_fd(tar_fd, false) == 0);
	contained();
	CHECK_STR(slurp(at("a")), "new a");
	CHECK_STR(slurp(at("b")), "new b");
	CHECK_STR(slurp(at("c")), "old b");
}

static int of_bytes(const void *p, size_t n)
{
	int fd = memfd_create("archive", MFD_CLOEXEC), ret;

	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	clean();
	ret = unpack_fd(fd, false);
	close(fd);
	contained();
	return ret;
}

static void no_archives(void)
{
	static char zeros[10240];
	int fds[2];

	CHECK(of_bytes("", 0) == -EINVAL);
	CHECK(of_bytes(zeros, 10240) == -EINVAL && strstr(err.msg, "empty"));
	CHECK(of_bytes("PK\003\004 and so on", 15) == -EINVAL && strstr(err.msg, "not a tar"));
	CHECK(of_bytes(noise(4096), 4096) == -EINVAL && strstr(err.msg, "not a tar"));
	begin(ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP);
	refused(EINVAL, "empty");
	/* What cannot be read at all. */
	fds[0] = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[1] = open(at(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(unpack_archive(fds[0], fds[1], false, NULL, NULL, &err) == -EISDIR);
	close(fds[0]);
	close(fds[1]);
}

static void put_small_tree(size_t size)
{
	const char *text = noise(size);

	put_dir("d", 0755);
	put_file("d/f", text);
	put_symlink("d/l", "f");
	put_link("h", "d/f");
	put_file("last", "of all");
}

static void cut_off(void)
{
	size_t n;
	char *p;

	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	put_small_tree(1300);
	end();
	p = bytes_of(&n);
	CHECK(n % 512 == 0);
	for (size_t cut = 0; cut < n; cut += 512) {
		if (of_bytes(p, cut) == 0)
			printf("# cut at %zu of %zu\n", cut, n);
		CHECK(err.code == (cut ? EBADMSG : EINVAL));
		CHECK(of_bytes(p, cut + 100) < 0);
	}
	CHECK(of_bytes(p, n) == 0);
	free(p);
}

static void cut_off_compressed(int filter, size_t size, size_t step)
{
	size_t n;
	char *p;

	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, filter);
	put_small_tree(size);
	end();
	p = bytes_of(&n);
	/* Near the end, where all members are there already, every single byte counts. */
	for (size_t cut = 0; cut < n; cut += cut + 100 < n ? step : 1) {
		if (of_bytes(p, cut) == 0)
			printf("# filter %d: cut at %zu of %zu\n", filter, cut, n);
		CHECK(err.code);
	}
	CHECK(of_bytes(p, n) == 0);
	free(p);
}

static void cut_off_gzip(void)
{
	cut_off_compressed(ARCHIVE_FILTER_GZIP, 1300, 64);
	cut_off_compressed(ARCHIVE_FILTER_GZIP, 100000, 64);
}

static void cut_off_others(void)
{
	cut_off_compressed(ARCHIVE_FILTER_BZIP2, 1300, 64);
	cut_off_compressed(ARCHIVE_FILTER_LZ4, 1300, 64);
	cut_off_compressed(ARCHIVE_FILTER_XZ, 1300, 64);
	cut_off_compressed(ARCHIVE_FILTER_ZSTD, 1300, 64);
}

/* Whatever is changed, it is unpacked or refused, and stays within. */
static void damaged(void)
{
	size_t n;
	char *p;

	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	put_small_tree(1300);
	end();
	p = bytes_of(&n);
	for (size_t i = 0; i < n; i += 13) {
		p[i] ^= (char)(1 << i % 8);
		of_bytes(p, n);
		p[i] ^= (char)(1 << i % 8);
	}
	free(p);
}

static uint64_t told;

static void on_progress(void *arg, uint64_t bytes)
{
	CHECK(arg == &told && bytes > told);
	told = bytes;
}

static void tells_how_far(void)
{
	static char text[3000001];
	int dir;

	memset(text, 'p', sizeof(text) - 1);
	begin(ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	put_file("a", text);
	put_file("b", text);
	end();
	clean();
	CHECK(lseek(tar_fd, 0, SEEK_SET) == 0);
	dir = open(at(""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(unpack_archive(tar_fd, dir, false, on_progress, &told, &err) == 0);
	CHECK(told == (uint64_t)lseek(tar_fd, 0, SEEK_END));
	close(dir);
}

/* In a child, as somebody who may do nothing special. */
static void as_one_id(void)
{
	char value[32];

	CHECK(setresgid(4711, 4711, 4711) == 0 && setresuid(4711, 4711, 4711) == 0);
	CHECK(unpack_fd(tar_fd, true) == 0);
	CHECK(is(".", S_IFDIR | 0751, 4711, 4711));
	CHECK(is("usr/prog", S_IFREG | 04755, 4711, 4711));
	CHECK(getxattr(at("usr/prog"), "user.note", value, sizeof(value)) == 5);
	CHECK(getxattr(at("usr/prog"), "security.capability", value, sizeof(value)) < 0);
	CHECK(is("closed", S_IFDIR | 02555, 4711, 4711));
	CHECK(is("closed/in", S_IFREG | 0644, 4711, 4711));
	CHECK(is("pipe", S_IFIFO | 0620, 4711, 4711));
	CHECK(is("late", S_IFDIR | 0700, 4711, 4711));
}

/* In a child, where the archive's owners cannot be. */
static void without_the_right(void)
{
	CHECK(setresgid(4711, 4711, 4711) == 0 && setresuid(4711, 4711, 4711) == 0);
	CHECK(unpack_fd(tar_fd, false) == -EPERM);
	CHECK(strstr(err.msg, "usr/prog: its owner 1000:1001"));
}

static void in_child(void (*test)(void))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		bool failed = setjmp(check_out) != 0;

		if (!failed)
			test();
		fflush(stdout);
		_exit(failed);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void one_id(void)
{
	begin(ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	put_good_tree();
	end();
	clean();
	CHECK(chown(at(""), 4711, 4711) == 0);
	in_child(as_one_id);
	contained();
	clean();
	CHECK(chown(at(""), 4711, 4711) == 0);
	in_child(without_the_right);
}

static void on_a_full_disk(void)
{
	static char text[200001];

	memset(text, 'f', sizeof(text) - 1);
	begin(ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	put_file("small", "fits");
	put_file("dir/big", text);
	end();
	clean();
	CHECK(unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", at(""), "tmpfs", 0, "size=64k") == 0);
	CHECK(unpack_fd(tar_fd, false) == -ENOSPC);
	CHECK_STR(err.msg, "dir/big: No space left on device");
}

static void full_disk(void)
{
	in_child(on_a_full_disk);
}

int main(void)
{
	char path[96];
	int fd;

	if (geteuid() != 0) {
		puts("1..0 # SKIP not root");
		return 77;
	}
	umask(077); /* it counts for nothing */
	strcpy(base, "/tmp/unpack-test-XXXXXX");
	if (!mkdtemp(base) || chmod(base, 0711) < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/secret", base);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (write(fd, SECRET, strlen(SECRET)) < 0)
		return 1;
	close(fd);
	TEST(a_good_tree);
	TEST(formats_and_filters);
	TEST(holes);
	TEST(names_that_lead_out);
	TEST(ways_through_links);
	TEST(members_that_cannot_be);
	TEST(replaces_and_does_not_follow);
	TEST(no_archives);
	TEST(cut_off);
	TEST(cut_off_gzip);
	TEST(cut_off_others);
	TEST(damaged);
	TEST(tells_how_far);
	TEST(one_id);
	TEST(full_disk);
	snprintf(path, sizeof(path), "rm -rf %s", base);
	return system(path) || check_done();
}
