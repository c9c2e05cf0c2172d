/* SPDX-License-Identifier: MIT */
/* The size and the bytes of a file: truncate, posix_fallocate, holes, reads and writes. */
#include "tests/posix/posix.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* The byte that a file has at each offset until it is truncated there. */
static char pattern(off_t at_)
{
	return (char)('a' + at_ % 23);
}

static void fill(const char *path, off_t size)
{
	char *buf = malloc((size_t)size);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (off_t k = 0; k < size; k++)
		buf[k] = pattern(k);
	if (fd < 0 || write(fd, buf, (size_t)size) != size || close(fd) < 0)
		bail("write: %s", strerror(errno));
	free(buf);
}

/* Is the file pattern up to KEPT, and zeros from there to SIZE? */
static bool has_bytes(const char *path, off_t kept, off_t size)
{
	char *buf = malloc((size_t)size + 1);
	int fd = open(path, O_RDONLY);
	bool good = fd >= 0 && read(fd, buf, (size_t)size + 1) == size;

	for (off_t k = 0; good && k < size; k++)
		good = buf[k] == (k < kept ? pattern(k) : 0);
	close(fd);
	free(buf);
	return good;
}

/* --- truncate
 * -------------------------------------------------------------------------------------- */

static void sizes(struct call (*call)(const char *, off_t))
{
	static const off_t steps[] = {
		1234567, 567, 0, 1, 4095, 4096, 4097, 100, 8192, 65536, 65535, 3, 131073, 7};
	off_t kept = 10000;

	fill("sizes", kept);
	for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
		struct stamp s = stamp("sizes");

		tick();
		want(0, ROOT, call("sizes", steps[k]));
		is_size("sizes", steps[k]);
		times(s, "Amc");
		if (steps[k] < kept)
			kept = steps[k];
		holds(has_bytes("sizes", kept, steps[k]), "%lld bytes kept, then zeros",
			(long long)kept);
	}
}

static void big(void)
{
	static const off_t large[] = {2147483647, 2147483648, 4294967295, 4294967296, 1LL << 40};
	struct stat st;
	char c;
	int fd;

	make(REG, "big");
	for (size_t k = 0; k < sizeof(large) / sizeof(large[0]); k++) {
		want(0, ROOT, c_truncate("big", large[k]));
		is_size("big", large[k]);
		if (lstat("big", &st) < 0)
			bail("lstat: %s", strerror(errno));
		holds(st.st_blocks < 1000, "it is sparse");
	}
	fd = open("big", O_RDWR);
	equals(pwrite(fd, "x", 1, 5000000000), 1, "pwrite beyond 4 GiB");
	equals(pread(fd, &c, 1, 5000000000), 1, "pread beyond 4 GiB");
	equals(c, 'x', "the byte there");
	equals(pread(fd, &c, 1, 4999999999), 1, "pread before it");
	equals(c, 0, "the byte before it");
	equals(lseek(fd, 0, SEEK_END), 1LL << 40, "lseek to the end");
	equals(lseek(fd, -1, SEEK_SET) < 0 ? errno : 0, EINVAL, "errno of lseek before the start");
	close(fd);
	must(c_truncate("big", 0));
	/* As large as a number can be: some file systems can, most cannot. */
	{
		struct call c_big = c_truncate("big", LLONG_MAX);
		int err = try_as(ROOT, &c_big);

		holds(err == EFBIG || err == EINVAL || err == 0, "truncate to 2^63-1: EFBIG");
		is_size("big", err ? 0 : LLONG_MAX);
	}
}

static void truncate_errors(void)
{
	struct stamp s;

	fill("file", 100);
	s = stamp("file");
	tick();
	want(EINVAL, ROOT, c_truncate("file", -1));
	want(EINVAL, ROOT, c_truncate("file", LONG_MIN));
	want(EINVAL, ROOT, c_ftruncate("file", -1));
	want(EACCES, NOBODY, c_truncate("file", 0));
	want(EACCES, WHO(65534, 65533, 65532), c_truncate("file", 0));
	times(s, "AMC");
	is_size("file", 100);
	for (each_kind(k)) {
		const char *n = name();

		if (k == REG || k == CHR || k == BLK)
			continue;
		make(k, n);
		want(k == DIR_ ? EISDIR : k == LINK ? ENOENT : EINVAL, ROOT, c_truncate(n, 0));
	}
	must(c_symlink("file", "link"));
	want(0, ROOT, c_truncate("link", 50));
	is_size("file", 50);
	is_size("link", 4);
	/* The mode allows it, whoever the owner is. */
	must(c_chmod("file", 0022));
	want(0, OTHER, c_truncate("file", 49));
	want(0, WHO(65534, 0), c_truncate("file", 48));
	must(c_chown("file", 65534, 0));
	want(EACCES, NOBODY, c_truncate("file", 47));
	is_size("file", 48);
}

void topic_truncate(void)
{
	sizes(c_truncate);
	sizes(c_ftruncate);
	big();
	truncate_errors();
}

/* --- fallocate
 * --------------------------------------------------------------------------------------- */

static void grow(void)
{
	static const struct {
		off_t at, size, total;
	} cases[] = {{0, 1, 100}, {0, 100, 100}, {50, 50, 100}, {0, 101, 101}, {100, 100, 200},
		{1000, 24, 1024}, {0, 65536, 65536}, {70000, 1, 70001}, {10, 10, 70001}};

	fill("grow", 100);
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		struct stamp s = stamp("grow");

		tick();
		want(0, ROOT, c_fallocate("grow", cases[k].at, cases[k].size));
		is_size("grow", cases[k].total);
		if (cases[k].total > s.st.st_size)
			times(s, "mc");
		holds(has_bytes("grow", 100, cases[k].total), "100 bytes kept, then zeros");
	}
	{
		struct stamp s = stamp("grow");

		want(EINVAL, ROOT, c_fallocate("grow", 0, 0));
		want(EINVAL, ROOT, c_fallocate("grow", 0, -1));
		want(EINVAL, ROOT, c_fallocate("grow", -1, 10));
		want(EFBIG, ROOT, c_fallocate("grow", LLONG_MAX - 5, 10));
		is_size("grow", 70001);
		times(s, "AMC");
	}
}

static void keep_size_and_punch(void)
{
	struct stat before, after;
	int fd;

	fill("holes", 1 << 20);
	fd = open("holes", O_RDWR);
	equals(fallocate(fd, FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0,
		"fallocate, keeping the size");
	is_size("holes", 1 << 20);
	fsync(fd);
	fstat(fd, &before);
	equals(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 65536, 65536), 0, "punch");
	fsync(fd);
	fstat(fd, &after);
	is_size("holes", 1 << 20);
	holds(after.st_blocks < before.st_blocks, "a hole frees blocks");
	{
		char buf[2] = "xx";

		equals(pread(fd, buf, 2, 65535), 2, "pread at the hole's start");
		holds(buf[0] == pattern(65535) && buf[1] == 0, "data, then the hole");
		equals(pread(fd, buf, 2, 131071), 2, "pread at the hole's end");
		holds(buf[0] == 0 && buf[1] == pattern(131072), "the hole, then data");
	}
	equals(lseek(fd, 0, SEEK_HOLE), 65536, "SEEK_HOLE");
	equals(lseek(fd, 65536, SEEK_DATA), 131072, "SEEK_DATA");
	equals(lseek(fd, 131072, SEEK_HOLE), 1 << 20, "SEEK_HOLE from the last data");
	equals(lseek(fd, 1 << 20, SEEK_DATA) < 0 ? errno : 0, ENXIO,
		"errno of SEEK_DATA at the end");
	equals(lseek(fd, 2 << 20, SEEK_HOLE) < 0 ? errno : 0, ENXIO,
		"errno of SEEK_HOLE beyond it");
	equals(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096) < 0 ? errno : 0, EOPNOTSUPP,
		"errno of punch without KEEP_SIZE");
	equals(fallocate(fd, 0, 0, 0) < 0 ? errno : 0, EINVAL, "errno of fallocate of nothing");
	close(fd);
}

void topic_fallocate(void)
{
	struct who nobody = NOBODY;
	int fd;

	grow();
	keep_size_and_punch();
	make(FIFO, "fifo");
	fd = open("fifo", O_RDWR | O_NONBLOCK);
	equals(posix_fallocate(fd, 0, 1), ESPIPE, "errno for a fifo");
	close(fd);
	make(DIR_, "dir");
	fd = open("dir", O_RDONLY);
	equals(posix_fallocate(fd, 0, 1), EBADF, "errno for a directory, opened for reading");
	close(fd);
	/* It is no write by a stranger: what may be opened may be allocated. */
	make_for(REG, "other", WHO(65533, 65533));
	must(c_chmod("other", 0666));
	want(0, nobody, c_fallocate("other", 0, 12345));
	is_size("other", 12345);
}

/* --- bytes
 * -------------------------------------------------------------------------------------------- */

static void vectors_and_offsets(void)
{
	char a[3] = "", b[4] = "", one[] = "one", two[] = "two!";
	struct iovec out[] = {{one, 3}, {two, 4}}, in[] = {{a, 3}, {b, 4}};
	int fd = open("vec", O_RDWR | O_CREAT, 0644);

	equals(writev(fd, out, 2), 7, "writev");
	equals(lseek(fd, 0, SEEK_CUR), 7, "offset after writev");
	equals(preadv(fd, in, 2, 0), 7, "preadv");
	holds(memcmp(a, "one", 3) == 0 && memcmp(b, "two!", 4) == 0, "both parts");
	equals(lseek(fd, 0, SEEK_CUR), 7, "offset after preadv");
	equals(read(fd, a, 3), 0, "read at the end");
	equals(pread(fd, a, 3, 1000), 0, "pread beyond the end");
	equals(pwrite(fd, "", 0, 5000), 0, "pwrite of nothing");
	is_size("vec", 7);
	equals(pwrite(fd, "z", 1, 9999), 1, "pwrite beyond the end");
	is_size("vec", 10000);
	equals(pread(fd, a, 1, 5000), 1, "pread of the gap");
	equals(a[0], 0, "the gap's byte");
	equals(pwrite(fd, "z", 1, -1) < 0 ? errno : 0, EINVAL, "errno of pwrite at -1");
	close(fd);
}

static void two_descriptors(void)
{
	int a = open("two", O_RDWR | O_CREAT, 0644), b = open("two", O_RDWR);
	char buf[8] = "";

	equals(write(a, "12345678", 8), 8, "write by one");
	equals(read(b, buf, 8), 8, "read by the other");
	equals(ftruncate(b, 4), 0, "ftruncate by the other");
	equals(pread(a, buf, 8, 0), 4, "pread by the one");
	equals(ftruncate(a, 8), 0, "ftruncate back");
	equals(pread(b, buf, 8, 0), 8, "pread by the other");
	holds(memcmp(buf, "1234\0\0\0\0", 8) == 0, "what was cut off is zeros");
	close(a);
	close(b);
}

static void mapped_bytes(void)
{
	int fd;
	char *p, *q, buf[4];

	fill("map", 10000);
	fd = open("map", O_RDWR);
	p = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	holds(p != MAP_FAILED && q != MAP_FAILED, "shared and private mapping");
	if (p == MAP_FAILED || q == MAP_FAILED)
		return;
	holds(p[9999] == pattern(9999) && q[4096] == pattern(4096), "they have the bytes");
	holds(p[10000] == 0, "zeros after the end, in the last page");
	memcpy(p + 5000, "here", 4);
	equals(pread(fd, buf, 4, 5000), 4, "pread of what was stored");
	holds(memcmp(buf, "here", 4) == 0, "a store in the shared one is seen by read");
	equals(pwrite(fd, "THEN", 4, 6000), 4, "pwrite");
	holds(memcmp(p + 6000, "THEN", 4) == 0, "a write is seen in the mapping");
	memcpy(q + 7000, "priv", 4);
	holds(p[7000] == pattern(7000), "a store in the private one is not seen");
	equals(msync(p, 10000, MS_SYNC), 0, "msync");
	munmap(p, 10000);
	munmap(q, 10000);
	close(fd);
	is_size("map", 10000);
}

static void copies(void)
{
	loff_t from = 10, to = 5;
	int a, b;

	fill("from", 5000);
	a = open("from", O_RDONLY);
	b = open("to", O_RDWR | O_CREAT, 0644);
	equals(copy_file_range(a, &from, b, &to, 1000, 0), 1000, "copy_file_range");
	is_size("to", 1005);
	equals(from, 1010, "offset read");
	equals(to, 1005, "offset written");
	equals(copy_file_range(a, &(loff_t){6000}, b, NULL, 10, 0), 0, "copy beyond the end");
	equals(copy_file_range(b, &(loff_t){0}, a, &(loff_t){0}, 1, 0) < 0 ? errno : 0, EBADF,
		"errno of a copy to what is open for reading");
	close(a);
	close(b);
}

void topic_bytes(void)
{
	vectors_and_offsets();
	two_descriptors();
	mapped_bytes();
	copies();
}
