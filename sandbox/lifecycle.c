/* SPDX-License-Identifier: MIT */
/*
 * What changes a sandbox as a whole: create, remove, rename, set its state. Each request is a task
 * in a lifecycle thread; it may block on the engine and reports by its callback.
 */
#include "sandbox/internal.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/setup_file.h"
#include "sandbox/setup.h"
#include "sandbox/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

struct task {
	struct registry *r;
	struct sandbox *sb; /* a reference, or NULL */
	char *name;	    /* create, rename: the name; set_state: the word */
	uint32_t owner;
	bool keep_husk;
	bool pre_stop; /* remove: it is to be stopped in good order */
	registry_done *done;
	void *arg;
	struct spec spec; /* create */
	int setup;	  /* create: what goes onto the state volume; -1: nothing */
	struct call ping; /* set_state running: answered when it is so */
	bool sets_state;  /* counted in sb->setters */
};

#define SETTERS_MAX 4 /* each may hold a thread for as long as a stop takes */

static void setter_gone(struct sandbox *sb)
{
	pthread_mutex_lock(&sb->lock);
	sb->setters--;
	pthread_mutex_unlock(&sb->lock);
}

static void task_free(struct task *t)
{
	if (t->sets_state)
		setter_gone(t->sb);
	if (t->sb)
		sandbox_put(t->sb);
	spec_fini(&t->spec);
	if (t->setup >= 0)
		close(t->setup);
	free(t->name);
	free(t);
}

static void task_done(struct task *t, int result, const struct err *err)
{
	t->done(t->arg, result, err);
	task_free(t);
}

static void task_run(struct task proto, void (*fn)(void *arg), const char *name)
{
	struct task *t = malloc(sizeof(*t));
	struct err err = {0};

	if (!t && proto.sets_state)
		setter_gone(proto.sb);
	if (t) {
		*t = proto;
		t->setup = -1;
		t->name = name ? strdup(name) : NULL;
		if (t->sb)
			sandbox_get(t->sb);
		if ((!name || t->name) && pool_run(t->r->pool, fn, t) == 0)
			return;
		task_free(t);
	}
	err_set(&err, ENOMEM, "no memory for that");
	proto.done(proto.arg, -ENOMEM, &err);
}

/* Takes the name in the registry before the engine is asked. */
static int reserve(struct task *t, const struct spec *spec, struct err *err)
{
	struct registry *r = t->r;
	struct sandbox *sb = sandbox_new(r, t->name, t->owner), *found;
	int got = 0;

	if (!sb)
		return err_set(err, ENOMEM, "no memory for a sandbox");
	sb->state = SANDBOX_CREATING;
	sb->busy = true;
	free(sb->template);
	free(sb->config);
	sb->template = strdup(spec->template);
	sb->config = strdup(spec->config ? spec->config : "");
	policy_know(sb);
	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_name, r->names, t->name, strlen(t->name), found);
	if (found)
		got = err_set(err, EEXIST, "there is a sandbox %s", t->name);
	else if (r->max_sandboxes && HASH_CNT(by_name, r->names) >= r->max_sandboxes)
		got = err_set(err, EDQUOT,
			"there are %u sandboxes, as many as max_sandboxes allows",
			r->max_sandboxes);
	else if (!sb->template || !sb->config)
		got = err_set(err, ENOMEM, "no memory for a sandbox");
	if (got == 0) {
		HASH_ADD_KEYPTR(by_name, r->names, sb->name, strlen(sb->name), sb);
		sandbox_get(sb);
		t->sb = sb;
	} else {
		sandbox_put(sb);
	}
	pthread_mutex_unlock(&r->lock);
	return got;
}

static int resolve(struct task *t, struct err *err)
{
	struct spec *spec = &t->spec;
	char *template = NULL;
	bool snapshot = false;
	int r = template_split(t->name, &template, &snapshot, err);

	if (r == 0 && snapshot)
		r = err_set(err, ENOENT, "there is no snapshot %s", template);
	else if (r == 0)
		r = template_resolve(template, t->r->rules, spec, err);
	free(template);
	if (r < 0)
		return r;
	spec->namespace = strdup(t->r->namespace);
	spec->name = strdup(t->name);
	spec->owner = t->owner;
	if (!spec->namespace || !spec->name)
		return err_set(err, ENOMEM, "no memory for a sandbox");
	return 0;
}

/* Words for who has no image and no registry. */
static int without_image(const struct engine *e, struct err *err)
{
	struct err said = *err;

	if (!e->ops->image_hint)
		return -err->code;
	return err_set(err, said.code, "%.330s; %s", said.msg, e->ops->image_hint);
}

/* 0: the image is there; 1: it must be fetched; -errno. */
static int need_image(struct task *t, struct err *err)
{
	struct engine *e = t->r->engine;
	const struct spec *spec = &t->spec;
	const char *policy = spec->pull_policy ? spec->pull_policy : "missing";
	bool build = spec->build.context;
	int r = e->ops->image_check(e, spec->image, spec->platform, err);

	if (r == -EAGAIN)
		return 1;
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		return strcmp(policy, build ? "build" : "always") == 0;
	if (strcmp(policy, "never") == 0) {
		err_set(err, ENOMEDIUM, "there is no image %s%s%s, and pull_policy is never",
			spec->image, spec->platform ? " for " : "",
			spec->platform ? spec->platform : "");
		return without_image(e, err);
	}
	return 1;
}

static int make(struct task *t, struct err *err)
{
	struct engine *e = t->r->engine;
	struct err ignored = {0};
	char *id = NULL;
	bool unwanted;
	int r = e->ops->create(e, &t->spec, &id, err);

	if (r < 0)
		return r;
	if (t->setup >= 0 && (r = e->ops->put_state(e, id, SETUP_NAME, t->setup, err)) < 0) {
		e->ops->remove(e, id, &ignored);
		free(id);
		return r;
	}
	registry_attach(t->r, t->sb, id);
	pthread_mutex_lock(&t->sb->lock);
	unwanted = t->sb->removing || t->sb->removed;
	pthread_mutex_unlock(&t->sb->lock);
	if (unwanted) {
		e->ops->remove(e, id, err);
		r = err_set(err, ENOENT, "the sandbox was removed");
	}
	free(id);
	return r;
}

static void tell_created(const struct task *t, const struct spec *spec)
{
	struct event_field fields[] = {{.key = "uid", .number = t->owner},
		{.key = "template", .text = spec->template}, {.key = "image", .text = spec->image}};

	events_add(t->r->events, "created", t->name, fields, 3);
}

/* The container is there: starts it. */
static void start(struct task *t)
{
	pthread_mutex_lock(&t->sb->lock);
	t->sb->created = time(NULL); /* its image may have taken long */
	sandbox_become(t->sb, SANDBOX_STARTING, NULL);
	pthread_mutex_unlock(&t->sb->lock);
	/* Its time to live runs, even if the engine never comes to tell of it. */
	idle_seen(t->sb, false);
	lifecycle_bring_up_now(t->sb);
	task_free(t);
}

static void make_task(void *arg)
{
	struct task *t = arg;
	struct err err = {0};

	if (make(t, &err) == 0) {
		start(t);
		return;
	}
	lifecycle_fail(t->sb, "create", &err, true);
	task_free(t);
}

/* From the fetch's thread, which does not wait for the engine again. */
static void fetched(void *arg, int r, const struct err *why)
{
	struct task *t = arg;
	struct err err = *why;
	bool build = t->spec.build.context, unwanted;

	if (r == 0 && pool_run(t->r->pool, make_task, t) == 0)
		return;
	if (r == 0)
		err_set(&err, ENOMEM, "no memory for that");
	else if (!build)
		without_image(t->r->engine, &err);
	pthread_mutex_lock(&t->sb->lock);
	unwanted = t->sb->removing || t->sb->removed;
	pthread_mutex_unlock(&t->sb->lock);
	if (!unwanted)
		lifecycle_fail(t->sb, build ? "build" : "pull", &err, true);
	task_free(t);
}

static void create_task(void *arg)
{
	struct task *t = arg;
	struct err err = {0};
	bool fetch = false;
	int r = resolve(t, &err);

	if (r == 0 && t->r->engine->ops->check)
		r = t->r->engine->ops->check(t->r->engine, &t->spec, &err);
	if (r == 0 && setup_needed(&t->spec)) {
		t->setup = setup_pack(&t->spec, &err);
		r = t->setup < 0 ? t->setup : 0;
	}
	if (r == 0)
		r = reserve(t, &t->spec, &err);
	if (r == 0) {
		r = need_image(t, &err);
		fetch = r == 1;
		if (r == 0)
			r = make(t, &err);
		if (r < 0)
			registry_drop(t->r, t->sb, false);
		else
			tell_created(t, &t->spec);
	}
	t->done(t->arg, r < 0 ? r : 0, &err);
	if (fetch)
		fetch_join(t->r->fetches, t->sb, &t->spec, fetched, t);
	else if (r == 0)
		start(t);
	else
		task_free(t);
}

void registry_create(
	struct registry *r, const char *name, uint32_t owner, registry_done *done, void *arg)
{
	task_run(
		(struct task){.r = r, .owner = owner, .done = done, .arg = arg}, create_task, name);
}

int lifecycle_remove_box(struct registry *r, const char *id, bool pre_stop, struct err *err)
{
	const struct engine_ops *ops = r->engine->ops;
	struct err ignored = {0};

	if (pre_stop && ops->stop(r->engine, id, ENGINE_STOP_GRACE_S, &ignored) < 0)
		log_info("a sandbox that is removed did not stop by itself: %s", ignored.msg);
	return ops->remove(r->engine, id, err);
}

/* What is left to do once it is gone for everybody else. */
static void end_task(void *arg)
{
	struct task *t = arg;
	struct err err = {0};

	if (lifecycle_remove_box(t->r, t->sb->id, t->pre_stop, &err) < 0)
		sandbox_error(t->sb, "remove", "", &err);
	task_free(t);
}

static void remove_task(void *arg)
{
	struct task *t = arg;
	struct engine *e = t->r->engine;
	struct err err = {0};
	bool twice, made;
	int r = 0;

	pthread_mutex_lock(&t->sb->lock);
	t->pre_stop = t->sb->policy.pre_stop && t->sb->state == SANDBOX_RUNNING;
	twice = t->sb->removing;
	t->sb->removing = true;
	made = *t->sb->id; /* if not, whoever is making it sees `removing` afterwards */
	pthread_mutex_unlock(&t->sb->lock);
	if (twice) {
		err_set(&err, ENOENT, "the sandbox is being removed");
		task_done(t, -ENOENT, &err);
		return;
	}
	if (made)
		r = e->ops->rename(e, t->sb->id, "", ENGINE_MARK_REMOVING, &err);
	if (r < 0 && r != -ENOENT) {
		pthread_mutex_lock(&t->sb->lock);
		t->sb->removing = false;
		pthread_mutex_unlock(&t->sb->lock);
		task_done(t, r, &err);
		return;
	}
	registry_removed(t->r, t->sb, t->keep_husk);
	t->done(t->arg, 0, &err);
	if (!made)
		task_free(t);
	else if (pool_run(t->r->ends, end_task, t) < 0)
		end_task(t);
}

void registry_remove(
	struct registry *r, struct sandbox *sb, bool keep_husk, registry_done *done, void *arg)
{
	task_run((struct task){.r = r, .sb = sb, .keep_husk = keep_husk, .done = done, .arg = arg},
		remove_task, NULL);
}

void registry_forget(struct registry *r, struct sandbox *sb)
{
	registry_drop(r, sb, false);
}

char *lifecycle_name_and_mark(struct sandbox *sb, enum engine_mark *mark)
{
	char *name;

	pthread_mutex_lock(&sb->lock);
	name = strdup(sb->name);
	*mark = sb->idle		      ? ENGINE_MARK_IDLE
		: !sb->held		      ? ENGINE_MARK_NONE
		: sb->state == SANDBOX_PAUSED ? ENGINE_MARK_PAUSED
					      : ENGINE_MARK_STOPPED;
	pthread_mutex_unlock(&sb->lock);
	return name;
}

static void rename_task(void *arg)
{
	struct task *t = arg;
	struct engine *e = t->r->engine;
	struct sandbox *found;
	struct err err = {0};
	enum engine_mark mark;
	char *template = NULL;
	bool snapshot;
	int r = template_split(t->name, &template, &snapshot, &err);

	free(template);
	if (r == 0) {
		pthread_mutex_lock(&t->r->lock);
		HASH_FIND(by_name, t->r->names, t->name, strlen(t->name), found);
		if (found)
			r = err_set(&err, EEXIST, "there is a sandbox %s", t->name);
		else if (!*t->sb->id)
			r = err_set(&err, EBUSY, "the sandbox is still being made");
		pthread_mutex_unlock(&t->r->lock);
	}
	free(lifecycle_name_and_mark(t->sb, &mark));
	if (r == 0)
		r = e->ops->rename(e, t->sb->id, t->name, mark, &err);
	if (r == 0)
		registry_look(t->r, t->sb->id);
	task_done(t, r, &err);
}

void registry_rename(
	struct registry *r, struct sandbox *sb, const char *name, registry_done *done, void *arg)
{
	task_run((struct task){.r = r, .sb = sb, .done = done, .arg = arg}, rename_task, name);
}

/* Stops or pauses; the mark goes first, so that no daemon takes it for an accident. */
static int hold(struct task *t, bool pause, struct err *err)
{
	struct sandbox *sb = t->sb;
	struct engine *e = t->r->engine;
	enum engine_mark mark = pause ? ENGINE_MARK_PAUSED : ENGINE_MARK_STOPPED;
	enum engine_mark before;
	cleanup_free char *name = lifecycle_name_and_mark(sb, &before);
	struct err ignored = {0};
	struct call *waiting;
	int r;

	if (!name)
		return err_set(err, ENOMEM, "no memory for that");
	r = e->ops->rename(e, sb->id, name, mark, err);
	if (r < 0)
		return r;
	r = pause ? e->ops->pause(e, sb->id, true, err)
		  : e->ops->stop(e, sb->id, ENGINE_STOP_GRACE_S, err);
	if (r < 0) {
		e->ops->rename(e, sb->id, name, before, &ignored);
		return r;
	}
	pthread_mutex_lock(&sb->lock);
	sb->held = true;
	sb->idle = false;
	sandbox_become(sb, pause ? SANDBOX_PAUSED : SANDBOX_STOPPED, NULL);
	waiting = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(waiting, ESHUTDOWN, "the sandbox was stopped or paused");
	if (!pause)
		lifecycle_unlink(sb);
	return 0;
}

static bool is_up(struct call *c, int r, struct wire_in *body)
{
	struct task *t = (struct task *)((char *)c - offsetof(struct task, ping));
	struct err err = {0};

	if (r < 0)
		err_set(&err, -r, "%s", c->words && *c->words ? c->words : strerror(-r));
	call_fini(c);
	task_done(t, r, &err);
	return true;
}

/* Back to running: the mark goes, the container is freed or started, and a ping tells when it is
 * so. */
static int release(struct task *t, struct err *err)
{
	struct sandbox *sb = t->sb;
	struct engine *e = t->r->engine;
	struct engine_box box = {0};
	int r = e->ops->inspect(e, sb->id, &box, err);

	if (r == 0 && box.mark != ENGINE_MARK_NONE)
		r = e->ops->rename(e, sb->id, box.name, ENGINE_MARK_NONE, err);
	if (r == 0 && box.state == ENGINE_PAUSED)
		r = e->ops->pause(e, sb->id, false, err);
	engine_box_fini(&box);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->lock);
	sb->held = sb->idle = false;
	sb->moved = ++t->r->moves; /* who saw the mark before is not to hold it again */
	if (sb->state == SANDBOX_PAUSED)
		sandbox_become(sb, SANDBOX_RUNNING, NULL);
	else if (sb->state == SANDBOX_FAILED)
		sandbox_become(sb, SANDBOX_STOPPED, NULL);
	pthread_mutex_unlock(&sb->lock);
	call_begin(&t->ping, PROTO_PING, 0, 0);
	t->ping.done = is_up;
	t->ping.repeat = true;
	sandbox_call(sb, &t->ping);
	return 1;
}

static void state_task(void *arg)
{
	struct task *t = arg;
	struct err err = {0};
	int r;

	pthread_mutex_lock(&t->sb->lock);
	r = *t->sb->id ? 0 : -EBUSY;
	pthread_mutex_unlock(&t->sb->lock);
	if (r < 0)
		err_set(&err, EBUSY, "the sandbox has no container");
	else if (strcmp(t->name, "running") == 0)
		r = release(t, &err);
	else if (strcmp(t->name, "paused") == 0)
		r = hold(t, true, &err);
	else if (strcmp(t->name, "stopped") == 0)
		r = hold(t, false, &err);
	else if (strcmp(t->name, "restart") == 0)
		r = (r = hold(t, false, &err)) < 0 ? r : release(t, &err);
	else
		r = err_set(
			&err, EINVAL, "%s is none of running, paused, stopped, restart", t->name);
	if (r != 1)
		task_done(t, r, &err);
}

void registry_set_state(
	struct registry *r, struct sandbox *sb, const char *word, registry_done *done, void *arg)
{
	struct err err = {0};

	pthread_mutex_lock(&sb->lock);
	if (sb->setters >= SETTERS_MAX)
		err_set(&err, EBUSY, "%u others are changing its state", sb->setters);
	else
		sb->setters++;
	pthread_mutex_unlock(&sb->lock);
	if (err.code)
		done(arg, -err.code, &err);
	else
		task_run(
			(struct task){
				.r = r, .sb = sb, .done = done, .arg = arg, .sets_state = true},
			state_task, word);
}
