/* SPDX-License-Identifier: MIT */
/* Assertions: each is one TAP line. Names, kinds of files, times. */
#include "tests/posix/posix.h"
#include "tests/posix/tap.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/sysmacros.h>

const char *const kind_names[KINDS] = {
	"file", "directory", "fifo", "socket", "symlink", "character device", "block device"};

static unsigned count, failed;
static unsigned names;
static char arena[8 << 20]; /* of the strings of one topic */
static size_t arena_used;

unsigned tap_count(void)
{
	return count;
}

unsigned tap_failed(void)
{
	return failed;
}

void tap_new_topic(void)
{
	arena_used = 0;
}

void bail(const char *fmt, ...)
{
	va_list ap;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(255);
}

/* The text may have any bytes and any length: shown short, on one line. */
static void show(char *out, size_t size, const char *path)
{
	size_t n = strlen(path), k = 0;

	if (size < 64)
		bail("show: no room");
	for (; k < n && k < 40; k++)
		out[k] = path[k] < ' ' || path[k] > '~' || path[k] == '#' ? '?' : path[k];
	out[k] = '\0';
	if (n > k)
		snprintf(out + k, size - k, "...(%zu)", n);
}

static void result(const char *file, int line, bool good, const char *what, const char *why)
{
	const char *base = strrchr(file, '/');

	count++;
	if (!good)
		failed++;
	if (good && options.brief)
		return;
	printf("%s %u - %s: %s", good ? "ok" : "not ok", count, topic, what);
	if (!good)
		printf(" # %s (%s:%d)", why, base ? base + 1 : file, line);
	printf("\n");
}

static const char *error_name(int err)
{
	const char *s = err ? strerrorname_np(err) : "0";

	return s ? s : "an unknown errno";
}

static void describe(char *out, size_t size, const struct who *w, const struct call *c)
{
	char text[96];
	size_t n = 0;

	n += (size_t)snprintf(out + n, size - n, "%s(", c->name);
	for (const char *f = c->form; *f; f++) {
		const char *comma = f == c->form ? "" : ", ";

		switch (*f) {
		case 'a':
		case 'b':
			show(text, sizeof(text), *f == 'a' ? c->a : c->b);
			break;
		case 'o':
			snprintf(text, sizeof(text), "0%lo", (unsigned long)c->x);
			break;
		case 'O':
			snprintf(text, sizeof(text), "0%lo", (unsigned long)c->y);
			break;
		default:
			snprintf(text, sizeof(text), "%ld", *f == 'd' ? c->x : c->y);
		}
		n += (size_t)snprintf(out + n, size - n, "%s%s", comma, text);
	}
	n += (size_t)snprintf(out + n, size - n, ") as %u:%u", w->uid, w->gid);
	for (size_t k = 0; k < w->n; k++)
		n += (size_t)snprintf(out + n, size - n, ",%u", w->groups[k]);
	if (w->mask)
		snprintf(out + n, size - n, " umask 0%o", w->mask);
}

void want_at(const char *file, int line, int err, int err2, struct who w, struct call c)
{
	char call[400], what[500], why[100];
	int got = try_as(w, &c);

	describe(call, sizeof(call), &w, &c);
	snprintf(what, sizeof(what), "%s -> %s%s%s", call, error_name(err), err2 ? " or " : "",
		err2 ? error_name(err2) : "");
	snprintf(why, sizeof(why), "got %s", error_name(got));
	result(file, line, got == err || (err2 && got == err2), what, why);
}

void must_at(const char *file, int line, struct call c)
{
	struct who w = ROOT;
	char text[400];
	int err = c.run(&c);

	if (!err)
		return;
	describe(text, sizeof(text), &w, &c);
	bail("%s:%d: %s: %s", file, line, text, error_name(err));
}

void holds_at(const char *file, int line, bool good, const char *fmt, ...)
{
	char what[500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	result(file, line, good, what, "not so");
}

void equals_at(const char *file, int line, long long got, long long right, const char *fmt, ...)
{
	char text[400], what[500], why[100];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(what, sizeof(what), "%s is %lld", text, right);
	snprintf(why, sizeof(why), "got %lld", got);
	result(file, line, got == right, what, why);
}

/* --- what an lstat says ----------------------------------------------------------------------- */

static bool look(const char *file, int line, const char *path, struct stat *st, char *shown)
{
	show(shown, 96, path);
	if (lstat(path, st) == 0)
		return true;
	result(file, line, false, shown, error_name(errno));
	return false;
}

void is_mode_at(const char *file, int line, const char *path, mode_t mode)
{
	char shown[96], what[200], why[100];
	struct stat st;

	if (!look(file, line, path, &st, shown))
		return;
	snprintf(what, sizeof(what), "%s has mode 0%o", shown, mode);
	snprintf(why, sizeof(why), "got 0%o", st.st_mode & 07777);
	result(file, line, (st.st_mode & 07777) == mode, what, why);
}

void is_owner_at(const char *file, int line, const char *path, uid_t uid, gid_t gid)
{
	char shown[96], what[200], why[100];
	struct stat st;

	if (!look(file, line, path, &st, shown))
		return;
	snprintf(what, sizeof(what), "%s belongs to %u:%u", shown, uid, gid);
	snprintf(why, sizeof(why), "got %u:%u", st.st_uid, st.st_gid);
	result(file, line, st.st_uid == uid && st.st_gid == gid, what, why);
}

void is_kind_at(const char *file, int line, const char *path, enum kind k)
{
	static const mode_t types[KINDS] = {
		S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK, S_IFLNK, S_IFCHR, S_IFBLK};
	char shown[96], what[200], why[100];
	struct stat st;

	if (!look(file, line, path, &st, shown))
		return;
	snprintf(what, sizeof(what), "%s is a %s", shown, kind_names[k]);
	snprintf(why, sizeof(why), "its type is 0%o", st.st_mode & S_IFMT);
	result(file, line, (st.st_mode & S_IFMT) == types[k], what, why);
}

void is_size_at(const char *file, int line, const char *path, off_t size)
{
	char shown[96];
	struct stat st;

	if (look(file, line, path, &st, shown))
		equals_at(file, line, st.st_size, size, "size of %s", shown);
}

void is_links_at(const char *file, int line, const char *path, nlink_t n)
{
	char shown[96];
	struct stat st;

	if (look(file, line, path, &st, shown))
		equals_at(file, line, (long long)st.st_nlink, (long long)n, "link count of %s",
			shown);
}

void is_gone_at(const char *file, int line, const char *path)
{
	char shown[96], what[200];
	struct stat st;
	int err = lstat(path, &st) < 0 ? errno : 0;

	show(shown, sizeof(shown), path);
	snprintf(what, sizeof(what), "%s is gone", shown);
	result(file, line, err == ENOENT, what, error_name(err));
}

void is_same_file_at(const char *file, int line, const char *a, const char *b)
{
	char shown_a[96], shown_b[96], what[250];
	struct stat st_a, st_b;

	if (!look(file, line, a, &st_a, shown_a) || !look(file, line, b, &st_b, shown_b))
		return;
	snprintf(what, sizeof(what), "%s and %s are one file", shown_a, shown_b);
	result(file, line, st_a.st_ino == st_b.st_ino && st_a.st_dev == st_b.st_dev, what,
		"two inodes");
}

/* --- files ------------------------------------------------------------------------------------ */

void make(enum kind k, const char *path)
{
	switch (k) {
	case REG:
		must(c_open(path, O_CREAT | O_EXCL | O_WRONLY, 0644));
		break;
	case DIR_:
		must(c_mkdir(path, 0755));
		break;
	case FIFO:
		must(c_mkfifo(path, 0644));
		break;
	case SOCK:
		must(c_mknod(path, S_IFSOCK | 0644, 0));
		break;
	case LINK:
		must(c_symlink("nowhere", path));
		break;
	case CHR:
		must(c_mknod(path, S_IFCHR | 0644, makedev(1, 3)));
		break;
	case BLK:
		must(c_mknod(path, S_IFBLK | 0644, makedev(7, 99)));
		break;
	case KINDS:
		bail("no such kind");
	}
}

void make_for(enum kind k, const char *path, struct who owner)
{
	make(k, path);
	must(c_lchown(path, owner.uid, owner.gid));
}

static void wipe_at(int dir, const char *path)
{
	struct dirent *e;
	DIR *d;
	int fd;

	if (unlinkat(dir, path, 0) == 0 || errno == ENOENT)
		return;
	fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		bail("cannot remove %.40s: %s", path, strerror(errno));
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			wipe_at(fd, e->d_name);
	closedir(d);
	if (unlinkat(dir, path, AT_REMOVEDIR) < 0)
		bail("rmdir %.40s: %s", path, strerror(errno));
}

void wipe(const char *path)
{
	wipe_at(AT_FDCWD, path);
}

/* --- names ------------------------------------------------------------------------------------ */

static char *space(size_t n)
{
	char *s = arena + arena_used;

	if (n > sizeof(arena) - arena_used)
		bail("out of names");
	arena_used += n;
	return s;
}

const char *name(void)
{
	return at("n%u", names++);
}

const char *at(const char *fmt, ...)
{
	char text[8192], *s;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		bail("too long a name");
	s = space((size_t)n + 1);
	memcpy(s, text, (size_t)n + 1);
	return s;
}

const char *of_length(size_t n)
{
	char *s = space(n + 1);

	memset(s, 'l', n);
	s[n] = '\0';
	return s;
}

/* --- times ------------------------------------------------------------------------------------ */

struct stamp stamp(const char *path)
{
	struct stamp s = {.path = path};

	if (lstat(path, &s.st) < 0)
		bail("lstat(%.40s): %s", path, strerror(errno));
	return s;
}

static int later(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec > b->tv_sec ? 1 : -1;
	return a->tv_nsec == b->tv_nsec ? 0 : a->tv_nsec > b->tv_nsec ? 1 : -1;
}

/* File times come from the coarse clock, or are finer: when that clock has passed this moment, any
 * is later than all before. (Not just its next tick: it may lag behind by more than one.) */
void tick(void)
{
	struct timespec then, now;

	clock_gettime(CLOCK_REALTIME, &then);
	do {
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (later(&now, &then) <= 0);
}

void times_at(const char *file, int line, const struct stamp *s, const char *letters)
{
	char shown[96], what[200];
	struct stat st;

	if (!look(file, line, s->path, &st, shown))
		return;
	for (; *letters; letters++) {
		char l = *letters | 0x20;
		bool move = *letters == l;
		int diff = l == 'a'   ? later(&st.st_atim, &s->st.st_atim)
			   : l == 'm' ? later(&st.st_mtim, &s->st.st_mtim)
				      : later(&st.st_ctim, &s->st.st_ctim);

		snprintf(what, sizeof(what), "%ctime of %s is %s", l, shown,
			move ? "later" : "as before");
		result(file, line, diff == move, what,
			diff > 0   ? "it is later"
			: diff < 0 ? "it is earlier"
				   : "it is as before");
	}
}
