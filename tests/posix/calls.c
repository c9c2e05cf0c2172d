/* SPDX-License-Identifier: MIT */
/* The system calls as values, and who makes them. */
#include "tests/posix/posix.h"

#include <stdio.h>
#include <dirent.h>
#include <grp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

/* clang-format off */
#define CALL(name_, form_, expr, params, ...) \
	static int run_##name_(const struct call *c) \
	{ \
		return (expr) < 0 ? errno : 0; \
	} \
	struct call c_##name_ params \
	{ \
		return (struct call){.name = #name_, .form = form_, .run = run_##name_, __VA_ARGS__}; \
	}

CALL(mkdir, "ao", mkdir(c->a, (mode_t)c->x), (const char *a, mode_t mode), .a = a, .x = mode)
CALL(mkfifo, "ao", mkfifo(c->a, (mode_t)c->x), (const char *a, mode_t mode), .a = a, .x = mode)
CALL(mknod, "aoD", mknod(c->a, (mode_t)c->x, (dev_t)c->y), (const char *a, mode_t mode, dev_t dev),
	.a = a, .x = mode, .y = (long)dev)
CALL(symlink, "ab", symlink(c->a, c->b), (const char *text, const char *b), .a = text, .b = b)
CALL(link, "ab", link(c->a, c->b), (const char *a, const char *b), .a = a, .b = b)
CALL(rename, "ab", rename(c->a, c->b), (const char *a, const char *b), .a = a, .b = b)
CALL(rename2, "abd", syscall(SYS_renameat2, AT_FDCWD, c->a, AT_FDCWD, c->b, (unsigned)c->x),
	(const char *a, const char *b, unsigned flags), .a = a, .b = b, .x = flags)
CALL(unlink, "a", unlink(c->a), (const char *a), .a = a)
CALL(rmdir, "a", rmdir(c->a), (const char *a), .a = a)
CALL(chmod, "ao", chmod(c->a, (mode_t)c->x), (const char *a, mode_t mode), .a = a, .x = mode)
CALL(chown, "adD", chown(c->a, (uid_t)c->x, (gid_t)c->y), (const char *a, long uid, long gid),
	.a = a, .x = uid, .y = gid)
CALL(lchown, "adD", lchown(c->a, (uid_t)c->x, (gid_t)c->y), (const char *a, long uid, long gid),
	.a = a, .x = uid, .y = gid)
CALL(truncate, "ad", truncate(c->a, c->x), (const char *a, off_t size), .a = a, .x = size)
CALL(utimens, "ad", utimensat(AT_FDCWD, c->a, c->times, (int)c->x),
	(const char *a, const struct timespec times[2], int flags), .a = a, .times = times, .x = flags)
CALL(access, "ad", access(c->a, (int)c->x), (const char *a, int mode), .a = a, .x = mode)
CALL(eaccess, "ad", faccessat(AT_FDCWD, c->a, (int)c->x, AT_EACCESS), (const char *a, int mode),
	.a = a, .x = mode)
CALL(stat, "a", stat(c->a, &(struct stat){0}), (const char *a), .a = a)
CALL(lstat, "a", lstat(c->a, &(struct stat){0}), (const char *a), .a = a)
CALL(statfs, "a", statfs(c->a, &(struct statfs){0}), (const char *a), .a = a)
CALL(readlink, "a", readlink(c->a, (char[16]){0}, 16), (const char *a), .a = a)
CALL(getxattr, "ab", lgetxattr(c->a, c->b, (char[16]){0}, 16), (const char *a, const char *attr),
	.a = a, .b = attr)
CALL(setxattr, "abd", lsetxattr(c->a, c->b, "value", 5, (int)c->x),
	(const char *a, const char *attr, int flags), .a = a, .b = attr, .x = flags)
CALL(removexattr, "ab", lremovexattr(c->a, c->b), (const char *a, const char *attr), .a = a, .b = attr)
CALL(listxattr, "a", llistxattr(c->a, NULL, 0), (const char *a), .a = a)
#undef CALL
/* clang-format on */

/* The same for calls that need a descriptor: 0 or an errno, of open or of the rest. */
#define CALL_FD(name_, form_, flags, expr, params, ...)                                  \
	static int run_##name_(const struct call *c)                                     \
	{                                                                                \
		int fd = open(c->a, flags), err;                                         \
		if (fd < 0)                                                              \
			return errno;                                                    \
		err = (expr) < 0 ? errno : 0;                                            \
		return close(fd) < 0 && !err ? errno : err;                              \
	}                                                                                \
	struct call c_##name_ params {                                                   \
		return (struct call){                                                    \
			.name = #name_, .form = form_, .run = run_##name_, __VA_ARGS__}; \
	}

/* clang-format off */
CALL_FD(fchmod, "ao", O_RDONLY | O_NONBLOCK, fchmod(fd, (mode_t)c->x), (const char *a, mode_t mode),
	.a = a, .x = mode)
CALL_FD(fchown, "adD", O_RDONLY | O_NONBLOCK, fchown(fd, (uid_t)c->x, (gid_t)c->y),
	(const char *a, long uid, long gid), .a = a, .x = uid, .y = gid)
CALL_FD(ftruncate, "ad", O_RDWR, ftruncate(fd, c->x), (const char *a, off_t size), .a = a, .x = size)
CALL_FD(fallocate, "adD", O_RDWR, (errno = posix_fallocate(fd, c->x, c->y)) ? -1 : 0,
	(const char *a, off_t at, off_t size), .a = a, .x = at, .y = size)
CALL_FD(punch, "adD", O_RDWR, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, c->x, c->y),
	(const char *a, off_t at, off_t size), .a = a, .x = at, .y = size)
CALL_FD(write, "a", O_WRONLY | O_APPEND, write(fd, "x", 1), (const char *a), .a = a)
CALL_FD(read, "a", O_RDONLY, read(fd, (char[16]){0}, 16), (const char *a), .a = a)
/* clang-format on */

static int run_open(const struct call *c)
{
	int fd = open(c->a, (int)c->x, (mode_t)c->y);

	if (fd < 0)
		return errno;
	return close(fd) < 0 ? errno : 0;
}

static int run_copy(const struct call *c)
{
	int in = open(c->a, O_RDONLY), out = open(c->b, O_WRONLY), ret = 0;

	if (in < 0 || out < 0 || copy_file_range(in, NULL, out, NULL, 1, 0) != 1)
		ret = errno;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return ret;
}

struct call c_copy(const char *a, const char *b)
{
	return (struct call){.name = "copy", .form = "ab", .run = run_copy, .a = a, .b = b};
}

struct call c_open(const char *a, int flags, mode_t mode)
{
	return (struct call){
		.name = "open", .form = "aoO", .run = run_open, .a = a, .x = flags, .y = mode};
}

static int run_bind(const struct call *c)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), err;

	if (fd < 0)
		return errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", c->a);
	err = bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 ? errno : 0;
	close(fd);
	return err;
}

struct call c_bind(const char *a)
{
	return (struct call){.name = "bind", .form = "a", .run = run_bind, .a = a};
}

static int run_chdir(const struct call *c)
{
	int here = open(".", O_RDONLY | O_DIRECTORY), err;

	if (here < 0)
		return errno;
	err = chdir(c->a) < 0 ? errno : 0;
	if (!err && fchdir(here) < 0)
		bail("fchdir: %s", strerror(errno));
	close(here);
	return err;
}

struct call c_chdir(const char *a)
{
	return (struct call){.name = "chdir", .form = "a", .run = run_chdir, .a = a};
}

static int run_opendir(const struct call *c)
{
	DIR *dir = opendir(c->a);
	int err;

	if (!dir)
		return errno;
	errno = 0;
	while (readdir(dir))
		;
	err = errno;
	closedir(dir);
	return err;
}

struct call c_opendir(const char *a)
{
	return (struct call){.name = "opendir", .form = "a", .run = run_opendir, .a = a};
}

/* --- who ------------------------------------------------------------------------------------ */

struct who in_group(struct who w, gid_t group)
{
	w.groups[w.n++] = group;
	return w;
}

struct who masked(struct who w, mode_t mask)
{
	w.mask = mask;
	return w;
}

static void become(const struct who *w)
{
	umask(w->mask);
	if (setgroups(w->n, w->groups) < 0 || setresgid(w->gid, w->gid, w->gid) < 0 ||
		setresuid(w->uid, w->uid, w->uid) < 0)
		_exit(255);
}

int run_as(struct who w, int (*fn)(const void *), const void *arg)
{
	int status;
	pid_t pid;

	if (!w.uid && !w.gid && !w.n && !w.mask)
		return fn(arg);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bail("fork: %s", strerror(errno));
	if (pid == 0) {
		become(&w);
		_exit(fn(arg));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			bail("waitpid: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 255)
		bail("a child as %u:%u ended badly (%#x)", w.uid, w.gid, (unsigned)status);
	return WEXITSTATUS(status);
}

static int run_call(const void *arg)
{
	const struct call *c = arg;

	return c->run(c);
}

int try_as(struct who w, const struct call *c)
{
	return run_as(w, run_call, c);
}
