/* SPDX-License-Identifier: MIT */
/* After a connection was lost: is there still somebody to be asked? In a lifecycle thread, which
 * has sb->busy. */
#include "sandbox/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#define AWAY_MS	      60000 /* patient calls outlive an engine that is away for so long */
#define AWAY_RETRY_MS 500

/* Some time after the engine was found away: is it back? If it is not, recover() finds out. */
static void engine_back(void *arg)
{
	struct sandbox *sb = arg;
	struct call *list = NULL;
	bool again;

	pthread_mutex_lock(&sb->lock);
	sb->retrying = false;
	again = sb->waiting && !sb->busy && !sb->ready && sb->state != SANDBOX_PAUSED;
	sb->busy |= again;
	if (again)
		list = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	if (again)
		lifecycle_recover(sb, list);
	sandbox_put(sb);
}

void lifecycle_keep(struct sandbox *sb, struct call **list)
{
	int64_t now = loop_now_ms();
	struct call *c, *tmp;

	DL_FOREACH_SAFE (*list, c, tmp) {
		if (c->patient && !c->until_ms)
			c->until_ms = now + AWAY_MS;
		if (c->until_ms <= now || sb->removing || sb->removed)
			continue;
		DL_DELETE(*list, c);
		DL_APPEND(sb->waiting, c);
		c->waiting = true;
	}
	if (!sb->waiting || sb->retrying)
		return;
	sandbox_get(sb);
	sb->retrying = loop_after(sb->registry->loop, AWAY_RETRY_MS, engine_back, sb) == 0;
	if (!sb->retrying)
		sandbox_put(sb);
}

/* The connection broke while calls were under way. If the container is still there the calls that
 * may be repeated are sent again; they do not wake one that has ended. */
struct recovery {
	struct sandbox *sb;
	struct call *limbo;
};

static void recover(void *arg)
{
	struct recovery *rec = arg;
	struct sandbox *sb = rec->sb;
	const struct engine_ops *ops = sb->registry->engine->ops;
	struct engine_box box = {0};
	struct err err = {0};
	struct call *c, *tmp;
	uint64_t asked = sb->registry->moves;
	int r = ops->inspect(sb->registry->engine, sb->id, &box, &err);
	bool runs = r == 0 && box.state == ENGINE_RUNNING;
	/* Stopped for idleness by another daemon just when it was used: it is woken. */
	bool up = runs || (r == 0 && (box.state == ENGINE_PAUSED || box.mark == ENGINE_MARK_IDLE));

	if (r == 0)
		err_set(&err, EIO, "the sandbox ended while this was under way");
	pthread_mutex_lock(&sb->lock);
	DL_FOREACH_SAFE (rec->limbo, c, tmp) {
		if (!up)
			break;
		DL_DELETE(rec->limbo, c);
		DL_APPEND(sb->waiting, c);
		c->waiting = true;
	}
	DL_FOREACH_SAFE (sb->waiting, c, tmp) {
		if (c->gentle ? runs : up || !c->until_ms)
			continue; /* it need not be woken, or may be */
		DL_DELETE(sb->waiting, c);
		DL_APPEND(rec->limbo, c);
		c->waiting = false;
	}
	/* Others may have come meanwhile, and bring it up themselves. */
	up = sb->waiting != NULL;
	sb->busy = up;
	if (r == -EHOSTDOWN)
		lifecycle_keep(sb, &rec->limbo);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(rec->limbo, err.code, err.msg);
	if (up)
		lifecycle_bring_up_now(sb);
	if (r == 0 && !registry_apply(sb->registry, &box, asked))
		registry_look(sb->registry, sb->id);
	engine_box_fini(&box);
	sandbox_put(sb);
	free(rec);
}

void lifecycle_recover(struct sandbox *sb, struct call *limbo)
{
	struct recovery *rec = malloc(sizeof(*rec));

	if (rec) {
		*rec = (struct recovery){.sb = sb, .limbo = limbo};
		sandbox_get(sb);
		if (pool_run(sb->registry->pool, recover, rec) == 0)
			return;
		sandbox_put(sb);
		free(rec);
	}
	pthread_mutex_lock(&sb->lock);
	sb->busy = false;
	pthread_mutex_unlock(&sb->lock);
	calls_fail(limbo, ENOMEM, "no memory to connect again");
}

void lifecycle_connect(struct sandbox *sb)
{
	lifecycle_recover(sb, NULL);
}
