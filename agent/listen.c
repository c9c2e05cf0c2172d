/* SPDX-License-Identifier: MIT */
/* Makes or takes over the listening socket. The main thread, before there are others; owns nothing.
 */
#include "agent/listen.h"

#include "agent/sys.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

int listen_at(const char *dir)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	cleanup_close int fd = -1;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/agent.sock", dir) >=
		(int)sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(addr.sun_path);
	/* The directory is closed to others; so is the socket itself. */
	umask(0177);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	umask(0);
	if (listen(fd, 64) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* -1: not a number of a descriptor. */
static int parse(const char *s)
{
	long v = 0;

	if (!*s)
		return -1;
	for (; *s; s++) {
		if (!isdigit((unsigned char)*s) || v > INT_MAX / 10 - 1)
			return -1;
		v = v * 10 + (*s - '0');
	}
	return (int)v;
}

static int option(int fd, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -errno : value;
}

int listen_inherited(const char *number, struct err *err)
{
	int fd = parse(number), domain, flags;

	if (fd < 0)
		return err_set(
			err, EINVAL, "--listen %.40s: not the number of a descriptor", number);
	if (fd <= STDERR_FILENO)
		return err_set(err, EINVAL, "--listen %d: a standard stream, not a socket", fd);
	domain = option(fd, SO_DOMAIN);
	if (domain < 0)
		return err_set(err, EINVAL, "--listen %d: %s", fd,
			domain == -EBADF ? "no such descriptor was inherited" : "not a socket");
	if (domain != AF_UNIX || option(fd, SO_TYPE) != SOCK_STREAM)
		return err_set(err, EINVAL, "--listen %d: not a Unix stream socket", fd);
	if (option(fd, SO_ACCEPTCONN) != 1)
		return err_set(err, EINVAL, "--listen %d: the socket does not listen", fd);
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, errno, "--listen %d: %s", fd, strerror(errno));
	sys_close_range(STDERR_FILENO + 1, (unsigned)fd - 1);
	sys_close_range((unsigned)fd + 1, UINT_MAX);
	return fd;
}
