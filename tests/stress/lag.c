/*
 * How late the host sees what a process in the background of the sandbox does.
 *
 * The writer makes the changes 1, 2, 3 ... to each of several things, and notes when each was done.
 * The host looks at all of them in a loop. A look that began at P and did not show change K was
 * stale by P minus the time at which K was done: that must not be more than 100 ms. When the host
 * saw it first is printed too. An open makes the host hear of everything, so half of the time it
 * opens nothing, and does not look at what can be seen by an open only. Those who carry the news
 * need a processor: where others have it, one change in ten may be later, up to ten seconds; with
 * --strict none.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "data.h"
#include "stress.h"

enum way {
	DATA,
	HELD,
	APPEND,
	KEPT,
	GROWN,
	CUT,
	ATTR,
	MODE,
	OVER,
	MAP,
	LINK,
	NAME,
	GONE,
	MADE,
	REMOVED,
	LISTED,
	WAYS
};

static const char *const ways[WAYS] = {
	[DATA] = "overwritten",
	[HELD] = "overwritten, read by an open descriptor",
	[APPEND] = "appended",
	[KEPT] = "overwritten, never closed by the writer",
	[GROWN] = "appended, never closed by the writer",
	[CUT] = "truncated",
	[ATTR] = "mtime set",
	[MODE] = "mode set",
	[OVER] = "renamed over",
	[MAP] = "stored by a mapping, closed",
	[LINK] = "symlink replaced",
	[NAME] = "new name",
	[GONE] = "removed",
	[MADE] = "new directory",
	[REMOVED] = "directory removed",
	[LISTED] = "renamed, by listing",
};

enum { MOST = 20000 };	/* changes */
enum { MODES = 07777 }; /* a mode says so much of a number: 16 seconds of changes */
#define ALLOWED_NS 100000000LL
#define EVER_NS	   10000000000LL
#define PHASE_NS   400000000LL /* with opens, and without */

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "lag: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void check(long result, const char *what)
{
	if (result < 0)
		fail(what);
}

static void number_name(char *out, size_t len, const char *dir, long k)
{
	snprintf(out, len, "%s/%ld", dir, k);
}

static void put_file(const char *name, const void *data, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	check(fd, name);
	if (write(fd, data, len) != (ssize_t)len)
		fail(name);
	check(close(fd), name);
}

/* --- the writer ---------------------------------------------------------------------------------
 */

static void write_number(const char *name, long k)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	check(fd, name);
	if (pwrite(fd, &k, sizeof(k), 0) != sizeof(k))
		fail(name);
	close(fd);
}

static void store_number(const char *name, long k)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);
	volatile long *map;

	check(fd, name);
	map = mmap(NULL, sizeof(k), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail(name);
	*map = k;
	munmap((void *)map, sizeof(k));
	close(fd);
}

static void append_number(const char *name, long k)
{
	int fd = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);

	check(fd, name);
	if (write(fd, &k, sizeof(k)) != sizeof(k))
		fail(name);
	close(fd);
}

static int kept_fd, grown_fd;

static void open_kept(void)
{
	kept_fd = open("kept", O_WRONLY | O_CLOEXEC);
	check(kept_fd, "kept");
	grown_fd = open("grown", O_WRONLY | O_APPEND | O_CLOEXEC);
	check(grown_fd, "grown");
}

static void change(enum way way, long k)
{
	struct timespec ts[2] = {{.tv_nsec = UTIME_OMIT}, {k, 0}};
	char name[64], other[64];

	switch (way) {
	case DATA:
		write_number("data", k);
		break;
	case HELD:
		write_number("held", k);
		break;
	case APPEND:
		append_number("append", k);
		break;
	case KEPT:
		if (pwrite(kept_fd, &k, sizeof(k), 0) != sizeof(k))
			fail("kept");
		break;
	case GROWN:
		if (write(grown_fd, &k, sizeof(k)) != sizeof(k))
			fail("grown");
		break;
	case CUT:
		check(truncate("cut", MOST - k), "cut");
		break;
	case ATTR:
		check(utimensat(AT_FDCWD, "attr", ts, 0), "attr");
		break;
	case MODE:
		check(chmod("mode", (mode_t)(k & MODES)), "mode");
		break;
	case OVER:
		put_file("over.new", &k, sizeof(k));
		check(rename("over.new", "over"), "over");
		break;
	case MAP:
		store_number("map", k);
		break;
	case LINK:
		snprintf(name, sizeof(name), "%ld", k);
		check(symlink(name, "link.new"), "link.new");
		check(rename("link.new", "link"), "link");
		break;
	case NAME:
		number_name(name, sizeof(name), "names", k);
		put_file(name, "", 0);
		break;
	case GONE:
		number_name(name, sizeof(name), "gone", k);
		check(unlink(name), name);
		break;
	case MADE:
		number_name(name, sizeof(name), "made", k);
		check(mkdir(name, 0755), name);
		break;
	case REMOVED:
		number_name(name, sizeof(name), "dirs", k);
		check(rmdir(name), name);
		break;
	default: /* LISTED */
		number_name(name, sizeof(name), "list", k - 1);
		number_name(other, sizeof(other), "list", k);
		check(rename(name, other), name);
	}
}

/* lag-write COUNT STEP_US: in the tree's directory `lag`, which the host has made. */
int lag_write_main(int argc, char **argv)
{
	static int64_t times[WAYS][MOST + 1];
	long count = argc == 3 ? strtol(argv[1], NULL, 10) : 0,
	     step_us = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (count <= 0 || count > MOST || chdir(BOX_TREE "/lag"))
		return 2;
	open_kept();
	for (long k = 1; k <= count; k++)
		for (int way = 0; way < WAYS; way++) {
			change((enum way)way, k);
			times[way][k] = now_ns();
			usleep((useconds_t)(step_us / WAYS));
		}
	put_file("times.new", times, sizeof(times));
	check(rename("times.new", "times"), "times");
	return 0;
}

/* --- the host -----------------------------------------------------------------------------------
 */

static int held_fd, kept_read_fd;

static long read_number(int fd, const char *name)
{
	long k = 0;

	check(fd, name);
	if (pread(fd, &k, sizeof(k), 0) != sizeof(k))
		fail(name);
	return k;
}

static long read_file(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	long k = read_number(fd, name);

	close(fd);
	return k;
}

/* The number in the listing; a directory that is being changed may show none, or two. */
static long read_list(long known)
{
	DIR *dir = opendir("list");
	struct dirent *e;
	long most = 0;

	if (!dir)
		fail("list");
	while ((e = readdir(dir))) {
		long k = strtol(e->d_name, NULL, 10);

		if (k > most)
			most = k;
	}
	closedir(dir);
	return most ? most : known;
}

static int there(const char *dir, long k)
{
	char name[64];

	number_name(name, sizeof(name), dir, k);
	return access(name, F_OK) == 0;
}

/* Up to which the names are there, or gone, beginning after K. By few questions: whoever asked for
 * each could run behind the writer without end, and look at nothing else. */
static long read_names(const char *dir, long k, long count, int want)
{
	long step = 1, not ;

	for (; k + step <= count && there(dir, k + step) == want; step *= 2)
		k += step;
	not = k + step <= count ? k + step : count + 1;
	while (not -k > 1) {
		long middle = k + (not -k) / 2;

		if (there(dir, middle) == want)
			k = middle;
		else
			not = middle;
	}
	return k;
}

static long look(enum way way, long known, long count)
{
	struct stat st;
	char text[64];
	ssize_t n;

	switch (way) {
	case DATA:
		return read_file("data");
	case HELD:
		return read_number(held_fd, "held");
	case APPEND:
		check(stat("append", &st), "append");
		return st.st_size / (long)sizeof(long);
	case KEPT:
		return read_number(kept_read_fd, "kept");
	case GROWN:
		check(stat("grown", &st), "grown");
		return st.st_size / (long)sizeof(long);
	case CUT:
		check(stat("cut", &st), "cut");
		return MOST - st.st_size;
	case ATTR:
		check(stat("attr", &st), "attr");
		return st.st_mtim.tv_sec;
	case MODE:
		check(stat("mode", &st), "mode");
		return known + (((long)st.st_mode - known) & MODES);
	case OVER:
		return read_file("over");
	case MAP:
		return read_file("map");
	case LINK:
		n = readlink("link", text, sizeof(text) - 1);
		check(n, "link");
		text[n] = '\0';
		return strtol(text, NULL, 10);
	case NAME:
		return read_names("names", known, count, 1);
	case GONE:
		return read_names("gone", known, count, 0);
	case MADE:
		return read_names("made", known, count, 1);
	case REMOVED:
		return read_names("dirs", known, count, 0);
	default:
		return read_list(known);
	}
}

struct seen {
	long known;
	int64_t missed[MOST + 1]; /* when the last look began that did not show it */
	int64_t first[MOST + 1];  /* when the first look ended that did */
	int64_t since[MOST + 1];  /* from when on there were looks that could have */
};
static struct seen seen[WAYS];

/* Does a look at it begin with an open? */
static int opens(enum way way)
{
	return way == DATA || way == OVER || way == MAP || way == LISTED;
}

/* Looks that open have been made since then. */
static int64_t opening_since;

static int look_once(enum way way, long count)
{
	struct seen *s = &seen[way];
	static int64_t last[WAYS]; /* when the look before this one began */
	int64_t start = now_ns(), end;
	long k = look(way, s->known, count);

	end = now_ns();
	if (k < s->known) {
		printf("WRONG: %s: %ld was seen after %ld\n", ways[way], k, s->known);
		return -1;
	}
	for (long i = s->known + 1; i <= k && i <= count; i++) {
		s->missed[i] = last[way];
		s->first[i] = end;
		s->since[i] = opens(way) ? opening_since : 0;
	}
	s->known = k;
	last[way] = start;
	return 0;
}

static void prepare(long count)
{
	long zero = 0;
	struct timespec ts[2] = {{0, 0}, {0, 0}};
	char name[64];

	if ((mkdir("lag", 0755) && errno != EEXIST) || chdir("lag"))
		fail("lag");
	check(mkdir("names", 0755), "names");
	check(mkdir("gone", 0755), "gone");
	check(mkdir("list", 0755), "list");
	check(mkdir("made", 0755), "made");
	check(mkdir("dirs", 0755), "dirs");
	put_file("data", &zero, sizeof(zero));
	put_file("held", &zero, sizeof(zero));
	put_file("over", &zero, sizeof(zero));
	put_file("map", &zero, sizeof(zero));
	put_file("kept", &zero, sizeof(zero));
	put_file("grown", "", 0);
	put_file("cut", "", 0);
	check(truncate("cut", MOST), "cut");
	put_file("mode", "", 0);
	check(chmod("mode", 0), "mode");
	put_file("append", "", 0);
	put_file("attr", "", 0);
	put_file("list/0", "", 0);
	check(utimensat(AT_FDCWD, "attr", ts, 0), "attr");
	check(symlink("0", "link"), "link");
	for (long k = 1; k <= count; k++) {
		number_name(name, sizeof(name), "gone", k);
		put_file(name, "", 0);
		number_name(name, sizeof(name), "dirs", k);
		check(mkdir(name, 0755), name);
	}
	held_fd = open("held", O_RDONLY | O_CLOEXEC);
	check(held_fd, "held");
	kept_read_fd = open("kept", O_RDONLY | O_CLOEXEC);
	check(kept_read_fd, "kept");
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void print_line(const char *what, int64_t *v, long n)
{
	qsort(v, (size_t)n, sizeof(*v), by_size);
	printf("%-42s p50 %8.3f  p90 %8.3f  p99 %8.3f  max %8.3f ms\n", what,
		(double)v[n / 2] / 1e6, (double)v[n * 9 / 10] / 1e6, (double)v[n * 99 / 100] / 1e6,
		(double)v[n - 1] / 1e6);
}

static int strict;
static long later; /* changes of any kind, stale by more than is allowed */

static int judge(enum way way, const int64_t *times, long count)
{
	static int64_t stale[MOST + 1], late[MOST + 1];
	struct seen *s = &seen[way];
	char what[64];

	if (s->known != count) {
		printf("WRONG: %s: change %ld was never seen\n", ways[way], s->known + 1);
		return -1;
	}
	for (long k = 1; k <= count; k++) {
		int64_t from = s->since[k] > times[k] ? s->since[k] : times[k];

		stale[k - 1] = s->missed[k] > times[k] ? s->missed[k] - times[k] : 0;
		late[k - 1] = s->first[k] > from ? s->first[k] - from : 0;
	}
	snprintf(what, sizeof(what), "%s", ways[way]);
	print_line(what, late, count);
	print_line("  of that, stale when asked", stale, count);
	for (long k = 0; k < count; k++)
		later += stale[k] > ALLOWED_NS;
	if (stale[count * 9 / 10] > ALLOWED_NS ||
		stale[count - 1] > (strict ? ALLOWED_NS : EVER_NS)) {
		printf("LATE: %s: stale by more than 100 ms\n", ways[way]);
		return -1;
	}
	return 0;
}

/* Until the writer's notes are there and all is seen, or long enough after. */
static int watch(long count)
{
	int64_t deadline = 0, start = now_ns();
	int wrongs = 0, opening = 0;

	for (;;) {
		int all = 1, now = (now_ns() - start) / PHASE_NS % 2 == 0;

		if (now && !opening)
			opening_since = now_ns();
		opening = now;
		for (int way = 0; way < WAYS; way++) {
			if (opening || !opens((enum way)way))
				wrongs += look_once((enum way)way, count) != 0;
			all = all && seen[way].known >= count;
		}
		if (wrongs > 10)
			return wrongs;
		if (!deadline && access("times", F_OK) == 0)
			deadline = now_ns() + 2 * EVER_NS;
		if (deadline && (all || now_ns() > deadline))
			return wrongs;
		usleep(200);
	}
}

/* lag [--strict] [--local INSIDE] SECONDS DIR */
int lag_main(int argc, char **argv)
{
	static int64_t times[WAYS][MOST + 1];
	const long step_us = 4000;
	int local, fd, wrongs;
	struct box box;
	char text[256];
	long count;

	strict = argc > 1 && strcmp(argv[1], "--strict") == 0;
	argv += strict;
	argc -= strict;
	local = argc == 5 && strcmp(argv[1], "--local") == 0;
	if (argc != 3 && !local) {
		fprintf(stderr, "usage: lag [--strict] [--local INSIDE] SECONDS DIR\n");
		return 2;
	}
	count = strtol(argv[argc - 2], NULL, 10) * 1000000 / step_us;
	if (count <= 0 || count > MOST)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	box_open(&box, argv[argc - 1], local ? argv[2] : NULL);
	prepare(count);
	snprintf(text, sizeof(text), BOX_PROGRAM " lag-write %ld %ld </dev/null >/dev/null 2>&1 &",
		count, step_us);
	box_shell(&box, text, BOX_EXEC);
	wrongs = watch(count);
	fd = open("times", O_RDONLY | O_CLOEXEC);
	check(fd, "times");
	for (size_t done = 0; done < sizeof(times);) {
		ssize_t n = read(fd, (char *)times + done, sizeof(times) - done);

		if (n <= 0)
			fail("times");
		done += (size_t)n;
	}
	for (int way = 0; way < WAYS; way++)
		wrongs += judge((enum way)way, times[way], count) != 0;
	printf("lag: %ld changes of each kind, %ld stale by more than 100 ms, %s\n", count, later,
		wrongs ? "WRONG" : "as it must be");
	return wrongs ? 1 : 0;
}
