/* SPDX-License-Identifier: MIT */
/* The tables of sandboxes (r->lock). The engine is the truth: what it has is shown, what it no
 * longer has is dropped; listing.c asks it. */
#include "sandbox/internal.h"

#include "common/log.h"
#include "sandbox/forward.h"
#include "sandbox/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IO_THREADS    2
#define LIFECYCLE_MAX 32

const struct template_rules *registry_rules(const struct registry *r)
{
	return r->rules;
}

struct report *registry_report(struct registry *r)
{
	return r->report;
}

struct events *registry_events(struct registry *r)
{
	return r->events;
}

struct sandbox *registry_find(struct registry *r, const char *name)
{
	struct sandbox *sb;

	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_name, r->names, name, strlen(name), sb);
	if (sb)
		sandbox_get(sb);
	pthread_mutex_unlock(&r->lock);
	return sb;
}

void registry_each(struct registry *r,
	void (*each)(void *arg, const char *name, struct sandbox *sb), void *arg)
{
	struct sandbox *sb, *tmp;

	pthread_mutex_lock(&r->lock);
	HASH_ITER (by_name, r->names, sb, tmp)
		each(arg, sb->name, sb);
	pthread_mutex_unlock(&r->lock);
}

void registry_describe(struct registry *r, struct buf *out)
{
	struct err err = {0};
	char *text = NULL;

	if (r->engine->ops->describe(r->engine, &text, &err) < 0)
		buf_printf(out, "engine: %s\nerror: %s\n", r->engine->ops->name, err.msg);
	else
		buf_puts(out, text);
	if (r->chosen)
		buf_printf(out, "chosen: %s\n", r->chosen);
	free(text);
}

int registry_defer(struct registry *r, void (*fn)(void *arg), void *arg)
{
	return pool_run(r->pool, fn, arg);
}

/* The lock keeps registry_close from freeing the pool meanwhile. */
int registry_run(struct registry *r, void (*fn)(void *arg), void *arg)
{
	int got = -ESHUTDOWN;

	pthread_mutex_lock(&r->lock);
	if (!r->closing)
		got = pool_run(r->pool, fn, arg);
	pthread_mutex_unlock(&r->lock);
	return got;
}

struct sandbox *registry_by_id(struct registry *r, const char *id)
{
	struct sandbox *sb;

	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_id, r->ids, id, strlen(id), sb);
	if (sb)
		sandbox_get(sb);
	pthread_mutex_unlock(&r->lock);
	return sb;
}

int registry_after(struct registry *r, unsigned delay_ms, void (*fn)(void *arg), void *arg)
{
	return loop_after(r->loop, delay_ms, fn, arg);
}

/* With r->lock held: out of the tables. True if its name was in one: that reference is the caller's
 * then. */
static bool untable(struct registry *r, struct sandbox *sb, bool keep_name)
{
	struct sandbox *found;

	if (*sb->id) {
		HASH_FIND(by_id, r->ids, sb->id, strlen(sb->id), found);
		if (found == sb)
			HASH_DELETE(by_id, r->ids, sb);
	}
	if (keep_name)
		return false;
	HASH_FIND(by_name, r->names, sb->name, strlen(sb->name), found);
	if (found == sb)
		HASH_DELETE(by_name, r->names, sb);
	return found == sb;
}

bool registry_drop(struct registry *r, struct sandbox *sb, bool keep_name)
{
	struct call *waiting;
	bool was, first;

	pthread_mutex_lock(&r->lock);
	was = untable(r, sb, keep_name);
	r->removals = ++r->moves;
	pthread_mutex_unlock(&r->lock);
	pthread_mutex_lock(&sb->lock);
	first = !sb->removed;
	sb->removed = true;
	waiting = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(waiting, ENOENT, "the sandbox was removed");
	fetch_leave(r->fetches, sb);
	forward_end_all(sb);
	lifecycle_unlink(sb);
	if (was)
		sandbox_put(sb);
	return first;
}

void registry_removed(struct registry *r, struct sandbox *sb, bool keep_name)
{
	sandbox_get(sb);
	if (registry_drop(r, sb, keep_name)) {
		pthread_mutex_lock(&sb->lock);
		events_add(r->events, "removed", sb->name, NULL, 0);
		pthread_mutex_unlock(&sb->lock);
	}
	sandbox_put(sb);
}

/* With both locks held. */
static void set_id(struct registry *r, struct sandbox *sb, const char *id)
{
	char *copy = strdup(id);

	if (!copy)
		return;
	free(sb->id);
	sb->id = copy;
	HASH_ADD_KEYPTR(by_id, r->ids, sb->id, strlen(sb->id), sb);
}

void registry_attach(struct registry *r, struct sandbox *sb, const char *id)
{
	pthread_mutex_lock(&r->lock);
	pthread_mutex_lock(&sb->lock);
	if (!*sb->id)
		set_id(r, sb, id);
	sb->seen = r->listing;
	pthread_mutex_unlock(&sb->lock);
	pthread_mutex_unlock(&r->lock);
}

static void rekey(struct registry *r, struct sandbox *sb, const char *name)
{
	struct event_field to = {.key = "to", .text = name};
	char *copy = strdup(name);

	if (!copy)
		return;
	events_add(r->events, "renamed", sb->name, &to, 1);
	sb->moved = ++r->moves;
	HASH_DELETE(by_name, r->names, sb);
	free(sb->name);
	sb->name = copy;
	HASH_ADD_KEYPTR(by_name, r->names, sb->name, strlen(sb->name), sb);
}

static void replace(char **to, const char *from)
{
	char *copy = from && *from ? strdup(from) : NULL;

	if (copy) {
		free(*to);
		*to = copy;
	}
}

/* With sb->lock held. A listing knows no limits; they are asked for when somebody wants them. */
static void take_facts(struct sandbox *sb, const struct engine_box *box)
{
	bool lives = box->state == ENGINE_RUNNING || box->state == ENGINE_PAUSED;
	struct engine_port *ports = calloc(box->n_ports + 1, sizeof(*ports));

	sb->limits_known = box->detailed;
	if (box->detailed)
		sb->limits = box->limits;
	if (ports) {
		for (size_t i = 0; i < box->n_ports; i++)
			ports[i] = box->ports[i];
		free(sb->published);
		sb->published = ports;
		sb->n_published = box->n_ports;
	}
	sb->published_known = ports && lives;
}

/* With sb->lock held: the engine's state becomes ours, unless a lifecycle thread is at work. */
static void take_state(struct sandbox *sb, const struct engine_box *box, struct err *died)
{
	bool ended = box->state == ENGINE_EXITED || box->state == ENGINE_CREATED;

	if (sb->busy || sb->removed)
		return;
	if (ended && sb->state == SANDBOX_FAILED)
		return; /* it could not come up, and says why */
	if (box->state == ENGINE_EXITED && sb->state == SANDBOX_RUNNING && !box->detailed &&
		box->mark == ENGINE_MARK_NONE)
		return; /* it will be looked at, and then it is known why */
	sb->held = (box->mark == ENGINE_MARK_PAUSED && box->state == ENGINE_PAUSED) ||
		   (box->mark == ENGINE_MARK_STOPPED && ended);
	sb->idle = box->mark == ENGINE_MARK_IDLE && (ended || box->state == ENGINE_PAUSED);
	if (box->state == ENGINE_PAUSED) {
		sandbox_become(sb, SANDBOX_PAUSED, NULL);
	} else if (box->state == ENGINE_RUNNING) {
		if (sb->state != SANDBOX_FAILED)
			sandbox_become(sb, SANDBOX_RUNNING, NULL);
	} else if (ended) {
		if (box->detailed && !sb->held && !sb->idle && box->state == ENGINE_EXITED &&
			sb->state == SANDBOX_RUNNING)
			err_set(died, EIO, "the container ended with exit code %d%s%s%s",
				box->exit_code, box->oom ? " (OOM-killed)" : "",
				*box->error ? ": " : "", box->error);
		sandbox_become(sb, SANDBOX_STOPPED, died->msg);
	}
}

/* With r->lock held: one that somebody else made. Those of the first listing were there before us,
 * and their state is no news either. */
static void tell_found(struct registry *r, struct sandbox *sb, const struct engine_box *box)
{
	struct event_field fields[] = {{.key = "uid", .number = box->owner},
		{.key = "template", .text = box->template ? box->template : ""}};

	if (r->listing > 1)
		events_add(r->events, "created", sb->name, fields, 2);
	else if (box->state == ENGINE_RUNNING || box->state == ENGINE_PAUSED)
		sb->state = box->state == ENGINE_RUNNING ? SANDBOX_RUNNING : SANDBOX_PAUSED;
}

/* Finds or makes the sandbox of a container. With r->lock held; a new reference, or NULL. */
static struct sandbox *adopt(struct registry *r, const struct engine_box *box)
{
	struct sandbox *sb, *named;

	HASH_FIND(by_id, r->ids, box->id, strlen(box->id), sb);
	HASH_FIND(by_name, r->names, box->name, strlen(box->name), named);
	if (!sb && named) {
		if (*named->id)
			return NULL; /* a second one by that name: the first is shown */
		sb = named;	     /* we are making it, and the event came before the answer */
		pthread_mutex_lock(&sb->lock);
		set_id(r, sb, box->id);
		pthread_mutex_unlock(&sb->lock);
	} else if (!sb) {
		sb = sandbox_new(r, box->name, box->owner);
		if (!sb)
			return NULL;
		sb->state = SANDBOX_STOPPED;
		HASH_ADD_KEYPTR(by_name, r->names, sb->name, strlen(sb->name), sb);
		pthread_mutex_lock(&sb->lock);
		set_id(r, sb, box->id);
		pthread_mutex_unlock(&sb->lock);
		tell_found(r, sb, box);
	} else if (!named && strcmp(sb->name, box->name) != 0) {
		pthread_mutex_lock(&sb->lock);
		rekey(r, sb, box->name);
		pthread_mutex_unlock(&sb->lock);
	}
	sandbox_get(sb);
	return sb;
}

struct leftover {
	struct registry *r;
	char *id;
	bool pre_stop;
};

static void remove_leftover(void *arg)
{
	struct leftover *l = arg;
	struct err err = {0};

	if (lifecycle_remove_box(l->r, l->id, l->pre_stop, &err) < 0)
		log_warn("cannot remove a left-over container: %s", err.msg);
	free(l->id);
	free(l);
}

/* A container that a daemon renamed out of the way and had no time to remove. */
static void finish_removal(struct registry *r, const struct engine_box *box)
{
	struct leftover *l = malloc(sizeof(*l));

	if (!l)
		return;
	*l = (struct leftover){.r = r,
		.id = strdup(box->id),
		.pre_stop = box->state == ENGINE_RUNNING && policy_read(box->config).pre_stop};
	if (!l->id || pool_run(r->ends, remove_leftover, l) < 0) {
		free(l->id);
		free(l);
	}
}

/* One that is marked or gone: not shown. */
static void apply_gone(struct registry *r, const struct engine_box *box)
{
	struct sandbox *sb;
	bool ours = false;

	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_id, r->ids, box->id, strlen(box->id), sb);
	if (sb) {
		sandbox_get(sb);
		sb->seen = r->listing;
		pthread_mutex_lock(&sb->lock);
		ours = sb->removing;
		pthread_mutex_unlock(&sb->lock);
	}
	pthread_mutex_unlock(&r->lock);
	if (sb && !ours)
		registry_removed(r, sb, false);
	if (sb)
		sandbox_put(sb);
	else if (box->mark == ENGINE_MARK_REMOVING && box->state != ENGINE_GONE)
		finish_removal(r, box);
}

/* With r->lock held: whether something happened to it since the engine was asked. */
static bool is_old(struct registry *r, const struct engine_box *box, uint64_t asked)
{
	struct sandbox *sb;
	bool old;

	HASH_FIND(by_id, r->ids, box->id, strlen(box->id), sb);
	if (!sb)
		return r->removals > asked; /* perhaps it is the one that went */
	pthread_mutex_lock(&sb->lock);
	old = sb->moved > asked;
	pthread_mutex_unlock(&sb->lock);
	if (old)
		sb->seen = r->listing;
	return old;
}

bool registry_apply(struct registry *r, const struct engine_box *box, uint64_t asked)
{
	struct err died = {0};
	struct sandbox *sb = NULL;
	bool kick, old;

	if (box->mark == ENGINE_MARK_REMOVING || box->state == ENGINE_GONE) {
		apply_gone(r, box);
		return true;
	}
	pthread_mutex_lock(&r->lock);
	old = is_old(r, box, asked);
	if (!old)
		sb = adopt(r, box);
	if (sb)
		sb->seen = r->listing;
	pthread_mutex_unlock(&r->lock);
	if (!sb)
		return !old;
	pthread_mutex_lock(&sb->lock);
	replace(&sb->template, box->template);
	replace(&sb->config, box->config);
	replace(&sb->image_id, box->image_id);
	sb->created = box->created ? box->created : sb->created;
	take_facts(sb, box);
	policy_know(sb);
	take_state(sb, box, &died);
	kick = !sb->busy && !sb->held &&
	       (sb->idle && box->state == ENGINE_PAUSED
			       ? sb->waiting ||
					 (sb->ready && channel_uses(link_channel(sb->link), true))
			       : sb->waiting && box->state != ENGINE_PAUSED);
	sb->busy |= kick;
	pthread_mutex_unlock(&sb->lock);
	if (died.code)
		sandbox_error(sb, "run", "", &died);
	if (kick)
		lifecycle_connect(sb);
	else
		idle_seen(sb, box->state == ENGINE_RUNNING);
	sandbox_put(sb);
	return true;
}

static int copy_config(struct registry *r, const struct registry_config *c)
{
	r->namespace = strdup(c->namespace);
	r->rules = c->rules;
	r->max_sandboxes = c->max_sandboxes;
	return r->namespace ? 0 : -ENOMEM;
}

static void destroy(struct registry *r)
{
	if (r->stop_fd >= 0)
		close(r->stop_fd);
	fetches_free(r->fetches);
	report_free(r->report);
	events_free(r->events);
	log_cache_free(r->log);
	r->engine->ops->close(r->engine);
	free(r->namespace);
	pthread_cond_destroy(&r->links_gone);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int registry_new(const struct registry_config *config, struct registry **out, struct err *err)
{
	struct registry *r = calloc(1, sizeof(*r));
	int got;

	if (!r) {
		config->engine->ops->close(config->engine);
		return err_set(err, ENOMEM, "no memory");
	}
	r->engine = config->engine;
	r->chosen = config->chosen;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->links_gone, NULL);
	r->report = report_new();
	r->log = log_cache_new();
	r->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (copy_config(r, config) < 0 || !r->report || !r->log || r->stop_fd < 0 ||
		loop_new(IO_THREADS, &r->loop) < 0 || pool_new(LIFECYCLE_MAX, &r->pool) < 0 ||
		pool_new(LIFECYCLE_MAX, &r->ends) < 0) {
		pool_free(r->pool);
		loop_free(r->loop);
		destroy(r);
		return err_set(err, ENOMEM, "cannot start the daemon's threads");
	}
	got = events_new(config->audit, &r->events, err);
	if (got == 0 && fetches_new(r->engine, r->events, &r->fetches) < 0)
		got = err_set(err, ENOMEM, "no memory");
	if (got == 0)
		got = registry_relist(r, err);
	if (got == 0 && pthread_create(&r->watcher, NULL, registry_watch, r) != 0)
		got = err_set(err, EAGAIN, "cannot start the daemon's threads");
	if (got < 0) {
		pool_free(r->pool);
		pool_free(r->ends);
		loop_free(r->loop);
		destroy(r);
		return got;
	}
	registry_relist_anyway(r);
	*out = r;
	return 0;
}

static void end_all(struct registry *r, bool remove_all)
{
	struct sandbox *sb;

	for (;;) {
		struct err err = {0};
		bool made, pre_stop;

		pthread_mutex_lock(&r->lock);
		sb = r->names;
		if (sb)
			sandbox_get(sb);
		pthread_mutex_unlock(&r->lock);
		if (!sb)
			return;
		pthread_mutex_lock(&sb->lock);
		made = *sb->id;
		pre_stop = sb->policy.pre_stop && sb->state == SANDBOX_RUNNING;
		pthread_mutex_unlock(&sb->lock);
		if (remove_all && made && lifecycle_remove_box(r, sb->id, pre_stop, &err) < 0)
			sandbox_error(sb, "remove", "", &err);
		if (remove_all)
			registry_removed(r, sb, false);
		else
			registry_drop(r, sb, false);
		sandbox_put(sb);
	}
}

void registry_close(struct registry *r, bool remove_all)
{
	uint64_t one = 1;

	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_mutex_unlock(&r->lock);
	if (write(r->stop_fd, &one, sizeof(one)) < 0)
		log_error("cannot stop the watcher: %s", strerror(errno));
	pthread_join(r->watcher, NULL);
	end_all(r, remove_all);
	fetches_close(r->fetches);
	pool_free(r->pool); /* what was begun in the engine is finished */
	pool_free(r->ends);
	end_all(r, false); /* what that brought */
	pthread_mutex_lock(&r->lock);
	while (r->links)
		pthread_cond_wait(&r->links_gone, &r->lock);
	pthread_mutex_unlock(&r->lock);
	loop_free(r->loop);
}

void registry_free(struct registry *r)
{
	destroy(r);
}
