/* SPDX-License-Identifier: MIT */
/*
 * The listeners of forwarded ports. A sandbox's lock guards its lists of listeners and tunnels;
 * accepting is done by the I/O threads. What is accepted becomes a tunnel (tunnel.c).
 */
#include "sandbox/forward.h"

#include "common/cleanup.h"
#include "sandbox/internal.h"
#include "sandbox/tunnel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#define LISTENERS_MAX 256 /* a sandbox */
#define TUNNELS_MAX   512 /* a sandbox; more wait in the listener's queue */
#define BACKLOG	      1024
#define ACCEPTS	      16  /* before others have their turn */
#define PORT_TRIES    16  /* for a number of five digits */
#define RETRY_MS      200 /* when this process has no descriptor left */

struct forward {
	struct sandbox *sb; /* a reference */
	uint16_t port;
	char address[ENGINE_ADDRESS_MAX];
	int fd;
	struct watch *watch;
	struct forward *prev, *next; /* protected by sb->lock */
};

void forward_hold(struct registry *r)
{
	pthread_mutex_lock(&r->lock);
	r->links++;
	pthread_mutex_unlock(&r->lock);
}

void forward_release(struct registry *r)
{
	pthread_mutex_lock(&r->lock);
	r->links--;
	pthread_cond_broadcast(&r->links_gone);
	pthread_mutex_unlock(&r->lock);
}

static void forward_gone(struct forward *f)
{
	struct registry *r = f->sb->registry;

	close(f->fd);
	sandbox_put(f->sb);
	free(f);
	forward_release(r);
}

/* With sb->lock held. */
static void arm_all(struct sandbox *sb)
{
	struct forward *f;

	DL_FOREACH (sb->forwards, f)
		watch_arm(f->watch, EPOLLIN);
}

static void arm_later(void *arg)
{
	struct sandbox *sb = arg;

	pthread_mutex_lock(&sb->lock);
	arm_all(sb);
	pthread_mutex_unlock(&sb->lock);
	sandbox_put(sb);
}

void forward_room(struct sandbox *sb)
{
	if (sb->n_tunnels == TUNNELS_MAX - 1)
		arm_all(sb);
}

/* The kernel delivers nothing from outside to a loopback address, unless route_localnet is set. */
static bool is_local(const struct sockaddr_in *peer)
{
	return peer->sin_family == AF_INET && ntohl(peer->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

enum accepted { ACCEPT_ONE, ACCEPT_NONE, ACCEPT_FULL, ACCEPT_FAILED };

static enum accepted accept_one(struct forward *f)
{
	struct sandbox *sb = f->sb;
	struct sockaddr_in peer = {0};
	socklen_t len = sizeof(peer);
	struct tunnel *t = NULL;
	int fd = -1, code = 0;
	bool full;

	forward_hold(sb->registry); /* the tunnel's, before the sandbox's lock */
	pthread_mutex_lock(&sb->lock);
	full = sb->removed || sb->n_tunnels >= TUNNELS_MAX;
	if (!full) {
		fd = accept4(f->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		code = errno;
	}
	if (fd >= 0 && is_local(&peer))
		t = tunnel_new(sb, f->port, fd);
	pthread_mutex_unlock(&sb->lock);
	if (t)
		tunnel_start(t);
	else
		forward_release(sb->registry);
	if (fd >= 0 && !t)
		close(fd);
	if (full)
		return ACCEPT_FULL;
	if (fd >= 0 || code == EINTR || code == ECONNABORTED)
		return ACCEPT_ONE;
	return code == EAGAIN ? ACCEPT_NONE : ACCEPT_FAILED;
}

static void forward_ready(void *arg, uint32_t events)
{
	struct forward *f = arg;
	enum accepted got = ACCEPT_ONE;

	if (!events) {
		forward_gone(f);
		return;
	}
	for (int i = 0; i < ACCEPTS && got == ACCEPT_ONE; i++)
		got = accept_one(f);
	if (got == ACCEPT_FAILED) { /* no descriptor is left, or no memory */
		sandbox_get(f->sb);
		if (loop_after(f->sb->registry->loop, RETRY_MS, arm_later, f->sb) < 0)
			arm_later(f->sb);
	} else if (got != ACCEPT_FULL) { /* else the end of a tunnel arms it again */
		watch_arm(f->watch, EPOLLIN);
	}
}

/* A socket that listens on a number that the kernel chose. *port is that. */
static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(addr);
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		getsockname(fd, (struct sockaddr *)&addr, &len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*port = ntohs(addr.sin_port);
	return steal_fd(&fd);
}

/* One of five digits, so that the file's size is known before; failing that, any. */
static int listen_on_loopback(char *address)
{
	int held[PORT_TRIES], n = 0, fd;
	uint16_t port = 0;

	do {
		fd = listen_somewhere(&port);
		if (fd >= 0)
			held[n++] = fd;
	} while (fd >= 0 && port < 10000 && n < PORT_TRIES);
	if (fd < 0 && n == 0)
		return fd;
	fd = held[--n];
	while (n)
		close(held[--n]);
	snprintf(address, ENGINE_ADDRESS_MAX, "127.0.0.1:%u", port);
	return fd;
}

/* With sb->lock held: what there is already. */
static const char *known(const struct sandbox *sb, uint16_t port)
{
	const struct forward *f;

	for (size_t i = 0; i < sb->n_published; i++)
		if (sb->published[i].port == port)
			return sb->published[i].address;
	DL_FOREACH (sb->forwards, f)
		if (f->port == port)
			return f->address;
	return NULL;
}

/* With sb->lock held, and a hold on the registry that is its own on success. */
static int add(struct sandbox *sb, uint16_t port, struct forward **out, struct err *err)
{
	struct forward *f, *other;
	unsigned n;
	int r;

	DL_COUNT(sb->forwards, other, n);
	if (n >= LISTENERS_MAX)
		return err_set(err, EMFILE, "%u ports of the sandbox are open", n);
	f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, ENOMEM, "no memory for a port");
	f->port = port;
	f->fd = listen_on_loopback(f->address);
	r = f->fd;
	if (r >= 0) {
		f->sb = sb;
		r = watch_new_once(sb->registry->loop, f->fd, forward_ready, f, &f->watch);
	}
	if (r < 0) {
		if (f->fd >= 0)
			close(f->fd);
		free(f);
		return err_set(err, -r, "cannot listen on the loopback: %s", strerror(-r));
	}
	sandbox_get(sb);
	DL_APPEND(sb->forwards, f);
	watch_arm(f->watch, EPOLLIN);
	*out = f;
	return 0;
}

int forward_open(
	struct sandbox *sb, uint16_t port, char address[ENGINE_ADDRESS_MAX], struct err *err)
{
	struct forward *f = NULL;
	const char *found;
	int r = 0;

	forward_hold(sb->registry);
	pthread_mutex_lock(&sb->lock);
	found = known(sb, port);
	if (sb->removed || sb->removing)
		r = err_set(err, ENOENT, "the sandbox was removed");
	else if (!found)
		r = add(sb, port, &f, err);
	if (r == 0)
		snprintf(address, ENGINE_ADDRESS_MAX, "%s", found ? found : f->address);
	pthread_mutex_unlock(&sb->lock);
	if (!f)
		forward_release(sb->registry);
	return r;
}

bool forward_find(struct sandbox *sb, uint16_t port, char address[ENGINE_ADDRESS_MAX])
{
	const char *found;

	pthread_mutex_lock(&sb->lock);
	found = known(sb, port);
	if (found)
		snprintf(address, ENGINE_ADDRESS_MAX, "%s", found);
	pthread_mutex_unlock(&sb->lock);
	return found;
}

int forward_list(struct sandbox *sb, uint16_t **ports, size_t *n)
{
	const struct forward *f;
	size_t k = 0;

	pthread_mutex_lock(&sb->lock);
	DL_FOREACH (sb->forwards, f)
		k++;
	*ports = calloc(k + sb->n_published + 1, sizeof(**ports));
	if (*ports) {
		for (*n = 0; *n < sb->n_published; (*n)++)
			(*ports)[*n] = sb->published[*n].port;
		DL_FOREACH (sb->forwards, f)
			(*ports)[(*n)++] = f->port;
	}
	pthread_mutex_unlock(&sb->lock);
	return *ports ? 0 : -ENOMEM;
}

void forward_end_all(struct sandbox *sb)
{
	struct forward *f, *tmp;

	pthread_mutex_lock(&sb->lock);
	DL_FOREACH_SAFE (sb->forwards, f, tmp) {
		DL_DELETE(sb->forwards, f);
		watch_end(f->watch);
	}
	tunnel_end_all(sb);
	pthread_mutex_unlock(&sb->lock);
}
