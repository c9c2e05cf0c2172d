/* SPDX-License-Identifier: MIT */
/* Questions to the engine about one sandbox, in lifecycle threads. sb->lock guards the answers. */
#include "sandbox/facts.h"

#include "sandbox/internal.h"
#include "sandbox/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#define LIMITERS_MAX 4 /* each holds a thread for as long as the engine takes */

struct question {
	registry_done *done;
	void *arg;
	struct question *next; /* of sb->questions */
	/* Where a limit is to be set. */
	struct sandbox *sb; /* a reference */
	unsigned which;
	struct engine_limits want;
	bool lower_only;
};

bool facts_limits(struct sandbox *sb, struct engine_limits *out)
{
	bool known;

	pthread_mutex_lock(&sb->lock);
	known = sb->limits_known;
	*out = sb->limits;
	pthread_mutex_unlock(&sb->lock);
	return known;
}

bool facts_ports_known(struct sandbox *sb)
{
	bool known;

	/* One that does not run publishes nothing. */
	pthread_mutex_lock(&sb->lock);
	known = sb->published_known || sb->removed || !*sb->id ||
		(sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_STARTING);
	pthread_mutex_unlock(&sb->lock);
	return known;
}

static int look(struct sandbox *sb, struct engine_limits *limits, struct err *err)
{
	struct registry *r = sb->registry;
	struct engine_box box = {0};
	uint64_t asked = r->moves;
	bool made;
	int got;

	pthread_mutex_lock(&sb->lock);
	made = *sb->id; /* and then it stays */
	pthread_mutex_unlock(&sb->lock);
	if (!made)
		return err_set(err, EBUSY, "the sandbox has no container yet");
	got = r->engine->ops->inspect(r->engine, sb->id, &box, err);
	if (got < 0)
		return got;
	*limits = box.limits;
	if (!registry_apply(r, &box, asked))
		registry_look(r, sb->id);
	engine_box_fini(&box);
	return 0;
}

static int set_limit(struct question *q, const struct engine_limits *now, struct err *err)
{
	struct sandbox *sb = q->sb;
	struct engine *e = sb->registry->engine;
	int r;

	if (q->which == ENGINE_LIMIT_CPU && !q->want.cpu_period_us)
		q->want.cpu_period_us = now->cpu_period_us;
	if (q->lower_only && limits_raise(q->which, now, &q->want))
		return err_set(err, EPERM, "the mount is locked: limits can only be lowered");
	r = e->ops->update(e, sb->id, q->which, &q->want, err);
	pthread_mutex_lock(&sb->lock);
	sb->moved = ++sb->registry->moves; /* what was asked before is old */
	pthread_mutex_unlock(&sb->lock);
	return r;
}

static void answer_set(void *arg)
{
	struct question *q = arg;
	struct sandbox *sb = q->sb;
	struct engine_limits now = {0};
	struct err err = {0};
	int r = look(sb, &now, &err);

	if (r == 0)
		r = set_limit(q, &now, &err);
	if (r == 0)
		r = look(sb, &now, &err); /* what is shown from now on */
	pthread_mutex_lock(&sb->lock);
	sb->limiters--;
	pthread_mutex_unlock(&sb->lock);
	q->done(q->arg, r, &err);
	sandbox_put(sb);
	free(q);
}

/* One thread a sandbox, however many ask: the engine may take its time. */
static void answer_all(void *arg)
{
	struct sandbox *sb = arg;
	struct engine_limits now = {0};
	struct question *list, *q;
	struct err err = {0};
	int r = look(sb, &now, &err);

	pthread_mutex_lock(&sb->lock);
	list = sb->questions;
	sb->questions = NULL;
	pthread_mutex_unlock(&sb->lock);
	while ((q = list)) {
		list = q->next;
		q->done(q->arg, r, &err);
		free(q);
	}
	sandbox_put(sb);
}

static void no_memory(registry_done *done, void *arg)
{
	struct err err = {0};

	done(arg, err_set(&err, ENOMEM, "no memory for that"), &err);
}

void facts_ask(struct sandbox *sb, registry_done *done, void *arg)
{
	struct question *q = malloc(sizeof(*q));
	bool first;

	if (!q) {
		no_memory(done, arg);
		return;
	}
	*q = (struct question){.done = done, .arg = arg};
	pthread_mutex_lock(&sb->lock);
	first = !sb->questions;
	LL_PREPEND(sb->questions, q);
	pthread_mutex_unlock(&sb->lock);
	if (!first)
		return;
	sandbox_get(sb);
	if (pool_run(sb->registry->pool, answer_all, sb) < 0)
		answer_all(sb);
}

void facts_set_limit(struct sandbox *sb, unsigned which, const struct engine_limits *want,
	bool lower_only, registry_done *done, void *arg)
{
	struct question *q = malloc(sizeof(*q));
	struct err err = {0};

	if (!q) {
		no_memory(done, arg);
		return;
	}
	*q = (struct question){.sb = sb,
		.which = which,
		.want = *want,
		.lower_only = lower_only,
		.done = done,
		.arg = arg};
	pthread_mutex_lock(&sb->lock);
	if (sb->limiters >= LIMITERS_MAX)
		err_set(&err, EBUSY, "%u others are changing its limits", sb->limiters);
	else
		sb->limiters++;
	pthread_mutex_unlock(&sb->lock);
	if (err.code) {
		free(q);
		done(arg, -err.code, &err);
		return;
	}
	sandbox_get(sb);
	if (pool_run(sb->registry->pool, answer_set, q) == 0)
		return;
	pthread_mutex_lock(&sb->lock);
	sb->limiters--;
	pthread_mutex_unlock(&sb->lock);
	sandbox_put(sb);
	free(q);
	no_memory(done, arg);
}
