/* SPDX-License-Identifier: MIT */
/* Reading directories: whole, by seeking, and while they change; statfs. */
#include "tests/posix/posix.h"

#include <dirent.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { N = 600 };

struct seen {
	int times[2 * N]; /* of each e%d */
	int dots, others;
};

static void note(struct seen *s, const struct dirent *e)
{
	char *end;
	long k;

	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
		s->dots++;
		return;
	}
	k = e->d_name[0] == 'e' ? strtol(e->d_name + 1, &end, 10) : -1;
	if (k < 0 || k >= 2 * N || *end)
		s->others++;
	else
		s->times[k]++;
}

/* How many of e<FROM>..e<TO-1>, each STEP-th, were seen other than once. */
static int not_once(const struct seen *s, int from, int to, int step)
{
	int bad = 0;

	for (int k = from; k < to; k += step)
		bad += s->times[k] != 1;
	return bad;
}

static int most(const struct seen *s)
{
	int max = 0;

	for (int k = 0; k < 2 * N; k++)
		max = s->times[k] > max ? s->times[k] : max;
	return max;
}

static DIR *open_dir(const char *path)
{
	DIR *d = opendir(path);

	if (!d)
		bail("opendir(%s): %s", path, strerror(errno));
	return d;
}

static void fill(const char *dir)
{
	must(c_mkdir(dir, 0755));
	for (int k = 0; k < N; k++)
		make(REG, at("%s/e%d", dir, k));
}

static void whole(const char *dir)
{
	struct seen s = {0};
	struct dirent *e;
	DIR *d = open_dir(dir);

	while ((e = readdir(d)))
		note(&s, e);
	equals(not_once(&s, 0, N, 1), 0, "names not listed once");
	equals(s.dots, 2, "dot and dot-dot");
	equals(s.others, 0, "names that nobody made");
	/* Again, from the start. */
	memset(&s, 0, sizeof(s));
	rewinddir(d);
	while ((e = readdir(d)))
		note(&s, e);
	equals(not_once(&s, 0, N, 1), 0, "names not listed once after rewinddir");
	make(REG, at("%s/e%d", dir, N));
	memset(&s, 0, sizeof(s));
	rewinddir(d);
	while ((e = readdir(d)))
		note(&s, e);
	equals(s.times[N], 1, "a new name after rewinddir, listed");
	must(c_unlink(at("%s/e%d", dir, N)));
	memset(&s, 0, sizeof(s));
	rewinddir(d);
	while ((e = readdir(d)))
		note(&s, e);
	equals(s.times[N], 0, "a name that is gone, after rewinddir, listed");
	closedir(d);
}

/* From each place that telldir named, the same names come in the same order. */
static void seeking(const char *dir)
{
	static long place[N + 3];
	static char names[N + 3][256];
	int n = 0, wrong = 0;
	struct dirent *e;
	DIR *d = open_dir(dir);

	place[0] = telldir(d);
	while (n < N + 2 && (e = readdir(d))) {
		snprintf(names[n++], sizeof(names[0]), "%s", e->d_name);
		place[n] = telldir(d);
	}
	equals(n, N + 2, "names");
	for (int k = n - 1; k >= 0; k -= 7) {
		seekdir(d, place[k]);
		for (int j = k; j < k + 3 && j < n; j++) {
			e = readdir(d);
			wrong += !e || strcmp(e->d_name, names[j]) != 0;
		}
	}
	equals(wrong, 0, "wrong names after seekdir");
	seekdir(d, place[n]);
	holds(!readdir(d), "the end is the end, after seekdir too");
	closedir(d);
}

/* What is there before and after is listed once, whatever else comes and goes. */
static void while_changing(const char *dir)
{
	struct seen s = {0};
	struct dirent *e;
	int n = 0;
	DIR *d = open_dir(dir);

	while ((e = readdir(d))) {
		note(&s, e);
		if (n < N / 2) {
			make(REG, at("%s/e%d", dir, N + n));
			if (n % 2)
				must(c_unlink(at("%s/e%d", dir, n)));
		}
		n++;
	}
	closedir(d);
	equals(not_once(&s, 0, N, 2), 0, "names not listed once, of those that stayed");
	equals(not_once(&s, N / 2, N, 1), 0, "names not listed once, of the others that stayed");
	holds(most(&s) == 1, "no name is listed twice");
	for (int k = 0; k < N / 2; k++) {
		must(c_unlink(at("%s/e%d", dir, N + k)));
		if (k % 2)
			make(REG, at("%s/e%d", dir, k));
	}
}

/* As rm -r does it: each name is removed when it is read, with and without seeking. */
static void removing(bool seek)
{
	const char *dir = name();
	struct seen s = {0};
	struct dirent *e;
	DIR *d;

	fill(dir);
	d = open_dir(dir);
	while ((e = readdir(d))) {
		note(&s, e);
		if (e->d_name[0] != 'e')
			continue;
		must(c_unlink(at("%s/%s", dir, e->d_name)));
		if (seek)
			seekdir(d, telldir(d));
	}
	closedir(d);
	equals(not_once(&s, 0, N, 1), 0, "names not listed once while each is removed");
	want(0, ROOT, c_rmdir(dir));
}

static void renaming(const char *dir)
{
	struct seen s = {0};
	struct dirent *e;
	int n = 0;
	DIR *d = open_dir(dir);

	/* Renames within the directory, of names that are not asked about. */
	while ((e = readdir(d))) {
		note(&s, e);
		if (n < N / 4)
			must(c_rename(at("%s/e%d", dir, n * 2), at("%s/e%d", dir, N + n)));
		n++;
	}
	closedir(d);
	equals(not_once(&s, 1, N, 2), 0, "names not listed once, of those not renamed");
	for (int k = 0; k < N / 4; k++)
		must(c_rename(at("%s/e%d", dir, N + k), at("%s/e%d", dir, k * 2)));
}

static void entries(void)
{
	static const unsigned char types[KINDS] = {
		DT_REG, DT_DIR, DT_FIFO, DT_SOCK, DT_LNK, DT_CHR, DT_BLK};
	struct dirent *e;
	struct stat st;
	int n = 0;
	DIR *d;

	must(c_mkdir("kinds", 0755));
	for (each_kind(k))
		make(k, at("kinds/%d", (int)k));
	d = open_dir("kinds");
	while ((e = readdir(d))) {
		if (lstat(at("kinds/%s", e->d_name), &st) < 0)
			bail("lstat: %s", strerror(errno));
		if (strcmp(e->d_name, "..") != 0)
			holds(e->d_ino == st.st_ino, "d_ino of %s is st_ino", e->d_name);
		if (e->d_name[0] == '.')
			continue;
		n++;
		holds(e->d_type == DT_UNKNOWN || e->d_type == types[atoi(e->d_name)],
			"d_type of a %s", kind_names[atoi(e->d_name)]);
	}
	closedir(d);
	equals(n, options.no_devices ? CHR : KINDS, "names");
}

static void removed_directory(void)
{
	DIR *d;

	must(c_mkdir("gone", 0755));
	d = open_dir("gone");
	want(0, ROOT, c_rmdir("gone"));
	errno = 0;
	for (int k = 0; k < 3 && readdir(d); k++)
		;
	holds(errno == 0 || errno == ENOENT, "a removed directory ends, or is said to be gone");
	closedir(d);
}

static void long_names(void)
{
	struct dirent *e;
	int n = 0;
	DIR *d;

	must(c_mkdir("long", 0755));
	for (int k = 0; k < 100; k++)
		make(REG, at("long/%03d%s", k, of_length(252)));
	d = open_dir("long");
	while ((e = readdir(d)))
		n += strlen(e->d_name) == 255;
	closedir(d);
	equals(n, 100, "names of 255 bytes");
}

void topic_readdir(void)
{
	fill("dir");
	whole("dir");
	seeking("dir");
	while_changing("dir");
	whole("dir");
	renaming("dir");
	whole("dir");
	removing(false);
	removing(true);
	entries();
	removed_directory();
	long_names();
}

/* --- statfs
 * ---------------------------------------------------------------------------------------------- */

void topic_statfs(void)
{
	struct statvfs v, v2;
	struct statfs f;
	int fd;

	make(REG, "file");
	must(c_symlink("file", "link"));
	make(FIFO, "fifo");
	equals(statvfs(".", &v), 0, "statvfs");
	equals((long long)v.f_namemax, 255, "longest name");
	holds(v.f_bsize >= 512 && v.f_frsize >= 512, "block sizes");
	holds(v.f_blocks > 0, "a size");
	holds(v.f_bfree <= v.f_blocks && v.f_bavail <= v.f_bfree, "free blocks");
	holds(v.f_ffree <= v.f_files && v.f_favail <= v.f_ffree, "free inodes");
	holds(!(v.f_flag & ST_RDONLY), "not read-only");
	equals(statvfs("file", &v2), 0, "statvfs of a file");
	equals((long long)v2.f_blocks, (long long)v.f_blocks, "its size");
	equals(statvfs("link", &v2), 0, "statvfs of a link");
	equals(statvfs("fifo", &v2), 0, "statvfs of a fifo");
	fd = open("file", O_RDONLY);
	equals(fstatvfs(fd, &v2), 0, "fstatvfs");
	equals((long long)v2.f_blocks, (long long)v.f_blocks, "the size by a descriptor");
	close(fd);
	equals(statfs(".", &f), 0, "statfs");
	equals(f.f_namelen, 255, "longest name by statfs");
	want(0, NOBODY, c_statfs("."));
	want(0, NOBODY, c_statfs("file"));
	equals(pathconf(".", _PC_NAME_MAX), 255, "pathconf(_PC_NAME_MAX)");
}
