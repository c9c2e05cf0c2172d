/* SPDX-License-Identifier: MIT */
/*
 * Owns the I/O threads. Each struct io is one thread; its lock guards its lists of ended watches
 * and timers. Ending a watch is posted to its own thread, so no event can arrive for a watch that
 * is gone.
 */
#include "sandbox/loop.h"

#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

struct timer {
	int64_t due_ms;
	void (*fn)(void *arg);
	void *arg;
	struct timer *next;
};

struct watch {
	struct io *io;
	int fd;
	void (*ready)(void *arg, uint32_t events);
	void *arg;
	struct watch *next; /* in io->ended; protected by io->lock */
};

struct io {
	pthread_t thread;
	int epoll, wake;
	pthread_mutex_t lock;
	struct watch *ended;  /* protected by lock */
	struct timer *timers; /* protected by lock */
	bool stop;	      /* protected by lock */
};

struct loop {
	unsigned n;
	_Atomic unsigned next;
	struct io io[];
};

int64_t loop_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void wake(struct io *io)
{
	uint64_t one = 1;

	if (write(io->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_error("cannot wake an I/O thread: %s", strerror(errno));
}

static void run_ended(struct io *io)
{
	struct watch *list, *w;

	pthread_mutex_lock(&io->lock);
	list = io->ended;
	io->ended = NULL;
	pthread_mutex_unlock(&io->lock);
	while ((w = list)) {
		list = w->next;
		epoll_ctl(io->epoll, EPOLL_CTL_DEL, w->fd, NULL);
		w->ready(w->arg, 0);
		free(w);
	}
}

/* Runs what is due; returns how long to wait for the next, -1 for ever. */
static int run_timers(struct io *io)
{
	int64_t now = loop_now_ms(), wait = -1;
	struct timer *due = NULL, *t, *tmp;

	pthread_mutex_lock(&io->lock);
	LL_FOREACH_SAFE (io->timers, t, tmp) {
		if (t->due_ms <= now) {
			LL_DELETE(io->timers, t);
			LL_PREPEND(due, t);
		} else if (wait < 0 || t->due_ms - now < wait) {
			wait = t->due_ms - now;
		}
	}
	pthread_mutex_unlock(&io->lock);
	while ((t = due)) {
		due = t->next;
		t->fn(t->arg);
		free(t);
		wait = 0; /* what ran may have set another */
	}
	return (int)wait;
}

static void *io_thread(void *arg)
{
	struct io *io = arg;
	struct epoll_event ev[64];
	bool stop = false;

	while (!stop) {
		int n = epoll_wait(io->epoll, ev, 64, run_timers(io));

		for (int i = 0; i < n; i++) {
			struct watch *w = ev[i].data.ptr;
			uint64_t count;

			if (w)
				w->ready(w->arg, ev[i].events);
			else if (read(io->wake, &count, sizeof(count)) < 0)
				log_trace("spurious wake");
		}
		run_ended(io);
		pthread_mutex_lock(&io->lock);
		stop = io->stop;
		pthread_mutex_unlock(&io->lock);
	}
	return NULL;
}

static int io_start(struct io *io)
{
	struct epoll_event ev = {.events = EPOLLIN};

	pthread_mutex_init(&io->lock, NULL);
	io->epoll = epoll_create1(EPOLL_CLOEXEC);
	io->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (io->epoll < 0 || io->wake < 0 || epoll_ctl(io->epoll, EPOLL_CTL_ADD, io->wake, &ev) < 0)
		return -errno;
	return -pthread_create(&io->thread, NULL, io_thread, io);
}

int loop_new(unsigned threads, struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l) + threads * sizeof(l->io[0]));
	int r;

	if (!l)
		return -ENOMEM;
	for (; l->n < threads; l->n++) {
		r = io_start(&l->io[l->n]);
		if (r < 0) {
			loop_free(l);
			return r;
		}
	}
	*out = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < l->n; i++) {
		struct io *io = &l->io[i];
		struct timer *t;

		pthread_mutex_lock(&io->lock);
		io->stop = true;
		pthread_mutex_unlock(&io->lock);
		wake(io);
		pthread_join(io->thread, NULL);
		while ((t = io->timers)) {
			io->timers = t->next;
			t->fn(t->arg);
			free(t);
		}
		close(io->epoll);
		close(io->wake);
		pthread_mutex_destroy(&io->lock);
	}
	free(l);
}

static struct io *pick(struct loop *l)
{
	return &l->io[atomic_fetch_add(&l->next, 1) % l->n];
}

int watch_new(struct loop *l, int fd, void (*ready)(void *arg, uint32_t events), void *arg,
	struct watch **out)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct watch){.io = pick(l), .fd = fd, .ready = ready, .arg = arg};
	ev.data.ptr = w;
	*out = w; /* before the first event can come */
	if (epoll_ctl(w->io->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int r = -errno;

		*out = NULL;
		free(w);
		return r;
	}
	return 0;
}

void watch_want_out(struct watch *w, int want)
{
	struct epoll_event ev = {
		.events = EPOLLIN | EPOLLRDHUP | (want ? EPOLLOUT : 0), .data.ptr = w};

	epoll_ctl(w->io->epoll, EPOLL_CTL_MOD, w->fd, &ev);
}

void watch_end(struct watch *w)
{
	struct io *io = w->io;

	pthread_mutex_lock(&io->lock);
	w->next = io->ended;
	io->ended = w;
	pthread_mutex_unlock(&io->lock);
	wake(io);
}

int loop_after(struct loop *l, unsigned delay_ms, void (*fn)(void *arg), void *arg)
{
	struct io *io = pick(l);
	struct timer *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct timer){.due_ms = loop_now_ms() + delay_ms, .fn = fn, .arg = arg};
	pthread_mutex_lock(&io->lock);
	LL_PREPEND(io->timers, t);
	pthread_mutex_unlock(&io->lock);
	wake(io);
	return 0;
}
