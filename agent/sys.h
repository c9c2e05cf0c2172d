/* SPDX-License-Identifier: MIT */
/* System calls that musl's headers do not have; each returns as the raw call: -1 and errno. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct sys_time {
	int64_t sec;
	uint32_t nsec;
	int32_t pad;
};

/* The kernel's struct statx. */
struct sys_statx {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, pad0;
	uint64_t ino, size, blocks, attributes_mask;
	struct sys_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare[14];
};

struct sys_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Of one file: by name beneath dirfd, or dirfd itself when name is "". Links are not followed. */
int sys_statx(int dirfd, const char *name, struct sys_statx *stx);
static inline uint64_t sys_dev(const struct sys_statx *stx)
{
	return (uint64_t)stx->dev_major << 32 | stx->dev_minor;
}

/* One component beneath dirfd, never through a link: openat2, or openat where that is refused. */
int sys_open_beneath(int dirfd, const char *name, int flags, unsigned mode);
int sys_renameat2(int fd, const char *name, int newfd, const char *newname, unsigned flags);
ssize_t sys_getdents(int fd, void *buf, size_t size);
int sys_fchmodat2(int fd, unsigned mode); /* of the file that fd is, O_PATH too */

/* Credentials of the calling thread only. */
int sys_setfsuid(uint32_t uid); /* 0, or -1 if it did not take effect */
int sys_setfsgid(uint32_t gid);
int sys_setgroups(size_t n, const gid_t *groups);

int sys_pidfd_open(pid_t pid);
int sys_pidfd_signal(int pidfd, int sig);

/* Closes all descriptors from..to; also without close_range(2). */
void sys_close_range(unsigned from, unsigned to);
