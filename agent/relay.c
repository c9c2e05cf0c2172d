/* SPDX-License-Identifier: MIT */
/*
 * Joins standard input and output to the agent's socket: what an engine's exec runs. One thread,
 * one buffer each way. It ends when either side does.
 */
#include "agent/init.h"

#include "agent/clock.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

#define WAIT_MS	    10000
#define BUFFER_SIZE (256u << 10)

struct way {
	int from, to;
	bool socket; /* `to` takes a half-close */
	bool ended;  /* nothing more comes */
	bool closed; /* and that was passed on */
	size_t at, len;
	uint8_t *data;
};

static int try_connect(const char *state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/agent.sock", state) >=
		(int)sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* An agent that has only just been started makes its socket in a moment. */
static int connect_wait(const char *state)
{
	cleanup_close int ino = -1;
	int64_t until = clock_ms() + WAIT_MS, left;
	char events[4096];
	int fd = try_connect(state);

	while (fd == -ENOENT || fd == -ECONNREFUSED) {
		struct pollfd p;

		if (ino < 0)
			ino = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		/* Watched first, tried afterwards: nothing is missed. bind comes before listen, so
		 * also look again every now and then. */
		if (ino >= 0)
			inotify_add_watch(ino, state, IN_CREATE | IN_ATTRIB);
		fd = try_connect(state);
		left = until - clock_ms();
		if (fd >= 0 || left <= 0)
			break;
		p = (struct pollfd){.fd = ino, .events = POLLIN};
		poll(&p, 1, fd == -ECONNREFUSED || left < 20 ? 2 : 20);
		while (ino >= 0 && read(ino, events, sizeof(events)) > 0)
			;
	}
	return fd;
}

static int pump_in(struct way *w)
{
	ssize_t n = read(w->from, w->data, BUFFER_SIZE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		w->ended = true;
	w->at = 0;
	w->len = n > 0 ? (size_t)n : 0;
	return 0;
}

static int pump_out(struct way *w)
{
	ssize_t n = write(w->to, w->data + w->at, w->len - w->at);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return -errno;
	w->at += (size_t)n;
	if (w->at == w->len)
		w->at = w->len = 0;
	return 0;
}

static void set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int relay(struct way way[2])
{
	for (;;) {
		struct pollfd p[4];

		for (int i = 0; i < 2; i++) {
			struct way *w = &way[i];

			if (w->ended && !w->len && !w->closed) {
				if (!w->socket)
					return 0; /* the agent has said all */
				shutdown(w->to, SHUT_WR);
				w->closed = true;
			}
			p[2 * i] = (struct pollfd){
				.fd = w->len || w->ended ? -1 : w->from, .events = POLLIN};
			p[2 * i + 1] =
				(struct pollfd){.fd = w->len ? w->to : -1, .events = POLLOUT};
		}
		if (poll(p, 4, -1) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (int i = 0; i < 2; i++) {
			int ret = 0;

			if (p[2 * i].fd >= 0 && p[2 * i].revents)
				ret = pump_in(&way[i]);
			/* Straight on: in nearly all cases it is taken at once. */
			if (!ret && way[i].len)
				ret = pump_out(&way[i]);
			if (ret < 0)
				return ret;
		}
	}
}

int relay_run(const char *state)
{
	static uint8_t data[2][BUFFER_SIZE];
	cleanup_close int fd = -1;

	signal(SIGPIPE, SIG_IGN);
	fd = connect_wait(state);
	if (fd < 0) {
		fprintf(stderr, "sandboxfs: the agent's socket in %s: %s\n", state, strerror(-fd));
		return 1;
	}
	set_nonblock(fd);
	set_nonblock(STDIN_FILENO);
	set_nonblock(STDOUT_FILENO);
	/* A reader or writer that has gone is an ordinary end. */
	relay((struct way[2]){
		{.from = STDIN_FILENO, .to = fd, .socket = true, .data = data[0]},
		{.from = fd, .to = STDOUT_FILENO, .data = data[1]},
	});
	return 0;
}
