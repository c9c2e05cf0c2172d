/* SPDX-License-Identifier: MIT */
/* A FIFO in the place of a file would stop PID 1 in open(2) until somebody comes to its other end,
 * and that at every start. Any thread. */
#include "agent/state_file.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <sys/stat.h>

int state_open(int dir_fd, const char *name, int flags, unsigned mode)
{
	cleanup_close int fd =
		openat(dir_fd, name, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, mode);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	/* Some become a command's standard input, which is not to look unusual. */
	if (fcntl(fd, F_SETFL, flags) < 0)
		return -1;
	return steal_fd(&fd);
}

int state_create(int dir_fd, const char *name, unsigned mode)
{
	unlinkat(dir_fd, name, 0);
	return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}
