/* SPDX-License-Identifier: MIT */
/*
 * Threads that block for a lock. A thread is stopped by a flag and a signal whose handler does
 * nothing but make the system call return. The signal may come between the look at the flag and
 * the call, so the loop sends it again until the thread has posted its end; while nobody is told
 * to stop there is nothing to repeat. All but wait_for_it() is the loop's thread.
 */
#include "agent/lock_wait.h"

#include "agent/clock.h"
#include "agent/idle.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/file.h>

#define WAKE	   SIGUSR1
#define STACK_SIZE (64u << 10)
#define AGAIN_MS   2
#define AGAIN_MAX  1000

static unsigned n_waits;
static struct lock_wait *stopping;
static int64_t again_ms; /* when those are told again */
static int pause_ms;	 /* and how long after the time before */

static void woken(int sig)
{
	(void)sig;
}

int lock_wait_init(void)
{
	struct sigaction sa = {.sa_handler = woken}; /* no SA_RESTART: that is its purpose */
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, WAKE);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) /* all threads to come, but ours */
		return -EINVAL;
	return sigaction(WAKE, &sa, NULL) < 0 ? -errno : 0;
}

static void ended(struct post *p)
{
	struct lock_wait *w = (struct lock_wait *)((char *)p - offsetof(struct lock_wait, post));
	struct lock_wait **at;

	pthread_join(w->thread, NULL); /* it is returning; until now its name was good for WAKE */
	n_waits--;
	idle_touch();
	for (at = &stopping; w->stopping && *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	w->done(w, w->error);
}

static void *wait_for_it(void *arg)
{
	struct lock_wait *w = arg;
	sigset_t set;
	int ret = -1;

	sigemptyset(&set);
	sigaddset(&set, WAKE);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	errno = EINTR;
	while (ret < 0 && errno == EINTR && !w->stop)
		ret = w->flock_op ? flock(w->fd, w->flock_op)
				  : fcntl(w->fd, F_OFD_SETLKW, &w->range);
	w->error = ret < 0 ? errno : 0;
	loop_post(&w->post); /* from here on it is the loop's */
	return NULL;
}

unsigned lock_wait_count(void)
{
	return n_waits;
}

int lock_wait_start(struct lock_wait *w)
{
	pthread_attr_t attr;
	int ret;

	if (n_waits >= LOCK_WAITS_MAX)
		return -EBUSY;
	w->post.fn = ended;
	w->stop = false;
	w->stopping = false;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	ret = pthread_create(&w->thread, &attr, wait_for_it, w);
	pthread_attr_destroy(&attr);
	if (!ret)
		n_waits++;
	return -ret;
}

void lock_wait_stop(struct lock_wait *w)
{
	if (w->stopping)
		return;
	w->stopping = true;
	w->next = stopping;
	stopping = w;
	w->stop = true;
	pthread_kill(w->thread, WAKE);
	pause_ms = AGAIN_MS;
	again_ms = clock_ms() + pause_ms;
}

int lock_wait_tick(void)
{
	int64_t now;

	if (!stopping)
		return -1;
	now = clock_ms();
	if (now < again_ms)
		return (int)(again_ms - now);
	for (struct lock_wait *w = stopping; w; w = w->next)
		pthread_kill(w->thread, WAKE);
	/* Ever slower: a file system may not let go at all. */
	pause_ms = pause_ms * 2 < AGAIN_MAX ? pause_ms * 2 : AGAIN_MAX;
	again_ms = now + pause_ms;
	return pause_ms;
}
