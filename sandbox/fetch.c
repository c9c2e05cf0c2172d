/* SPDX-License-Identifier: MIT */
/*
 * A fetch is in the list while it can be joined; whoever takes it out, because it has ended or
 * because its last waiter left, sees to its end. f->lock guards all of this; sandbox->lock may be
 * taken inside it. A fetch's own thread reads its spec, which does not change, without it.
 */
#include "sandbox/fetch.h"

#include "common/buf.h"
#include "common/log.h"
#include "sandbox/internal.h"
#include "sandbox/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#define FETCHES_MAX	64 /* at once; more are queued, behind registries that never answer too */
#define KEY_MAX		(1u << 20)
#define BUILD_EVENTS	1000 /* of one build: the last 10,000 events are everybody's */
#define SANDBOX_NAME_ED 160

struct waiter {
	struct sandbox *sb;
	fetch_done *done;
	void *arg;
	struct waiter *prev, *next;
};

struct fetch {
	struct fetches *all;
	struct spec spec; /* only what concerns the image */
	struct buf key;
	int stop_fd;
	/* Protected by all->lock. */
	struct waiter *waiters;
	unsigned n_waiters;
	bool listed;
	int percent;
	int64_t bytes, total;
	struct fetch *prev, *next;
	/* Its own thread's. */
	int told;
	unsigned lines;
};

struct fetches {
	struct engine *engine;
	struct events *events;
	struct pool *pool;
	pthread_mutex_t lock;
	struct fetch *list; /* protected by lock */
	bool closing;	    /* protected by lock */
};

int fetches_new(struct engine *engine, struct events *events, struct fetches **out)
{
	struct fetches *f = calloc(1, sizeof(*f));

	if (!f || pool_new(FETCHES_MAX, &f->pool) < 0) {
		free(f);
		return -ENOMEM;
	}
	f->engine = engine;
	f->events = events;
	pthread_mutex_init(&f->lock, NULL);
	*out = f;
	return 0;
}

void fetches_free(struct fetches *f)
{
	if (!f)
		return;
	pool_free(f->pool);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void fetch_free(struct fetch *t)
{
	if (!t)
		return;
	spec_fini(&t->spec);
	buf_fini(&t->key);
	if (t->stop_fd >= 0)
		close(t->stop_fd);
	free(t);
}

/* What makes two fetches the same one. */
static int make_key(struct buf *b, const struct spec *spec)
{
	const char *const parts[] = {spec->image, spec->platform, spec->build.context,
		spec->build.dockerfile, spec->build.target};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		buf_append(b, parts[i] ? parts[i] : "", parts[i] ? strlen(parts[i]) + 1 : 1);
	for (char **a = spec->build.context ? spec->build.args : NULL; a && *a; a++)
		buf_append(b, *a, strlen(*a) + 1);
	return b->error;
}

static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_spec(struct spec *to, const struct spec *from)
{
	size_t n = 0;

	if (!copy_text(&to->image, from->image) || !copy_text(&to->platform, from->platform) ||
		!copy_text(&to->template, from->template) ||
		!copy_text(&to->build.context, from->build.context) ||
		!copy_text(&to->build.dockerfile, from->build.dockerfile) ||
		!copy_text(&to->build.target, from->build.target))
		return false;
	while (from->build.args && from->build.args[n])
		n++;
	to->build.args = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; to->build.args && i < n; i++)
		if (!copy_text(&to->build.args[i], from->build.args[i]))
			return false;
	return to->build.args;
}

static struct fetch *fetch_new(struct fetches *f, const struct spec *spec)
{
	struct fetch *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->all = f;
	t->told = -1;
	buf_init(&t->key, KEY_MAX);
	t->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (t->stop_fd >= 0 && copy_spec(&t->spec, spec) && make_key(&t->key, spec) == 0)
		return t;
	fetch_free(t);
	return NULL;
}

/* With the lock held: one event of a sandbox that waits. */
static void tell(struct fetch *t, struct waiter *w, const char *event,
	const struct event_field *fields, size_t n)
{
	char name[SANDBOX_NAME_ED];

	pthread_mutex_lock(&w->sb->lock);
	snprintf(name, sizeof(name), "%s", w->sb->name);
	pthread_mutex_unlock(&w->sb->lock);
	events_add(t->all->events, event, name, fields, n);
}

static void tell_pull(struct fetch *t, struct waiter *w)
{
	const struct event_field fields[] = {{.key = "image", .text = t->spec.image},
		{.key = "percent", .number = t->percent}, {.key = "bytes", .number = t->bytes},
		{.key = "total", .number = t->total}};

	tell(t, w, "pull", fields, sizeof(fields) / sizeof(*fields));
}

static void tell_pull_all(struct fetch *t)
{
	struct waiter *w;

	DL_FOREACH (t->waiters, w)
		tell_pull(t, w);
}

/* Each whole per cent once; where many wait, so much more rarely: everybody's events are few. */
static void on_pulled(void *arg, int percent, int64_t bytes, int64_t total)
{
	struct fetch *t = arg;
	int step;

	pthread_mutex_lock(&t->all->lock);
	t->percent = percent;
	t->bytes = bytes;
	t->total = total;
	step = t->n_waiters > 1 ? (int)t->n_waiters : 1;
	if (percent >= t->told + step) {
		t->told = percent;
		tell_pull_all(t);
		log_info("pulling %s: %d %%, %.1f of %.1f MB", t->spec.image, percent,
			(double)bytes / 1e6, (double)total / 1e6);
	}
	pthread_mutex_unlock(&t->all->lock);
}

static void on_built(void *arg, const char *line)
{
	struct fetch *t = arg;
	const struct event_field fields[] = {
		{.key = "image", .text = t->spec.image}, {.key = "line", .text = line}};
	struct waiter *w;

	log_info("building %s: %s", t->spec.image, line);
	pthread_mutex_lock(&t->all->lock);
	/* The last 10,000 events are everybody's: where many wait, each is told of fewer. */
	DL_FOREACH (t->waiters, w)
		if (t->lines++ < BUILD_EVENTS)
			tell(t, w, "build", fields, 2);
	pthread_mutex_unlock(&t->all->lock);
}

/* With the lock held: who waits is the caller's from now on, and nobody joins any more. */
static struct waiter *unlist(struct fetch *t)
{
	struct waiter *list = t->waiters;

	if (t->listed)
		DL_DELETE(t->all->list, t);
	t->listed = false;
	t->waiters = NULL;
	t->n_waiters = 0;
	return list;
}

static void finish(struct waiter *list, int r, const struct err *err)
{
	struct waiter *w, *tmp;

	DL_FOREACH_SAFE (list, w, tmp) {
		w->done(w->arg, r, err);
		sandbox_put(w->sb);
		free(w);
	}
}

static int fetch_now(struct fetch *t, struct err *err)
{
	struct engine *e = t->all->engine;
	struct engine_fetcher fetcher = {
		.pulled = on_pulled, .built = on_built, .arg = t, .stop_fd = t->stop_fd};

	if (!t->spec.build.context)
		return e->ops->image_pull(e, t->spec.image, t->spec.platform, &fetcher, err);
	if (!e->ops->image_build)
		return err_set(err, EOPNOTSUPP, "this engine builds no images");
	return e->ops->image_build(e, &t->spec, &fetcher, err);
}

static void fetch_task(void *arg)
{
	struct fetch *t = arg;
	struct waiter *list;
	struct err err = {0};
	bool wanted;
	int r = 0;

	pthread_mutex_lock(&t->all->lock);
	wanted = t->waiters;
	pthread_mutex_unlock(&t->all->lock);
	if (wanted)
		r = fetch_now(t, &err);
	pthread_mutex_lock(&t->all->lock);
	if (r == 0 && !t->spec.build.context && t->waiters) {
		t->percent = 100;
		t->bytes = t->total;
		tell_pull_all(t);
		log_info("pulling %s: done, %.1f MB", t->spec.image, (double)t->total / 1e6);
	}
	list = unlist(t);
	pthread_mutex_unlock(&t->all->lock);
	finish(list, r, &err);
	fetch_free(t);
}

/* With the lock held: the fetch of that key, or a new one that is under way; NULL: no memory. */
static struct fetch *get(struct fetches *f, const struct spec *spec)
{
	struct fetch *t = fetch_new(f, spec), *found;

	if (!t)
		return NULL;
	DL_FOREACH (f->list, found)
		if (found->key.len == t->key.len &&
			memcmp(found->key.data, t->key.data, t->key.len) == 0)
			break;
	if (!found && pool_run(f->pool, fetch_task, t) == 0) {
		DL_APPEND(f->list, t);
		t->listed = true;
		return t; /* its thread waits for the lock, and finds who waits */
	}
	fetch_free(t);
	return found;
}

void fetch_join(
	struct fetches *f, struct sandbox *sb, const struct spec *spec, fetch_done *done, void *arg)
{
	struct waiter *w = calloc(1, sizeof(*w));
	struct err err = {0};
	struct fetch *t = NULL;
	bool gone;

	pthread_mutex_lock(&f->lock);
	pthread_mutex_lock(&sb->lock);
	gone = sb->removing || sb->removed; /* from here on fetch_leave finds it */
	pthread_mutex_unlock(&sb->lock);
	if (gone)
		err_set(&err, ENOENT, "the sandbox was removed");
	else if (f->closing)
		err_set(&err, ESHUTDOWN, "the daemon ends");
	else if (!w || !(t = get(f, spec)))
		err_set(&err, ENOMEM, "no memory to fetch an image");
	if (t) {
		*w = (struct waiter){.sb = sb, .done = done, .arg = arg};
		sandbox_get(sb);
		DL_APPEND(t->waiters, w);
		t->n_waiters++;
		if (!t->spec.build.context)
			tell_pull(t, w);
	}
	pthread_mutex_unlock(&f->lock);
	if (t)
		return;
	free(w);
	done(arg, -err.code, &err);
}

static void stop(struct fetch *t)
{
	uint64_t one = 1;

	if (write(t->stop_fd, &one, sizeof(one)) < 0)
		log_error("cannot stop a fetch: %s", strerror(errno));
}

void fetch_leave(struct fetches *f, struct sandbox *sb)
{
	struct err err = {0};
	struct fetch *t;
	struct waiter *w = NULL;

	pthread_mutex_lock(&f->lock);
	DL_FOREACH (f->list, t) {
		DL_SEARCH_SCALAR(t->waiters, w, sb, sb);
		if (w)
			break;
	}
	if (w) {
		DL_DELETE(t->waiters, w);
		t->n_waiters--;
		w->prev = w;
		w->next = NULL;
		if (!t->waiters) {
			unlist(t);
			stop(t);
		}
	}
	pthread_mutex_unlock(&f->lock);
	err_set(&err, ENOENT, "the sandbox was removed");
	finish(w, -ENOENT, &err);
}

void fetches_close(struct fetches *f)
{
	struct err err = {0};
	struct waiter *list = NULL;
	struct fetch *t, *tmp;

	pthread_mutex_lock(&f->lock);
	f->closing = true;
	DL_FOREACH_SAFE (f->list, t, tmp) {
		struct waiter *more = unlist(t);

		DL_CONCAT(list, more);
		stop(t);
	}
	pthread_mutex_unlock(&f->lock);
	err_set(&err, ESHUTDOWN, "the daemon ends");
	finish(list, -ESHUTDOWN, &err);
	pool_free(f->pool);
	f->pool = NULL;
}
