/* SPDX-License-Identifier: MIT */
/* utimensat, and which of the three times reading and writing change. */
#include "tests/posix/posix.h"

#include <dirent.h>
#include <sys/mman.h>

/* --- utimensat
 * ------------------------------------------------------------------------------------- */

static void is_times(const char *path, struct timespec a, struct timespec m)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		bail("lstat: %s", strerror(errno));
	equals(st.st_atim.tv_sec, a.tv_sec, "atime of %s, seconds", path);
	equals(st.st_atim.tv_nsec, a.tv_nsec, "atime of %s, nanoseconds", path);
	equals(st.st_mtim.tv_sec, m.tv_sec, "mtime of %s, seconds", path);
	equals(st.st_mtim.tv_nsec, m.tv_nsec, "mtime of %s, nanoseconds", path);
}

static const struct timespec moments[][2] = {
	{{1960000000, 0}, {1970000000, 0}},
	{{0, 0}, {0, 1}},
	{{1, 999999999}, {2, 1}},
	{{1234567890, 123456789}, {1300000000, 987654321}},
	{{-1, 500000000}, {-2000000000, 0}},
	{{2147483647, 999999999}, {2147483648, 0}},
	{{4294967295, 0}, {4294967296, 5}},
	{{7980000000, 123}, {1, 0}},
};

enum { MOMENTS = sizeof(moments) / sizeof(moments[0]) };

static void set_times(void)
{
	for (each_kind(k)) {
		const char *n = name();

		make(k, n);
		for (int m = 0; m < MOMENTS; m++) {
			struct stamp s = stamp(n);

			tick();
			want(0, ROOT, c_utimens(n, moments[m], AT_SYMLINK_NOFOLLOW));
			is_times(n, moments[m][0], moments[m][1]);
			times(s, "c");
		}
		is_kind(n, k);
	}
}

/* UTIME_NOW and UTIME_OMIT, each for either time. */
static void now_and_omit(void)
{
	static const struct timespec now = {.tv_nsec = UTIME_NOW}, omit = {.tv_nsec = UTIME_OMIT};
	static const struct timespec old[2] = {{1000, 5}, {2000, 6}},
				     set = {.tv_sec = 3000, .tv_nsec = 7};

	for (enum kind k = REG; k <= LINK; k++) {
		const char *n = name();
		struct stamp s;
		struct stat st;

		make(k, n);
		must(c_utimens(n, old, AT_SYMLINK_NOFOLLOW));
		s = stamp(n);
		tick();
		want(0, ROOT, c_utimens(n, (struct timespec[]){now, omit}, AT_SYMLINK_NOFOLLOW));
		times(s, "aMc");
		must(c_utimens(n, old, AT_SYMLINK_NOFOLLOW));
		want(0, ROOT, c_utimens(n, (struct timespec[]){omit, now}, AT_SYMLINK_NOFOLLOW));
		times(s, "Amc");
		must(c_utimens(n, old, AT_SYMLINK_NOFOLLOW));
		s = stamp(n);
		tick();
		want(0, ROOT, c_utimens(n, (struct timespec[]){omit, omit}, AT_SYMLINK_NOFOLLOW));
		times(s, "AM");
		want(0, ROOT, c_utimens(n, (struct timespec[]){omit, set}, AT_SYMLINK_NOFOLLOW));
		is_times(n, old[0], set);
		want(0, ROOT, c_utimens(n, (struct timespec[]){set, omit}, AT_SYMLINK_NOFOLLOW));
		is_times(n, set, set);
		want(0, ROOT, c_utimens(n, NULL, AT_SYMLINK_NOFOLLOW));
		times(s, "amc");
		if (lstat(n, &st) < 0)
			bail("lstat: %s", strerror(errno));
		holds(st.st_atim.tv_sec == st.st_mtim.tv_sec &&
				st.st_atim.tv_nsec == st.st_mtim.tv_nsec,
			"now is one moment");
	}
}

static void times_errors(void)
{
	static const long bad[] = {-1, 1000000000, 1073741821, 2000000000};
	struct stamp s;

	make(REG, "file");
	s = stamp("file");
	tick();
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		struct timespec a[2] = {{1, bad[k]}, {1, 0}}, m[2] = {{1, 0}, {1, bad[k]}};

		want(EINVAL, ROOT, c_utimens("file", a, 0));
		want(EINVAL, ROOT, c_utimens("file", m, 0));
	}
	want(EINVAL, ROOT, c_utimens("file", moments[0], 0x40000000));
	times(s, "AMC");
	/* Followed, or not. */
	must(c_symlink("file", "link"));
	must(c_utimens("link", moments[0], 0));
	is_times("file", moments[0][0], moments[0][1]);
	must(c_utimens("link", moments[3], AT_SYMLINK_NOFOLLOW));
	is_times("link", moments[3][0], moments[3][1]);
	is_times("file", moments[0][0], moments[0][1]);
	must(c_symlink("nowhere", "dangling"));
	want(ENOENT, ROOT, c_utimens("dangling", moments[0], 0));
}

/* Any time: the owner. Now: also who may write. Neither: nothing to forbid. */
static void times_rights(void)
{
	static const struct timespec now = {.tv_nsec = UTIME_NOW}, omit = {.tv_nsec = UTIME_OMIT};
	static const struct {
		struct who caller;
		mode_t mode;
		int set, now; /* errno */
	} cases[] = {
		{ID(65534, 65534), 0444, 0, 0},
		{ID(65534, 65533), 0, 0, 0},
		{ID(0, 0), 0, 0, 0},
		{ID(65533, 65533), 0644, EPERM, EACCES},
		{ID(65533, 65533), 0666, EPERM, 0},
		{ID(65533, 65533), 0664, EPERM, EACCES},
		{ID(65533, 65534), 0664, EPERM, 0},
		{ID(65533, 65533, 65534), 0664, EPERM, 0},
		{ID(65533, 65533, 65532, 65534), 0660, EPERM, 0},
		{ID(65533, 65533, 65534), 0646, EPERM, EACCES},
		{ID(65533, 65533, 65532), 0664, EPERM, EACCES},
	};

	for (enum kind k = REG; k <= SOCK; k++) {
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
			const struct who *w = &cases[c].caller;
			const char *n = name();
			struct stamp s;

			make_for(k, n, WHO(65534, 65534));
			must(c_chmod(n, cases[c].mode));
			s = stamp(n);
			tick();
			want(cases[c].set, *w, c_utimens(n, moments[3], 0));
			want(cases[c].set, *w, c_utimens(n, (struct timespec[]){now, omit}, 0));
			want(cases[c].set, *w, c_utimens(n, (struct timespec[]){omit, now}, 0));
			if (cases[c].set)
				times(s, "AMC");
			want(cases[c].now, *w, c_utimens(n, NULL, 0));
			if (cases[c].now)
				times(s, "AMC");
			else
				times(s, "amc");
			want(cases[c].now, *w, c_utimens(n, (struct timespec[]){now, now}, 0));
			want(0, *w, c_utimens(n, (struct timespec[]){omit, omit}, 0));
		}
	}
}

void topic_utimens(void)
{
	int fd;

	set_times();
	now_and_omit();
	times_errors();
	times_rights();
	make(REG, "by_fd");
	fd = open("by_fd", O_RDONLY);
	equals(futimens(fd, moments[3]), 0, "futimens");
	is_times("by_fd", moments[3][0], moments[3][1]);
	close(fd);
}

/* --- what reading and writing change
 * ------------------------------------------------------------------ */

/* Older than the others, so that relatime updates it. */
static void old_atime(const char *path)
{
	static const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_nsec = UTIME_OMIT}};

	must(c_utimens(path, old, AT_SYMLINK_NOFOLLOW));
}

static void reading(void)
{
	struct stamp s;
	char c;
	int fd;

	make(REG, "r");
	must(c_write("r"));
	fd = open("r", O_RDONLY);
	/* From the disk: what is read from a cache of ours is another matter. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	old_atime("r");
	s = stamp("r");
	tick();
	equals(read(fd, &c, 1), 1, "read");
	times(s, "aMC");
	old_atime("r");
	s = stamp("r");
	equals(read(fd, &c, 0), 0, "read of nothing");
	times(s, "MC");
	close(fd);
	make(LINK, "l");
	old_atime("l");
	s = stamp("l");
	want(0, ROOT, c_readlink("l"));
	times(s, "aMC");
	make(REG, "e");
	s = stamp("e");
	tick();
	want(0, ROOT, c_stat("e"));
	want(0, ROOT, c_access("e", R_OK));
	want(0, ROOT, c_open("e", O_RDONLY, 0));
	want(0, ROOT, c_open("e", O_RDWR, 0));
	want(0, ROOT, c_open("e", O_RDWR | O_APPEND, 0));
	times(s, "AMC");
	make(DIR_, "d");
	make(REG, "d/f");
	s = stamp("d");
	tick();
	want(0, ROOT, c_stat("d/f"));
	want(0, ROOT, c_write("d/f"));
	want(0, ROOT, c_chmod("d/f", 0600));
	want(0, ROOT, c_chown("d/f", 1, 1));
	want(0, ROOT, c_truncate("d/f", 0));
	want(0, ROOT, c_chdir("d"));
	want(ENOENT, ROOT, c_unlink("d/none"));
	want(EEXIST, ROOT, c_mkdir("d/f", 0755));
	times(s, "AMC");
}

static void reading_directories(void)
{
	struct stamp s;

	make(DIR_, "list");
	make(REG, "list/f");
	old_atime("list");
	s = stamp("list");
	want(0, ROOT, c_opendir("list"));
	times(s, "aMC");
}

static void writing(void)
{
	struct stamp s;
	char *p;
	int fd;

	make(REG, "w");
	fd = open("w", O_RDWR);
	for (int k = 0; k < 5; k++) {
		s = stamp("w");
		tick();
		equals(write(fd, "x", 1), 1, "write");
		times(s, "Amc");
	}
	s = stamp("w");
	tick();
	equals(pwrite(fd, "x", 1, 0), 1, "pwrite of the same byte");
	times(s, "Amc");
	s = stamp("w");
	tick();
	equals(write(fd, "", 0), 0, "write of nothing");
	equals(ftruncate(fd, -1) < 0 ? errno : 0, EINVAL, "errno of ftruncate");
	equals(fsync(fd), 0, "fsync");
	equals(lseek(fd, 0, SEEK_SET), 0, "lseek");
	times(s, "AMC");
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		holds(false, "mmap");
		return;
	}
	s = stamp("w");
	tick();
	p[2] = 'm';
	equals(msync(p, 4096, MS_SYNC), 0, "msync");
	times(s, "mc");
	munmap(p, 4096);
	close(fd);
	/* A time that was set stays, though the file was written before and is closed after. */
	fd = open("w", O_RDWR);
	equals(write(fd, "y", 1), 1, "write");
	must(c_utimens("w", moments[3], 0));
	close(fd);
	is_times("w", moments[3][0], moments[3][1]);
}

/* A write through one name is seen through the other. */
static void through_links(void)
{
	struct stamp a, b;

	make(REG, "one");
	must(c_link("one", "two"));
	a = stamp("one");
	b = stamp("two");
	tick();
	want(0, ROOT, c_write("two"));
	times(a, "mc");
	times(b, "mc");
	is_size("one", 1);
	a = stamp("one");
	tick();
	want(0, ROOT, c_chmod("two", 0600));
	times(a, "Mc");
	a = stamp("one");
	tick();
	want(0, ROOT, c_rename("two", "three"));
	times(a, "AMc");
	a = stamp("one");
	tick();
	want(0, ROOT, c_unlink("three"));
	times(a, "AMc");
	is_links("one", 1);
}

void topic_times(void)
{
	reading();
	reading_directories();
	writing();
	through_links();
}
