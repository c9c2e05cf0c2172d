/*
 * See act.h. One thread: a SIGBUS (a mapping of a file that is believed to be shorter than it is)
 * is caught in a variable of this file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "act.h"
#include "data.h"
#include "sys.h"
#include "tree.h"

enum { ALIGN = 4096 };

static sigjmp_buf bus;

static void on_bus(int sig)
{
	(void)sig;
	siglongjmp(bus, 1);
}

__attribute__((format(printf, 2, 3))) static int wrong(struct actor *actor, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(actor->why, sizeof(actor->why), fmt, ap);
	va_end(ap);
	return -1;
}

/* A call gave RESULT: 0 where that is what must be, and where it is an error that must be. */
static int settle(struct actor *actor, const struct op *op, long result)
{
	int err = result < 0 ? errno : 0;

	if (err == op->err)
		return 0;
	return wrong(actor, "gave %s, not %s", err ? strerror(err) : "success",
		op->err ? strerror(op->err) : "success");
}

/* Opened for reading only, a directory opens: that it is none is said here, as for writing by the
 * kernel. */
static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (flags & O_ACCMODE) == O_RDONLY && !fstat(fd, &st) && S_ISDIR(st.st_mode)) {
		close(fd);
		errno = EISDIR;
		return -1;
	}
	return fd;
}

static void close_keep(int fd)
{
	int err = errno;

	close(fd);
	errno = err;
}

static char *bytes(size_t len)
{
	static char *buf;
	static size_t size;

	if (len > size) {
		free(buf);
		size = (len + 65535) / 65536 * 65536;
		buf = aligned_alloc(ALIGN, size);
		if (!buf)
			exit(2);
	}
	return buf;
}

/* --- looking ------------------------------------------------------------------------------------
 */

static int compare_bytes(struct actor *actor, const struct op *op, const char *buf, int64_t count)
{
	if (count != op->count)
		return wrong(actor, "%lld bytes, not %lld", (long long)count, (long long)op->count);
	if (data_hash(buf, (size_t)count) != op->hash)
		return wrong(actor, "other bytes: \"%.24s\"...", count ? buf : "");
	return 0;
}

static int64_t read_all(int fd, char *buf, int64_t off, int64_t len, int how)
{
	int64_t done = 0;

	if (how == R_READ && lseek(fd, off, SEEK_SET) < 0)
		return -1;
	while (done < len) {
		ssize_t n = how == R_READ ? read(fd, buf + done, (size_t)(len - done))
					  : pread(fd, buf + done, (size_t)(len - done), off + done);

		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += n;
		/* the next offset would not be aligned; a short read is the end */
		if (how == R_DIRECT && n % ALIGN)
			break;
	}
	return done;
}

/* Copies what is mapped, as far as the file goes; a SIGBUS there is EFAULT. */
static int64_t read_map(const char *map, char *buf, int64_t len)
{
	struct sigaction sa = {.sa_handler = on_bus}, old;
	volatile int64_t got = len;

	sigaction(SIGBUS, &sa, &old);
	if (sigsetjmp(bus, 1)) {
		errno = EFAULT;
		got = -1;
	} else {
		memcpy(buf, map, (size_t)len);
	}
	sigaction(SIGBUS, &old, NULL);
	return got;
}

static int64_t map_and_read(int fd, char *buf, int64_t off, int64_t len)
{
	int64_t start = off / ALIGN * ALIGN, got;
	struct stat st;
	char *map;

	if (fstat(fd, &st))
		return -1;
	if (off >= st.st_size || len == 0)
		return 0;
	if (len > st.st_size - off)
		len = st.st_size - off;
	map = mmap(NULL, (size_t)(off - start + len), PROT_READ, MAP_SHARED, fd, start);
	if (map == MAP_FAILED)
		return -1;
	got = read_map(map + (off - start), buf, len);
	munmap(map, (size_t)(off - start + len));
	return got;
}

static int act_read(struct actor *actor, const struct op *op, const char *path)
{
	char *buf = bytes((size_t)op->len + ALIGN);
	int64_t got = -1;
	/* on what is no file O_DIRECT has an error of its own */
	int direct = op->flags == R_DIRECT && !op->err ? O_DIRECT : 0;
	int fd = open_file(path, O_RDONLY | direct);

	if (fd >= 0) {
		got = op->flags == R_MMAP ? map_and_read(fd, buf, op->off, op->len)
					  : read_all(fd, buf, op->off, op->len, op->flags);
		close_keep(fd);
	}
	if (settle(actor, op, (long)got))
		return -1;
	return op->err ? 0 : compare_bytes(actor, op, buf, got);
}

static int64_t ns(struct timespec ts)
{
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int compare_attrs(struct actor *actor, struct op *op, const struct stat *st)
{
	char type = S_ISREG(st->st_mode)   ? 'f'
		    : S_ISDIR(st->st_mode) ? 'd'
		    : S_ISLNK(st->st_mode) ? 'l'
					   : '?';

	op->got_ino = st->st_ino;
	op->got_mtime = ns(st->st_mtim);
	op->got_ctime = ns(st->st_ctim);
	if (type != op->type)
		return wrong(actor, "type %c, not %c", type, op->type);
	if ((st->st_mode & 07777) != (unsigned)op->mode)
		return wrong(actor, "mode %o, not %o", st->st_mode & 07777, op->mode);
	if (type == 'f' && st->st_size != op->count)
		return wrong(
			actor, "size %lld, not %lld", (long long)st->st_size, (long long)op->count);
	if (op->nlink && st->st_nlink != (nlink_t)op->nlink)
		return wrong(actor, "%lu links, not %d", (unsigned long)st->st_nlink, op->nlink);
	if (op->mtime >= 0 && op->got_mtime != op->mtime)
		return wrong(actor, "mtime %lld, not %lld", (long long)op->got_mtime,
			(long long)op->mtime);
	if (op->ctime >= 0 && op->got_ctime != op->ctime)
		return wrong(actor, "ctime %lld, not %lld", (long long)op->got_ctime,
			(long long)op->ctime);
	if (op->ino && st->st_ino != op->ino)
		return wrong(actor, "inode %llu, not %llu", (unsigned long long)st->st_ino,
			(unsigned long long)op->ino);
	return 0;
}

static int act_stat(struct actor *actor, struct op *op, const char *path)
{
	struct stat st;

	if (settle(actor, op, lstat(path, &st)))
		return -1;
	return op->err ? 0 : compare_attrs(actor, op, &st);
}

static int compare_entry(
	struct actor *actor, const struct op *op, const struct dirent *e, char *seen)
{
	char type = e->d_type == DT_REG	  ? 'f'
		    : e->d_type == DT_DIR ? 'd'
		    : e->d_type == DT_LNK ? 'l'
					  : '?';
	int i = op_name_index(e->d_name);

	if (i < 0)
		return wrong(actor, "lists a stranger: %s", e->d_name);
	if (op->list[i] == '-')
		return wrong(actor, "lists %d, which is not there", i);
	if (seen[i])
		return wrong(actor, "lists %d twice", i);
	if (type != op->list[i])
		return wrong(actor, "lists %d as %c, not %c", i, type, op->list[i]);
	if (op->inos[i] && e->d_ino != op->inos[i])
		return wrong(actor, "lists %d as inode %llu, not %llu", i,
			(unsigned long long)e->d_ino, (unsigned long long)op->inos[i]);
	seen[i] = 1;
	return 0;
}

static int act_list(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), bad = 0;
	char seen[OP_NAMES] = {0};
	struct dirent *e;
	DIR *dir;

	if (settle(actor, op, fd) || op->err) {
		if (fd >= 0)
			close(fd);
		return actor->why[0] ? -1 : 0;
	}
	dir = fdopendir(fd);
	errno = 0;
	while (!bad && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			bad = compare_entry(actor, op, e, seen);
	if (!bad && errno)
		bad = wrong(actor, "readdir: %s", strerror(errno));
	closedir(dir);
	for (int i = 0; !bad && i < OP_NAMES; i++)
		if (op->list[i] != '-' && !seen[i])
			bad = wrong(actor, "does not list %d", i);
	return bad;
}

static int act_readlink(struct actor *actor, const struct op *op, const char *path)
{
	char got[PATH_MAX], want[64];
	ssize_t n = readlink(path, got, sizeof(got) - 1);

	if (settle(actor, op, n) || op->err)
		return actor->why[0] ? -1 : 0;
	got[n] = '\0';
	tree_target(op->seed, want, sizeof(want));
	return strcmp(got, want) == 0 ? 0 : wrong(actor, "says %.100s, not %s", got, want);
}

static int act_xattr(struct actor *actor, const struct op *op, const char *path)
{
	char name[16], value[1024], want[1024];
	ssize_t n;

	snprintf(name, sizeof(name), "user.x%d", op->slot);
	data_fill(want, sizeof(want), op->seed, 0);
	if (op->kind == OP_SETX)
		return settle(actor, op, lsetxattr(path, name, want, (size_t)op->len, op->flags));
	if (op->kind == OP_REMX)
		return settle(actor, op, lremovexattr(path, name));
	n = lgetxattr(path, name, value, sizeof(value));
	if (settle(actor, op, n) || op->err)
		return actor->why[0] ? -1 : 0;
	if (n != op->count || memcmp(value, want, (size_t)n) != 0)
		return wrong(actor, "%s has other bytes, %zd of them, not %lld", name, n,
			(long long)op->count);
	return 0;
}

static int act_listx(struct actor *actor, const struct op *op, const char *path)
{
	char list[1024];
	ssize_t n = llistxattr(path, list, sizeof(list));
	int got = 0;

	if (settle(actor, op, n) || op->err)
		return actor->why[0] ? -1 : 0;
	/* Others than user.* are the system's. */
	for (const char *p = list; p < list + n; p += strlen(p) + 1)
		if (strncmp(p, "user.x", 6) == 0)
			got |= 1 << (p[6] - '0');
	return got == op->mode ? 0 : wrong(actor, "lists the attributes %x, not %x", got, op->mode);
}

/* --- changing -----------------------------------------------------------------------------------
 */

static int64_t write_all(int fd, const char *buf, int64_t off, int64_t len, int append)
{
	int64_t done = 0;

	while (done < len) {
		ssize_t n = append ? write(fd, buf + done, (size_t)(len - done))
				   : pwrite(fd, buf + done, (size_t)(len - done), off + done);

		if (n < 0)
			return -1;
		done += n;
	}
	return done;
}

static int act_write(struct actor *actor, const struct op *op, const char *path)
{
	int flags = O_WRONLY | (op->flags & W_APPEND ? O_APPEND : 0) |
		    (op->flags & W_TRUNC ? O_TRUNC : 0) | (op->flags & W_DIRECT ? O_DIRECT : 0);
	char *buf = bytes((size_t)op->len + 1);
	int fd = open_file(path, flags);
	int64_t got = fd;

	if (fd >= 0) {
		data_fill(buf, (size_t)op->len, op->seed, (uint64_t)op->off);
		got = write_all(fd, buf, op->off, op->len, op->flags & W_APPEND);
		if (got >= 0 && op->flags & W_SYNC && fsync(fd))
			got = -1;
		if (got < 0)
			close_keep(fd);
		else if (close(fd))
			got = -1;
	}
	return settle(actor, op, (long)got);
}

static int64_t map_and_store(int fd, const struct op *op)
{
	int64_t start = op->off / ALIGN * ALIGN;
	size_t len = (size_t)(op->off - start + op->len);
	int64_t got = 0;
	char *map;

	if (!op->len)
		return 0;
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start);
	if (map == MAP_FAILED)
		return -1;
	data_fill(bytes((size_t)op->len), (size_t)op->len, op->seed, (uint64_t)op->off);
	/* the same copy the other way, with the same care */
	got = read_map(bytes(0), map + (op->off - start), op->len);
	if (got >= 0 && op->flags & W_SYNC && msync(map, len, MS_SYNC))
		got = -1;
	munmap(map, len);
	return got;
}

static int act_mstore(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open_file(path, O_RDWR);
	int64_t got = fd;

	if (fd >= 0) {
		got = map_and_store(fd, op);
		close_keep(fd);
	}
	return settle(actor, op, (long)got);
}

static int act_trunc(struct actor *actor, const struct op *op, const char *path)
{
	int fd, got;

	if (op->err || !op->flags)
		return settle(actor, op, truncate(path, op->len));
	fd = got = open_file(path, O_RDWR);
	if (fd >= 0) {
		got = ftruncate(fd, op->len);
		close_keep(fd);
	}
	return settle(actor, op, got);
}

static int act_create(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)op->mode);

	if (fd >= 0)
		close(fd);
	return settle(actor, op, fd);
}

static int orphan(struct actor *actor, const struct op *op, const char *path, int fd)
{
	char *buf = bytes((size_t)(op->len > op->count ? op->len : op->count) + 1);
	struct stat st;

	if (unlink(path))
		return wrong(actor, "unlink: %s", strerror(errno));
	data_fill(buf, (size_t)op->len, op->seed, (uint64_t)op->off);
	if (write_all(fd, buf, op->off, op->len, 0) != op->len)
		return wrong(actor, "a write without a name: %s", strerror(errno));
	if (fstat(fd, &st))
		return wrong(actor, "a stat without a name: %s", strerror(errno));
	if (st.st_nlink != (nlink_t)op->nlink || st.st_size != op->count)
		return wrong(actor, "without the name: %lu links, not %d; size %lld, not %lld",
			(unsigned long)st.st_nlink, op->nlink, (long long)st.st_size,
			(long long)op->count);
	return compare_bytes(actor, op, buf, read_all(fd, buf, 0, op->count, R_PREAD));
}

static int act_orphan(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open_file(path, O_RDWR), bad;

	if (settle(actor, op, fd) || fd < 0)
		return actor->why[0] ? -1 : 0;
	bad = orphan(actor, op, path, fd);
	close(fd);
	return bad;
}

static int act_falloc(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open_file(path, O_RDWR), got = fd;

	if (fd >= 0) {
		got = fallocate(fd, op->flags, op->off, op->len);
		close_keep(fd);
	}
	return settle(actor, op, got);
}

static int64_t copy(int in, int out, const struct op *op)
{
	off_t from = op->off, to = op->off2;
	int64_t done = 0;

	while (done < op->len) {
		ssize_t n = copy_file_range(in, &from, out, &to, (size_t)(op->len - done), 0);

		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += n;
	}
	return done;
}

static int act_copy(struct actor *actor, const struct op *op, const char *path, const char *path2)
{
	int in = open_file(path, O_RDONLY), out = in < 0 ? -1 : open_file(path2, O_RDWR);
	int64_t got = out;

	if (out >= 0) {
		got = copy(in, out, op);
		close_keep(out);
	}
	if (in >= 0)
		close_keep(in);
	if (settle(actor, op, (long)got))
		return -1;
	if (!op->err && got != op->count)
		return wrong(
			actor, "copied %lld bytes, not %lld", (long long)got, (long long)op->count);
	return 0;
}

static int act_utimens(struct actor *actor, const struct op *op, const char *path)
{
	struct timespec ts[2] = {
		{.tv_nsec = UTIME_OMIT}, {op->off / 1000000000, op->off % 1000000000}};

	return settle(actor, op, utimensat(AT_FDCWD, path, ts, AT_SYMLINK_NOFOLLOW));
}

/* --- by a kept descriptor -----------------------------------------------------------------------
 */

static int act_hold(struct actor *actor, const struct op *op, const char *path)
{
	int fd = open_file(path, O_RDWR);
	char *map;

	if (settle(actor, op, fd) || fd < 0)
		return actor->why[0] ? -1 : 0;
	map = mmap(NULL, OP_MAP, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		close_keep(fd);
		return wrong(actor, "mmap: %s", strerror(errno));
	}
	actor->held[op->slot].fd = fd;
	actor->held[op->slot].map = map;
	return 0;
}

/*
 * By a mapping that is older than what is read. A kernel that has not asked for the size since a
 * file grew may say SIGBUS, as nothing at a fault asks for it; stale bytes it may not give.
 */
static int64_t read_held(int fd, const char *map, char *buf, int64_t len)
{
	int64_t got = read_map(map, buf, len);
	struct stat st;

	return got < 0 && !fstat(fd, &st) ? read_map(map, buf, len) : got;
}

static int act_held(struct actor *actor, struct op *op)
{
	int fd = actor->held[op->slot].fd;
	char *map = actor->held[op->slot].map, *buf = bytes((size_t)op->len + 1);
	struct stat st;

	if (!map)
		return wrong(actor, "was not opened");
	switch (op->kind) {
	case OP_HREAD:
		return compare_bytes(actor, op, buf, read_all(fd, buf, op->off, op->len, R_PREAD));
	case OP_HMAP:
		return compare_bytes(actor, op, buf, read_held(fd, map + op->off, buf, op->count));
	case OP_HSTAT:
		return fstat(fd, &st) ? wrong(actor, "%s", strerror(errno))
				      : compare_attrs(actor, op, &st);
	case OP_HWRITE:
		data_fill(buf, (size_t)op->len, op->seed, (uint64_t)op->off);
		return settle(actor, op, (long)write_all(fd, buf, op->off, op->len, 0));
	default: /* OP_DROP */
		actor->held[op->slot].map = NULL;
		munmap(map, OP_MAP);
		return settle(actor, op, close(fd));
	}
}

static int act_snap(const struct op *op, const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return -1;
	printf("snap %s %lld %lld\n", op->path, (long long)ns(st.st_mtim),
		(long long)ns(st.st_ctim));
	return 0;
}

int act(struct actor *actor, struct op *op)
{
	char path[PATH_MAX], path2[PATH_MAX] = "", text[64];

	actor->why[0] = '\0';
	if (!op->path[0])
		return act_held(actor, op);
	op_real(op->path, path);
	if (op->path2[0])
		op_real(op->path2, path2);
	switch (op->kind) {
	case OP_STAT:
		return act_stat(actor, op, path);
	case OP_READ:
		return act_read(actor, op, path);
	case OP_LIST:
		return act_list(actor, op, path);
	case OP_READLINK:
		return act_readlink(actor, op, path);
	case OP_GETX:
	case OP_SETX:
	case OP_REMX:
		return act_xattr(actor, op, path);
	case OP_LISTX:
		return act_listx(actor, op, path);
	case OP_CREATE:
		return act_create(actor, op, path);
	case OP_WRITE:
		return act_write(actor, op, path);
	case OP_MSTORE:
		return act_mstore(actor, op, path);
	case OP_TRUNC:
		return act_trunc(actor, op, path);
	case OP_RENAME:
		return settle(actor, op, sys_rename(path, path2, op->flags));
	case OP_LINK:
		return settle(actor, op, linkat(AT_FDCWD, path, AT_FDCWD, path2, 0));
	case OP_UNLINK:
		return settle(actor, op, unlink(path));
	case OP_ORPHAN:
		return act_orphan(actor, op, path);
	case OP_MKDIR:
		return settle(actor, op, mkdir(path, (mode_t)op->mode));
	case OP_RMDIR:
		return settle(actor, op, rmdir(path));
	case OP_SYMLINK:
		tree_target(op->seed, text, sizeof(text));
		return settle(actor, op, symlink(text, path));
	case OP_CHMOD:
		return settle(actor, op, chmod(path, (mode_t)op->mode));
	case OP_UTIMENS:
		return act_utimens(actor, op, path);
	case OP_FALLOC:
		return act_falloc(actor, op, path);
	case OP_COPY:
		return act_copy(actor, op, path, path2);
	case OP_HOLD:
		return act_hold(actor, op, path);
	case OP_SNAP:
		return act_snap(op, path);
	default:
		return wrong(actor, "is no operation");
	}
}
