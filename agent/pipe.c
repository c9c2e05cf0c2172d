/* SPDX-License-Identifier: MIT */
/* Makes pipes for output.c, which says why they are as they are. Any thread; owns nothing. */
#include "agent/pipe.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>

static bool is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Nobody else can open it before it has lost its name. */
static int fifo_at(int dir_fd, const char *name, size_t page, int *in)
{
	const int flags = O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
	cleanup_close int from = -1, to = -1;
	int ret = 0;

	if (mkfifoat(dir_fd, name, 0600) < 0)
		return -errno;
	from = openat(dir_fd, name, O_RDONLY | flags);
	/* Never blocking, whoever has put another there meanwhile; F_SETFL takes it back. */
	if (from >= 0)
		to = openat(dir_fd, name, O_WRONLY | flags);
	/* 0666: programs open /dev/stdout anew; only those who have it can. */
	if (to < 0 || fcntl(to, F_SETFL, O_DIRECT) < 0 || fcntl(from, F_SETPIPE_SZ, page) < 0 ||
		fchmod(to, 0666) < 0)
		ret = -errno;
	else if (!is_same(from, to))
		ret = -EIO;
	unlinkat(dir_fd, name, 0);
	if (ret)
		return ret;
	*in = steal_fd(&from);
	return steal_fd(&to);
}

/* /dev is in memory, whatever the engine. On a disk an inode can cost a millisecond: ext4 looks at
 * each that was freed in the last minutes before it takes another. */
int pipe_fifo(int dir_fd, size_t page, int *in)
{
	unsigned long long random;
	char path[48];
	int fd = -1;

	/* Somebody may have given several sandboxes the same /dev. */
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) == (ssize_t)sizeof(random)) {
		snprintf(path, sizeof(path), "/dev/.sandboxfs-%016llx", random);
		fd = fifo_at(AT_FDCWD, path, page, in);
	}
	if (fd >= 0)
		return fd;
	unlinkat(dir_fd, "fifo", 0);
	return fifo_at(dir_fd, "fifo", page, in);
}

int pipe_plain(int *in)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0 || fchmod(fd[1], 0666) < 0)
		log_warn("pipe: %s", strerror(errno));
	*in = fd[0];
	return fd[1];
}

size_t pipe_waiting(int fd)
{
	int n = 0;

	if (fd < 0 || ioctl(fd, FIONREAD, &n) < 0)
		return 0;
	return (size_t)n;
}
