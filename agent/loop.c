/* SPDX-License-Identifier: MIT */
/* The event loop. Owns the epoll descriptor and the posts; `lock` guards the list of posts, all
 * else is the main thread's. */
#include "agent/loop.h"

#include "agent/creds.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BATCH 32

static int epoll_fd = -1;
static struct source *dead;
static struct source waker = {.fd = -1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct post *first, **last = &first; /* protected by lock */

static void run_posts(struct source *src, uint32_t events)
{
	struct post *p, *next;
	uint64_t n;

	(void)events;
	if (read(src->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&lock);
	p = first;
	first = NULL;
	last = &first;
	pthread_mutex_unlock(&lock);
	for (; p; p = next) {
		next = p->next;
		creds_own(); /* not those of the request before */
		p->fn(p);
	}
}

int loop_init(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	waker.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waker.fd < 0)
		return -errno;
	waker.ready = run_posts;
	return loop_add(&waker, EPOLLIN);
}

int loop_add(struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	src->deleted = false;
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, src->fd, &ev) < 0 ? -errno : 0;
}

int loop_mod(struct source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, src->fd, &ev) < 0 ? -errno : 0;
}

void loop_del(struct source *src, void (*gone)(struct source *src))
{
	if (src->deleted)
		return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
	src->deleted = true;
	src->gone = gone;
	src->next_gone = dead;
	dead = src;
}

void loop_post(struct post *p)
{
	static const uint64_t one = 1;
	bool wake;

	p->next = NULL;
	pthread_mutex_lock(&lock);
	wake = !first;
	*last = p;
	last = &p->next;
	pthread_mutex_unlock(&lock);
	if (wake && write(waker.fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake anyway */
}

void loop_run(int (*tick)(void *arg), void *arg, const bool *stop)
{
	struct epoll_event ev[BATCH];
	struct source *src;
	int timeout = tick(arg), n;

	while (!*stop) {
		n = epoll_wait(epoll_fd, ev, BATCH, timeout);
		for (int i = 0; i < n; i++) {
			src = ev[i].data.ptr;
			if (!src->deleted)
				src->ready(src, ev[i].events);
		}
		while ((src = dead)) {
			dead = src->next_gone;
			if (src->gone)
				src->gone(src);
		}
		timeout = tick(arg);
	}
}
