/* SPDX-License-Identifier: MIT */
/* Opens pseudo-terminals by the kernel's own calls; owns nothing. Loop's thread. */
#include "agent/terminal.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

#define PTMX_MAJOR 5
#define PTMX_MINOR 2

/* An image may have anything in their places: only the device itself will do. */
static int open_master(void)
{
	static const char *const paths[] = {"/dev/ptmx", "/dev/pts/ptmx"};
	struct stat st;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd;

		if (stat(paths[i], &st) < 0 || !S_ISCHR(st.st_mode) ||
			major(st.st_rdev) != PTMX_MAJOR || minor(st.st_rdev) != PTMX_MINOR)
			continue;
		fd = open(paths[i], O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* Its other end: by the call, or by name on kernels before 4.13. */
static int open_slave(int master)
{
	int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC), number;
	char path[32];

	if (fd >= 0 || ioctl(master, TIOCGPTN, &number) < 0)
		return fd;
	snprintf(path, sizeof(path), "/dev/pts/%d", number);
	return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
}

int terminal_open(const struct user *user, unsigned columns, unsigned rows, int *master, int *slave,
	struct err *err)
{
	struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
	cleanup_close int m = open_master();
	cleanup_close int s = -1;
	int unlock = 0;

	if (m < 0)
		return err_set(err, ENXIO, "the sandbox has no terminals (/dev/ptmx): %s",
			strerror(errno));
	if (ioctl(m, TIOCSPTLCK, &unlock) < 0 || (s = open_slave(m)) < 0)
		return err_set(err, errno, "no terminal: %s", strerror(errno));
	if (ioctl(m, TIOCSWINSZ, &size) < 0)
		return err_set(err, errno, "the terminal's size: %s", strerror(errno));
	/* So that the user can open /dev/tty's name anew; who cannot be it stays the owner. */
	if (fchown(s, user->uid, user->gid) < 0 && geteuid() == 0)
		return err_set(err, errno, "the terminal's owner: %s", strerror(errno));
	fchmod(s, 0620);
	*master = steal_fd(&m);
	*slave = steal_fd(&s);
	return 0;
}
