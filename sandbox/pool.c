/* SPDX-License-Identifier: MIT */
/* Owns the blocking threads. Everything is protected by p->lock; tasks run without it. */
#include "sandbox/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <utlist.h>

struct task {
	void (*fn)(void *arg);
	void *arg;
	struct task *prev, *next;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t more, ended;
	struct task *tasks;
	unsigned max, threads, idle, queued;
	bool stop;
};

static void *worker(void *arg)
{
	struct pool *p = arg;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct task *t = p->tasks;

		if (!t && p->stop)
			break;
		if (!t) {
			p->idle++;
			pthread_cond_wait(&p->more, &p->lock);
			p->idle--;
			continue;
		}
		DL_DELETE(p->tasks, t);
		p->queued--;
		pthread_mutex_unlock(&p->lock);
		t->fn(t->arg);
		free(t);
		pthread_mutex_lock(&p->lock);
	}
	p->threads--;
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int pool_new(unsigned max_threads, struct pool **out)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->max = max_threads;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->ended, NULL);
	*out = p;
	return 0;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->more);
	while (p->threads)
		pthread_cond_wait(&p->ended, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_cond_destroy(&p->more);
	pthread_cond_destroy(&p->ended);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Called with p->lock held. Detached: pool_free counts them down instead of joining. */
static int add_thread(struct pool *p)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, worker, p);
	pthread_attr_destroy(&attr);
	if (!r)
		p->threads++;
	return -r;
}

int pool_run(struct pool *p, void (*fn)(void *arg), void *arg)
{
	struct task *t = malloc(sizeof(*t));
	int r = 0;

	if (!t)
		return -ENOMEM;
	*t = (struct task){.fn = fn, .arg = arg};
	pthread_mutex_lock(&p->lock);
	if (p->idle <= p->queued && p->threads < p->max)
		r = add_thread(p);
	if (p->threads) { /* one that exists will come to it */
		r = 0;
		DL_APPEND(p->tasks, t);
		p->queued++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		free(t);
	return r;
}
