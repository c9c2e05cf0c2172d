/* SPDX-License-Identifier: MIT */
/* What the engine is asked for: one container that changed, or all of them; and the thread that
 * follows its events. */
#include "sandbox/internal.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS		 8 /* at a container that changes while it is looked at */
#define RELIST_FAST_MS	 100
#define RELIST_SLOW_MS	 1000
#define RELIST_ANYWAY_MS 60000 /* the engine forgets events when there are many */

void registry_look(struct registry *r, const char *id)
{
	struct sandbox *sb;
	struct err err = {0};
	bool again = true;
	int got = 0;

	for (int k = 0; again && got == 0 && k < LOOKS; k++) {
		struct engine_box box = {0};
		uint64_t asked = r->moves;

		got = r->engine->ops->inspect(r->engine, id, &box, &err);
		if (got == 0)
			again = !registry_apply(r, &box, asked);
		engine_box_fini(&box);
	}
	if (got != -ENOENT)
		return; /* if it was not told, the next listing will tell */
	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_id, r->ids, id, strlen(id), sb);
	if (sb)
		sandbox_get(sb);
	pthread_mutex_unlock(&r->lock);
	if (sb) {
		registry_removed(r, sb, false);
		sandbox_put(sb);
	}
}

static void changed(void *arg, const char *id)
{
	registry_look(arg, id);
}

struct listed {
	struct registry *r;
	uint64_t asked;
	char **again; /* ids of which the listing does not say why they ended, or too late */
	size_t n;
};

static void list_one(void *arg, const struct engine_box *box)
{
	struct listed *l = arg;
	bool again = box->state == ENGINE_EXITED && box->mark == ENGINE_MARK_NONE && !box->detailed;

	if (!registry_apply(l->r, box, l->asked) || again) {
		char **more = realloc(l->again, (l->n + 1) * sizeof(*more));

		if (more) {
			l->again = more;
			l->again[l->n] = strdup(box->id);
			l->n += l->again[l->n] != NULL;
		}
	}
}

/* Those that the listing did not have. */
static void drop_unseen(struct registry *r, unsigned listing)
{
	for (;;) {
		struct sandbox *sb, *tmp, *victim = NULL;

		pthread_mutex_lock(&r->lock);
		HASH_ITER (by_id, r->ids, sb, tmp) {
			if (sb->seen < listing && !victim) {
				victim = sb;
				sandbox_get(victim);
			}
		}
		pthread_mutex_unlock(&r->lock);
		if (!victim)
			return;
		registry_removed(r, victim, false);
		sandbox_put(victim);
	}
}

int registry_relist(struct registry *r, struct err *err)
{
	struct listed l = {.r = r, .asked = r->moves};
	unsigned listing;
	int got;

	pthread_mutex_lock(&r->lock);
	listing = ++r->listing;
	pthread_mutex_unlock(&r->lock);
	got = r->engine->ops->list(r->engine, list_one, &l, err);
	if (got == 0)
		drop_unseen(r, listing);
	for (size_t i = 0; i < l.n; i++) {
		if (got == 0)
			registry_look(r, l.again[i]);
		free(l.again[i]);
	}
	free(l.again);
	return got;
}

static void up(void *arg)
{
	struct registry *r = arg;
	struct err err = {0};

	if (registry_relist(r, &err) < 0)
		log_info("cannot list the sandboxes: %s", err.msg);
}

/* The lock keeps registry_close from freeing the pool meanwhile. */
static void relist_again(void *arg)
{
	struct registry *r = arg;

	pthread_mutex_lock(&r->lock);
	if (!r->closing) {
		pool_run(r->pool, up, r);
		registry_relist_anyway(r);
	}
	pthread_mutex_unlock(&r->lock);
}

void registry_relist_anyway(struct registry *r)
{
	loop_after(r->loop, RELIST_ANYWAY_MS, relist_again, r);
}

void *registry_watch(void *arg)
{
	struct registry *r = arg;
	struct engine_watcher w = {.up = up, .changed = changed, .arg = r, .stop_fd = r->stop_fd};
	struct pollfd stop = {.fd = r->stop_fd, .events = POLLIN};
	int wait_ms = RELIST_FAST_MS;

	for (;;) {
		struct err err = {0};
		int64_t began = loop_now_ms();
		int got = r->engine->ops->watch(r->engine, &w, &err);

		if (got < 0)
			log_info("the engine's events ended: %s", err.msg);
		if (poll(&stop, 1, wait_ms) > 0)
			return NULL;
		wait_ms = RELIST_FAST_MS;
		if (got == -EHOSTDOWN)
			wait_ms = RELIST_SLOW_MS / 2;
		else if (loop_now_ms() - began < RELIST_SLOW_MS) /* it never really began */
			wait_ms = RELIST_SLOW_MS;
	}
}
