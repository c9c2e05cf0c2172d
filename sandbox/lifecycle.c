/* SPDX-License-Identifier: MIT */
/*
 * What changes a sandbox as a whole: create, remove, rename, set its state. Each request is a task
 * in a lifecycle thread; it may block on the engine and reports by its callback.
 */
#include "sandbox/internal.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "sandbox/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define STOP_GRACE_S 5

struct task {
	struct registry *r;
	struct sandbox *sb; /* a reference, or NULL */
	char *name;	    /* create, rename: the name; set_state: the word */
	uint32_t owner;
	bool keep_husk;
	registry_done *done;
	void *arg;
	struct call ping; /* set_state running: answered when it is so */
};

static void task_free(struct task *t)
{
	if (t->sb)
		sandbox_put(t->sb);
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

	if (t) {
		*t = proto;
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

static int resolve(struct task *t, struct spec *spec, struct err *err)
{
	char *template = NULL;
	bool snapshot = false;
	int r = template_split(t->name, &template, &snapshot, err);

	if (r == 0 && snapshot)
		r = err_set(err, ENOENT, "there is no snapshot %s", template);
	else if (r == 0)
		r = template_resolve(
			template, (const char *const *)t->r->template_dirs, t->r->image, spec, err);
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

/* 0: the image is there; 1: it must be fetched; -errno. */
static int need_image(struct task *t, const struct spec *spec, struct err *err)
{
	struct engine *e = t->r->engine;
	const char *policy = spec->pull_policy ? spec->pull_policy : "missing";
	int r = e->ops->image_check(e, spec->image, err);

	if (r == 0)
		return strcmp(policy, "always") == 0;
	if (r != -ENOENT)
		return r;
	if (strcmp(policy, "never") == 0)
		return err_set(err, ENOMEDIUM, "there is no image %s, and pull_policy is never",
			spec->image);
	return 1;
}

/* A pull: what it last said, so that a line that is repeated is told once. */
struct pull {
	struct sandbox *sb;
	char said[128];
};

/* Ends a pull that nobody wants any more. */
static bool pull_progress(void *arg, const char *line)
{
	struct pull *p = arg;
	bool go_on;

	if (strncmp(p->said, line, sizeof(p->said) - 1) != 0)
		log_info("%s", line);
	snprintf(p->said, sizeof(p->said), "%s", line);
	pthread_mutex_lock(&p->sb->lock);
	go_on = !p->sb->removing && !p->sb->removed;
	pthread_mutex_unlock(&p->sb->lock);
	return go_on;
}

static int pull(struct task *t, const char *image, struct err *err)
{
	struct engine *e = t->r->engine;
	struct pull p = {.sb = t->sb};

	return e->ops->image_pull(e, image, pull_progress, &p, err);
}

static int make(struct task *t, const struct spec *spec, struct err *err)
{
	struct engine *e = t->r->engine;
	char *id = NULL;
	bool unwanted;
	int r = e->ops->create(e, spec, &id, err);

	if (r < 0)
		return r;
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

static void create_task(void *arg)
{
	struct task *t = arg;
	struct spec spec = {0};
	struct err err = {0};
	bool fetch = false;
	int r = resolve(t, &spec, &err);

	if (r == 0)
		r = reserve(t, &spec, &err);
	if (r == 0) {
		r = need_image(t, &spec, &err);
		fetch = r == 1;
		if (r == 0)
			r = make(t, &spec, &err);
		if (r < 0)
			registry_drop(t->r, t->sb, false);
	}
	t->done(t->arg, r < 0 ? r : 0, &err);
	if (r >= 0 && fetch) {
		r = pull(t, spec.image, &err);
		if (r < 0)
			lifecycle_fail(t->sb, "pull", &err, true);
		else if ((r = make(t, &spec, &err)) < 0)
			lifecycle_fail(t->sb, "create", &err, true);
	}
	if (r >= 0) {
		pthread_mutex_lock(&t->sb->lock);
		t->sb->state = SANDBOX_STARTING;
		pthread_mutex_unlock(&t->sb->lock);
		lifecycle_bring_up_now(t->sb);
	}
	spec_fini(&spec);
	task_free(t);
}

void registry_create(
	struct registry *r, const char *name, uint32_t owner, registry_done *done, void *arg)
{
	task_run(
		(struct task){.r = r, .owner = owner, .done = done, .arg = arg}, create_task, name);
}

static void remove_task(void *arg)
{
	struct task *t = arg;
	struct engine *e = t->r->engine;
	struct err err = {0};
	bool twice, made;
	int r = 0;

	pthread_mutex_lock(&t->sb->lock);
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
	registry_drop(t->r, t->sb, t->keep_husk);
	t->done(t->arg, 0, &err);
	if (made && e->ops->remove(e, t->sb->id, &err) < 0)
		sandbox_error(t->sb, "remove", "", &err);
	task_free(t);
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

/* The name and what the user asked for, as they are now. The name is a new string. */
static char *name_and_mark(struct sandbox *sb, enum engine_mark *mark)
{
	char *name;

	pthread_mutex_lock(&sb->lock);
	name = strdup(sb->name);
	*mark = !sb->held		      ? ENGINE_MARK_NONE
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
	free(name_and_mark(t->sb, &mark));
	if (r == 0)
		r = e->ops->rename(e, t->sb->id, t->name, mark, &err);
	if (r == 0) {
		struct engine_box box = {0};

		if (e->ops->inspect(e, t->sb->id, &box, &err) == 0) {
			registry_apply(t->r, &box);
			engine_box_fini(&box);
		}
	}
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
	cleanup_free char *name = name_and_mark(sb, &before);
	struct err ignored = {0};
	struct call *waiting;
	int r;

	if (!name)
		return err_set(err, ENOMEM, "no memory for that");
	r = e->ops->rename(e, sb->id, name, mark, err);
	if (r < 0)
		return r;
	r = pause ? e->ops->pause(e, sb->id, true, err)
		  : e->ops->stop(e, sb->id, STOP_GRACE_S, err);
	if (r < 0) {
		e->ops->rename(e, sb->id, name, before, &ignored);
		return r;
	}
	pthread_mutex_lock(&sb->lock);
	sb->held = true;
	sb->state = pause ? SANDBOX_PAUSED : SANDBOX_STOPPED;
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
	sb->held = false;
	if (sb->state == SANDBOX_PAUSED)
		sb->state = SANDBOX_RUNNING;
	else if (sb->state == SANDBOX_FAILED)
		sb->state = SANDBOX_STOPPED;
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
	task_run((struct task){.r = r, .sb = sb, .done = done, .arg = arg}, state_task, word);
}
