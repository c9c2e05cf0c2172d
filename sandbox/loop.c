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
	struct watch *next;		       /* in io->ended; protected by io->lock */
	struct watch *prev_again, *next_again; /* in io->again; the thread's own, as the next */
	bool again;
};

struct io {
	pthread_t thread;
	int epoll, wake;
	pthread_mutex_t lock;
	struct watch *ended;  /* protected by lock */
	struct watch *again;  /* to be called once more; the thread's own */
	struct timer *timers; /* the next one first; protected by lock */
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

static void not_again(struct watch *w)
{
	if (w->again)
		DL_DELETE2(w->io->again, w, prev_again, next_again);
	w->again = false;
}

static void run_again(struct io *io)
{
	struct watch *last = io->again ? io->again->prev_again : NULL, *w;

	while (last && (w = io->again)) {
		not_again(w);
		w->ready(w->arg, EPOLLIN);
		if (w == last)
			break; /* those that were added meanwhile have their turn later */
	}
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
		not_again(w);
		epoll_ctl(io->epoll, EPOLL_CTL_DEL, w->fd, NULL);
		w->ready(w->arg, 0);
		free(w);
	}
}

/* Runs what is due; returns how long to wait for the next, -1 for ever. */
static int run_timers(struct io *io)
{
	int64_t now = loop_now_ms(), wait = -1;
	struct timer *due = NULL, *t;

	pthread_mutex_lock(&io->lock);
	while ((t = io->timers) && t->due_ms <= now) {
		io->timers = t->next;
		LL_PREPEND(due, t);
	}
	if (t)
		wait = t->due_ms - now;
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
		int wait = run_timers(io);
		int n = epoll_wait(io->epoll, ev, 64, io->again ? 0 : wait);

		for (int i = 0; i < n; i++) {
			struct watch *w = ev[i].data.ptr;
			uint64_t count;

			if (w)
				w->ready(w->arg, ev[i].events);
			else if (read(io->wake, &count, sizeof(count)) < 0)
				log_trace("spurious wake");
		}
		run_again(io);
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

static int watch_add(struct loop *l, int fd, uint32_t events,
	void (*ready)(void *arg, uint32_t events), void *arg, struct watch **out)
{
	struct epoll_event ev = {.events = events};
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

int watch_new(struct loop *l, int fd, void (*ready)(void *arg, uint32_t events), void *arg,
	struct watch **out)
{
	return watch_add(l, fd, EPOLLIN | EPOLLRDHUP, ready, arg, out);
}

int watch_new_once(struct loop *l, int fd, void (*ready)(void *arg, uint32_t events), void *arg,
	struct watch **out)
{
	return watch_add(l, fd, EPOLLONESHOT, ready, arg, out);
}

void watch_arm(struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT, .data.ptr = w};

	epoll_ctl(w->io->epoll, EPOLL_CTL_MOD, w->fd, &ev);
}

void watch_again(struct watch *w)
{
	if (!w->again)
		DL_APPEND2(w->io->again, w, prev_again, next_again);
	w->again = true;
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

static int sooner(const struct timer *a, const struct timer *b)
{
	return a->due_ms < b->due_ms ? -1 : a->due_ms > b->due_ms;
}

int loop_after(struct loop *l, unsigned delay_ms, void (*fn)(void *arg), void *arg)
{
	struct io *io = pick(l);
	struct timer *t = malloc(sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct timer){.due_ms = loop_now_ms() + delay_ms, .fn = fn, .arg = arg};
	pthread_mutex_lock(&io->lock);
	LL_INSERT_INORDER(io->timers, t, sooner);
	pthread_mutex_unlock(&io->lock);
	wake(io);
	return 0;
}
