/* SPDX-License-Identifier: MIT */
/* Raw system calls. Owns nothing; any thread, and a forked child before its exec. */
#include "agent/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define STATX_WANTED 0xfffu /* basic stats and the birth time */

struct open_how_raw {
	uint64_t flags, mode, resolve;
};

enum { RESOLVE_NO_MAGIC = 2, RESOLVE_NO_LINKS = 4, RESOLVE_IS_BENEATH = 8 };

static void from_time(struct sys_time *t, const struct timespec *ts)
{
	t->sec = ts->tv_sec;
	t->nsec = (uint32_t)ts->tv_nsec;
}

/* For kernels and seccomp filters older than statx(2). */
static int stat_as_statx(int dirfd, const char *name, int flags, struct sys_statx *stx)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, flags) < 0)
		return -1;
	memset(stx, 0, sizeof(*stx));
	stx->blksize = (uint32_t)st.st_blksize;
	stx->nlink = (uint32_t)st.st_nlink;
	stx->uid = st.st_uid;
	stx->gid = st.st_gid;
	stx->mode = (uint16_t)st.st_mode;
	stx->ino = st.st_ino;
	stx->size = (uint64_t)st.st_size;
	stx->blocks = (uint64_t)st.st_blocks;
	from_time(&stx->atime, &st.st_atim);
	from_time(&stx->mtime, &st.st_mtim);
	from_time(&stx->ctime, &st.st_ctim);
	stx->rdev_major = major(st.st_rdev);
	stx->rdev_minor = minor(st.st_rdev);
	stx->dev_major = major(st.st_dev);
	stx->dev_minor = minor(st.st_dev);
	return 0;
}

int sys_statx(int dirfd, const char *name, struct sys_statx *stx)
{
	int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);

#ifdef SYS_statx
	if (syscall(SYS_statx, dirfd, name, flags, STATX_WANTED, stx) == 0)
		return 0;
	if (errno != ENOSYS)
		return -1;
#endif
	return stat_as_statx(dirfd, name, flags, stx);
}

int sys_open_beneath(int dirfd, const char *name, int flags, unsigned mode)
{
	static _Atomic bool refused;
	struct open_how_raw how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_NO_MAGIC | RESOLVE_NO_LINKS | RESOLVE_IS_BENEATH,
	};
	int fd, saved;

	/* A name is one component, so openat with O_NOFOLLOW cannot leave dirfd either; openat2
	 * says so to the kernel as well. O_PATH of a link itself is what RESOLVE_NO_SYMLINKS
	 * refuses, so that one case goes by openat. */
	if ((flags & O_PATH) && !(flags & O_DIRECTORY))
		how.resolve &= ~(uint64_t)RESOLVE_NO_LINKS;
#ifdef SYS_openat2
	if (!atomic_load_explicit(&refused, memory_order_relaxed)) {
		fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
		if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL))
			return fd;
		saved = errno;
		if (saved == ENOSYS)
			atomic_store(&refused, true);
	}
#else
	(void)refused;
	(void)saved;
#endif
	return openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

int sys_renameat2(int fd, const char *name, int newfd, const char *newname, unsigned flags)
{
	if (!flags)
		return renameat(fd, name, newfd, newname);
	return (int)syscall(SYS_renameat2, fd, name, newfd, newname, flags);
}

ssize_t sys_getdents(int fd, void *buf, size_t size)
{
	return syscall(SYS_getdents64, fd, buf, size);
}

int sys_fchmodat2(int fd, unsigned mode)
{
	return (int)syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH);
}

/* The C libraries' wrappers for groups change every thread; these are the calls themselves. */
int sys_setfsuid(uint32_t uid)
{
	syscall(SYS_setfsuid, uid);
	return (uint32_t)syscall(SYS_setfsuid, UINT32_MAX) == uid ? 0 : -1;
}

int sys_setfsgid(uint32_t gid)
{
	syscall(SYS_setfsgid, gid);
	return (uint32_t)syscall(SYS_setfsgid, UINT32_MAX) == gid ? 0 : -1;
}

int sys_setgroups(size_t n, const gid_t *groups)
{
	return (int)syscall(SYS_setgroups, n, groups);
}

int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int sys_pidfd_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

/* Those that /proc/self/fd lists; false: it cannot be read. Also in a forked child: system calls
 * only. */
static bool close_listed(unsigned from, unsigned to)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) uint8_t batch[4096];
	ssize_t n;

	if (dir < 0)
		return false;
	/* The kernel counts by the number, so that closing one does not hide the next. */
	while ((n = sys_getdents(dir, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);
			unsigned fd = 0;

			at += d->reclen;
			if (d->name[0] < '0' || d->name[0] > '9')
				continue;
			for (const char *c = d->name; *c; c++)
				fd = fd * 10 + (unsigned)(*c - '0');
			if (fd >= from && fd <= to && fd != (unsigned)dir)
				close((int)fd);
		}
	close(dir);
	return n == 0;
}

void sys_close_range(unsigned from, unsigned to)
{
	long last;

	if (from > to)
		return;
	if (syscall(SYS_close_range, from, to, 0) == 0 || close_listed(from, to))
		return;
	last = sysconf(_SC_OPEN_MAX);
	if (last < 0 || last > 65536)
		last = 65536;
	for (unsigned fd = from; fd <= to && fd < (unsigned)last; fd++)
		close((int)fd);
}
