/* SPDX-License-Identifier: MIT */
/*
 * What a sandbox's template says of its end: idleness and time to live (docs/setup.md). The agent
 * says when nobody has used it (one call that waits, for each connection), a lifecycle thread acts;
 * the time to live is a timer of the I/O threads, which knows the container by its id only.
 */
#include "sandbox/internal.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMER_MAX_MS 86400000 /* longer ones are set again */
#define TTL_AGAIN_MS 5000     /* after a removal that failed */
#define TIMES_MAX_S  1e12

static uint64_t milliseconds(const cJSON *x, const char *key)
{
	const cJSON *j = cJSON_GetObjectItemCaseSensitive(x, key);

	if (!cJSON_IsNumber(j) || !(j->valuedouble > 0) || j->valuedouble > TIMES_MAX_S)
		return 0;
	return (uint64_t)(j->valuedouble * 1000 + 0.999);
}

struct policy policy_read(const char *config)
{
	struct policy p = {0};
	cJSON *root = config && *config ? cJSON_Parse(config) : NULL;
	const cJSON *x = cJSON_GetObjectItemCaseSensitive(root, "x-sandboxfs"), *j;

	p.idle_ms = milliseconds(x, "idle_timeout");
	p.ttl_ms = milliseconds(x, "ttl");
	p.timeout_ms = milliseconds(x, "timeout");
	j = cJSON_GetObjectItemCaseSensitive(x, "idle_action");
	if (cJSON_IsString(j) && strcmp(j->valuestring, "stop") == 0)
		p.idle_action = SPEC_IDLE_STOP;
	else if (cJSON_IsString(j) && strcmp(j->valuestring, "remove") == 0)
		p.idle_action = SPEC_IDLE_REMOVE;
	j = cJSON_GetObjectItemCaseSensitive(x, "pre_stop");
	p.pre_stop = cJSON_GetArraySize(j) > 0;
	p.known = root;
	cJSON_Delete(root);
	return p;
}

void policy_know(struct sandbox *sb)
{
	if (!sb->policy.known)
		sb->policy = policy_read(sb->config);
}

static void nobody_waits(void *arg, int result, const struct err *err)
{
	if (result < 0 && result != -ENOENT)
		log_warn("a sandbox that is over cannot be removed: %s", err->msg);
}

static void tell(struct sandbox *sb, enum spec_idle action)
{
	static const char *const names[] = {"pause", "stop", "remove"};
	struct event_field field = {.key = "action", .text = names[action]};

	events_add(sb->registry->events, "idle", sb->name, &field, 1);
}

/* Pauses or stops it, marked so that every daemon knows why. */
static int put_to_sleep(struct sandbox *sb, bool stop, struct err *err)
{
	struct engine *e = sb->registry->engine;
	cleanup_free char *name = NULL;
	struct err ignored = {0};
	enum engine_mark mark; /* idle: sb->idle is set */
	int r;

	name = lifecycle_name_and_mark(sb, &mark);
	if (!name)
		return err_set(err, ENOMEM, "no memory for that");
	r = e->ops->rename(e, sb->id, name, mark, err);
	if (r < 0)
		return r;
	r = stop ? e->ops->stop(e, sb->id, ENGINE_STOP_GRACE_S, err)
		 : e->ops->pause(e, sb->id, true, err);
	if (r < 0)
		e->ops->rename(e, sb->id, name, ENGINE_MARK_NONE, &ignored);
	return r;
}

/* With the lock held: nobody uses it, and nobody is about to do something to it. */
static bool is_unused(const struct sandbox *sb)
{
	return sb->state == SANDBOX_RUNNING && sb->ready && !sb->held && !sb->busy &&
	       !sb->removing && !sb->removed && !sb->waiting &&
	       !channel_uses(link_channel(sb->link), false);
}

static void act(void *arg)
{
	struct sandbox *sb = arg;
	enum spec_idle action;
	struct err err = {0};
	bool unused, wake;
	int r = 0;

	pthread_mutex_lock(&sb->lock);
	action = sb->policy.idle_action;
	unused = is_unused(sb);
	if (unused)
		tell(sb, action);
	if (unused && action != SPEC_IDLE_REMOVE)
		sb->idle = sb->busy = true;
	pthread_mutex_unlock(&sb->lock);
	if (!unused) {
		idle_ask(sb);
	} else if (action == SPEC_IDLE_REMOVE) {
		registry_remove(sb->registry, sb, false, nobody_waits, NULL);
	} else {
		r = put_to_sleep(sb, action == SPEC_IDLE_STOP, &err);
		if (r < 0)
			sandbox_error(sb, "idle", "", &err);
		else if (action == SPEC_IDLE_STOP)
			lifecycle_unlink(sb);
		pthread_mutex_lock(&sb->lock);
		if (r == 0 && !sb->held && !sb->removed)
			sandbox_become(sb,
				action == SPEC_IDLE_STOP ? SANDBOX_STOPPED : SANDBOX_PAUSED, NULL);
		/* Somebody came meanwhile, or was not answered yet, or it cannot be done: on with
		 * it. */
		wake = r < 0 || sb->waiting ||
		       (sb->ready && channel_uses(link_channel(sb->link), true));
		wake = wake && !sb->held && !sb->removed && !sb->removing;
		sb->busy = wake;
		pthread_mutex_unlock(&sb->lock);
		if (wake)
			lifecycle_bring_up_now(sb);
	}
	sandbox_put(sb);
}

static bool is_idle(struct call *c, int r, struct wire_in *body)
{
	struct sandbox *sb = (struct sandbox *)((char *)c - offsetof(struct sandbox, idle_call));
	bool ok = r < 0 || wire_end(body);

	call_fini(c);
	pthread_mutex_lock(&sb->lock);
	sb->idle_asked = false;
	pthread_mutex_unlock(&sb->lock);
	/* A connection that was lost asks when it is there again. */
	if (r < 0 || !ok || registry_run(sb->registry, act, sb) < 0)
		sandbox_put(sb);
	return ok;
}

void idle_ask(struct sandbox *sb)
{
	uint64_t ms;
	bool ask;

	pthread_mutex_lock(&sb->lock);
	ms = sb->policy.idle_ms;
	ask = ms && !sb->idle_asked && sb->ready && !sb->idle && !sb->removed;
	if (!ask) {
		pthread_mutex_unlock(&sb->lock);
		return;
	}
	sb->idle_asked = true;
	sandbox_get(sb);
	memset(&sb->idle_call, 0, sizeof(sb->idle_call));
	call_begin(&sb->idle_call, PROTO_IDLE, 0, 0);
	sb->idle_call.done = is_idle;
	sb->idle_call.linked = true; /* waiting for another connection, it would wake the sandbox */
	wire_u64(&sb->idle_call.frame, ms);
	sandbox_send_unlock(sb, &sb->idle_call);
}

struct ttl {
	struct registry *r;
	char *id;
	bool told;
};

static void ttl_free(struct ttl *t)
{
	free(t->id);
	free(t);
}

/* How long until the sandbox's time is over; by the wall clock, which the engine's times are, cut
 * to seconds: it lives rather too long than too short. */
static int64_t left_ms(const struct sandbox *sb)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return sb->created * 1000 + 999 + (int64_t)sb->policy.ttl_ms -
	       ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

static void ttl_over(void *arg);

static int ttl_set(struct ttl *t, int64_t ms)
{
	ms = ms < 0 ? 0 : ms > TIMER_MAX_MS ? TIMER_MAX_MS : ms;
	return loop_after(t->r->loop, (unsigned)ms, ttl_over, t);
}

/* An engine that is away now is asked again. */
static void ttl_tried(void *arg, int result, const struct err *err)
{
	struct ttl *t = arg;

	nobody_waits(NULL, result, err);
	if (result == 0 || result == -ENOENT || ttl_set(t, TTL_AGAIN_MS) < 0)
		ttl_free(t);
}

/* In a lifecycle thread. */
static void ttl_end(void *arg)
{
	struct ttl *t = arg;
	struct sandbox *sb = registry_by_id(t->r, t->id);
	int64_t left = 0;

	if (sb) {
		pthread_mutex_lock(&sb->lock);
		left = left_ms(sb);
		if (left <= 0 && !t->told)
			events_add(t->r->events, "ttl", sb->name, NULL, 0);
		t->told = left <= 0;
		pthread_mutex_unlock(&sb->lock);
	}
	if (sb && left <= 0)
		registry_remove(t->r, sb, false, ttl_tried, t);
	else if (!sb || ttl_set(t, left) < 0)
		ttl_free(t);
	if (sb)
		sandbox_put(sb);
}

/* Also when the loop ends: then the registry is closing. */
static void ttl_over(void *arg)
{
	struct ttl *t = arg;

	if (registry_run(t->r, ttl_end, t) < 0)
		ttl_free(t);
}

/* A sandbox that runs and is to be watched for idleness is connected to, but never started. */
static void connect_to(void *arg)
{
	struct sandbox *sb = arg;
	struct registry *r = sb->registry;
	struct engine_box box = {0};
	struct err err = {0};
	bool up = r->engine->ops->inspect(r->engine, sb->id, &box, &err) == 0 &&
		  box.state == ENGINE_RUNNING;

	engine_box_fini(&box);
	pthread_mutex_lock(&sb->lock);
	up = up || sb->waiting;
	sb->busy = up;
	pthread_mutex_unlock(&sb->lock);
	if (up)
		lifecycle_bring_up_now(sb);
	sandbox_put(sb);
}

void idle_seen(struct sandbox *sb, bool running)
{
	struct ttl *t = NULL;
	bool go;

	pthread_mutex_lock(&sb->lock);
	if (sb->policy.ttl_ms && !sb->ttl_set && !sb->removed && *sb->id) {
		t = malloc(sizeof(*t));
		if (t)
			*t = (struct ttl){.r = sb->registry, .id = strdup(sb->id)};
		sb->ttl_set = t && t->id && ttl_set(t, left_ms(sb)) == 0;
		if (t && !sb->ttl_set)
			ttl_free(t);
	}
	go = running && sb->policy.idle_ms && !sb->link && !sb->busy && !sb->held && !sb->removed &&
	     !sb->removing && sb->state == SANDBOX_RUNNING;
	sb->busy |= go;
	pthread_mutex_unlock(&sb->lock);
	if (!go) {
		if (running)
			idle_ask(sb); /* another daemon may have woken it */
		return;
	}
	sandbox_get(sb);
	if (registry_run(sb->registry, connect_to, sb) < 0) {
		pthread_mutex_lock(&sb->lock);
		sb->busy = false;
		pthread_mutex_unlock(&sb->lock);
		sandbox_put(sb);
	}
}
