/* SPDX-License-Identifier: MIT */
/* The pool: threads are started when there is work and none is idle. `lock` guards all. */
#include "agent/workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define WORKERS_MAX 4
#define STACK_SIZE  (256u << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first; /* protected by lock, as the next three */
static unsigned n_threads, n_idle, n_queued;

static void *work(void *arg)
{
	struct work *w;

	(void)arg;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!first) {
			n_idle++;
			pthread_cond_wait(&more, &lock);
			n_idle--;
		}
		w = first;
		first = w->next;
		n_queued--;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		w->run(w);
		pthread_mutex_lock(&lock);
	}
	return NULL;
}

/* Lock held. */
static int start_one(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	ret = pthread_create(&thread, &attr, work, NULL);
	pthread_attr_destroy(&attr);
	if (!ret)
		n_threads++;
	return -ret;
}

void workers_add(struct work *w)
{
	bool alone = false;

	w->next = NULL;
	pthread_mutex_lock(&lock);
	/* One that was woken for another's work counts as idle until it runs. */
	if (n_queued >= n_idle && n_threads < WORKERS_MAX && start_one() < 0 && !n_threads)
		alone = true; /* pids.max: then the loop does it itself */
	if (!alone) {
		n_queued++;
		*last = w;
		last = &w->next;
		pthread_cond_signal(&more);
	}
	pthread_mutex_unlock(&lock);
	if (alone)
		w->run(w);
}
