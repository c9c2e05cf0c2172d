/* SPDX-License-Identifier: MIT */
/*
 * The tables of sandboxes (r->lock), and the thread that follows the engine's events. The engine is
 * the truth: what it lists is shown, what it no longer has is dropped.
 */
#include "sandbox/internal.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IO_THREADS	 2
#define LIFECYCLE_MAX	 32
#define RELIST_FAST_MS	 100
#define RELIST_SLOW_MS	 1000
#define RELIST_ANYWAY_MS 60000 /* the engine forgets events when there are many */

struct report *registry_report(struct registry *r)
{
	return r->report;
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
	free(text);
}

int registry_defer(struct registry *r, void (*fn)(void *arg), void *arg)
{
	return pool_run(r->pool, fn, arg);
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

void registry_drop(struct registry *r, struct sandbox *sb, bool keep_name)
{
	struct call *waiting;
	bool was;

	pthread_mutex_lock(&r->lock);
	was = untable(r, sb, keep_name);
	pthread_mutex_unlock(&r->lock);
	pthread_mutex_lock(&sb->lock);
	sb->removed = true;
	waiting = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(waiting, ENOENT, "the sandbox was removed");
	lifecycle_unlink(sb);
	if (was)
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
	char *copy = strdup(name);

	if (!copy)
		return;
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

/* With sb->lock held: the engine's state becomes ours, unless a lifecycle thread is at work. */
static void take_state(struct sandbox *sb, const struct engine_box *box, struct err *died)
{
	bool ended = box->state == ENGINE_EXITED || box->state == ENGINE_CREATED;

	if (sb->busy)
		return;
	if (ended && sb->state == SANDBOX_FAILED)
		return; /* it could not come up, and says why */
	sb->held = (box->mark == ENGINE_MARK_PAUSED && box->state == ENGINE_PAUSED) ||
		   (box->mark == ENGINE_MARK_STOPPED && ended);
	if (box->state == ENGINE_PAUSED) {
		sb->state = SANDBOX_PAUSED;
	} else if (box->state == ENGINE_RUNNING) {
		if (sb->state != SANDBOX_FAILED)
			sb->state = SANDBOX_RUNNING;
	} else if (ended) {
		if (box->detailed && !sb->held && box->state == ENGINE_EXITED &&
			sb->state == SANDBOX_RUNNING)
			err_set(died, EIO, "the container ended with exit code %d%s%s%s",
				box->exit_code, box->oom ? " (OOM-killed)" : "",
				*box->error ? ": " : "", box->error);
		sb->state = SANDBOX_STOPPED;
	}
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
};

static void remove_leftover(void *arg)
{
	struct leftover *l = arg;
	struct err err = {0};

	if (l->r->engine->ops->remove(l->r->engine, l->id, &err) < 0)
		log_warn("cannot remove a left-over container: %s", err.msg);
	free(l->id);
	free(l);
}

/* A container that a daemon renamed out of the way and had no time to remove. */
static void finish_removal(struct registry *r, const char *id)
{
	struct leftover *l = malloc(sizeof(*l));

	if (!l)
		return;
	*l = (struct leftover){.r = r, .id = strdup(id)};
	if (!l->id || pool_run(r->pool, remove_leftover, l) < 0) {
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
		registry_drop(r, sb, false);
	if (sb)
		sandbox_put(sb);
	else if (box->mark == ENGINE_MARK_REMOVING && box->state != ENGINE_GONE)
		finish_removal(r, box->id);
}

void registry_apply(struct registry *r, const struct engine_box *box)
{
	struct err died = {0};
	struct sandbox *sb;
	bool kick;

	if (box->mark == ENGINE_MARK_REMOVING || box->state == ENGINE_GONE) {
		apply_gone(r, box);
		return;
	}
	pthread_mutex_lock(&r->lock);
	sb = adopt(r, box);
	if (sb)
		sb->seen = r->listing;
	pthread_mutex_unlock(&r->lock);
	if (!sb)
		return;
	pthread_mutex_lock(&sb->lock);
	replace(&sb->template, box->template);
	replace(&sb->config, box->config);
	replace(&sb->image_id, box->image_id);
	sb->created = box->created ? box->created : sb->created;
	take_state(sb, box, &died);
	kick = sb->waiting && !sb->busy && !sb->held && box->state != ENGINE_PAUSED;
	sb->busy |= kick;
	pthread_mutex_unlock(&sb->lock);
	if (died.code)
		sandbox_error(sb, "run", "", &died);
	if (kick)
		lifecycle_bring_up(sb);
	sandbox_put(sb);
}

static void changed(void *arg, const char *id)
{
	struct registry *r = arg;
	struct engine_box box = {0};
	struct sandbox *sb;
	struct err err = {0};
	int got = r->engine->ops->inspect(r->engine, id, &box, &err);

	if (got == 0) {
		registry_apply(r, &box);
		engine_box_fini(&box);
		return;
	}
	if (got != -ENOENT)
		return; /* the next listing will tell */
	pthread_mutex_lock(&r->lock);
	HASH_FIND(by_id, r->ids, id, strlen(id), sb);
	if (sb)
		sandbox_get(sb);
	pthread_mutex_unlock(&r->lock);
	if (sb) {
		registry_drop(r, sb, false);
		sandbox_put(sb);
	}
}

struct listed {
	struct registry *r;
	char **ended; /* ids of which the listing does not say why they ended */
	size_t n;
};

static void list_one(void *arg, const struct engine_box *box)
{
	struct listed *l = arg;

	if (box->state == ENGINE_EXITED && box->mark == ENGINE_MARK_NONE && !box->detailed) {
		char **more = realloc(l->ended, (l->n + 1) * sizeof(*more));

		if (more) {
			l->ended = more;
			l->ended[l->n] = strdup(box->id);
			l->n += l->ended[l->n] != NULL;
		}
	}
	registry_apply(l->r, box);
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
		registry_drop(r, victim, false);
		sandbox_put(victim);
	}
}

static int relist(struct registry *r, struct err *err)
{
	struct listed l = {.r = r};
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
			changed(r, l.ended[i]);
		free(l.ended[i]);
	}
	free(l.ended);
	return got;
}

static void up(void *arg)
{
	struct registry *r = arg;
	struct err err = {0};

	if (relist(r, &err) < 0)
		log_info("cannot list the sandboxes: %s", err.msg);
}

/* The lock keeps registry_close from freeing the pool meanwhile. */
static void relist_anyway(void *arg)
{
	struct registry *r = arg;

	pthread_mutex_lock(&r->lock);
	if (!r->closing) {
		pool_run(r->pool, up, r);
		loop_after(r->loop, RELIST_ANYWAY_MS, relist_anyway, r);
	}
	pthread_mutex_unlock(&r->lock);
}

static void *watch_engine(void *arg)
{
	struct registry *r = arg;
	struct engine_watcher w = {.up = up, .changed = changed, .arg = r, .stop_fd = r->stop_fd};
	struct pollfd stop = {.fd = r->stop_fd, .events = POLLIN};
	int wait_ms = RELIST_FAST_MS;

	for (;;) {
		struct err err = {0};
		int got = r->engine->ops->watch(r->engine, &w, &err);

		if (got < 0)
			log_info("the engine's events ended: %s", err.msg);
		if (poll(&stop, 1, wait_ms) > 0)
			return NULL;
		wait_ms = got == -EHOSTDOWN ? RELIST_SLOW_MS / 2 : RELIST_FAST_MS;
	}
}

static int copy_config(struct registry *r, const struct registry_config *c)
{
	size_t n = 0;

	r->namespace = strdup(c->namespace);
	r->image = c->image ? strdup(c->image) : NULL;
	r->max_sandboxes = c->max_sandboxes;
	while (c->template_dirs && c->template_dirs[n])
		n++;
	r->template_dirs = calloc(n + 1, sizeof(char *));
	if (!r->namespace || (c->image && !r->image) || !r->template_dirs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		r->template_dirs[i] = strdup(c->template_dirs[i]);
		if (!r->template_dirs[i])
			return -ENOMEM;
	}
	return 0;
}

static void destroy(struct registry *r)
{
	if (r->stop_fd >= 0)
		close(r->stop_fd);
	report_free(r->report);
	r->engine->ops->close(r->engine);
	for (char **d = r->template_dirs; d && *d; d++)
		free(*d);
	free(r->template_dirs);
	free(r->namespace);
	free(r->image);
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
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->links_gone, NULL);
	r->report = report_new();
	r->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (copy_config(r, config) < 0 || !r->report || r->stop_fd < 0 ||
		loop_new(IO_THREADS, &r->loop) < 0 || pool_new(LIFECYCLE_MAX, &r->pool) < 0) {
		loop_free(r->loop);
		destroy(r);
		return err_set(err, ENOMEM, "cannot start the daemon's threads");
	}
	got = relist(r, err);
	if (got == 0 && pthread_create(&r->watcher, NULL, watch_engine, r) != 0)
		got = err_set(err, EAGAIN, "cannot start the daemon's threads");
	if (got < 0) {
		pool_free(r->pool);
		loop_free(r->loop);
		destroy(r);
		return got;
	}
	loop_after(r->loop, RELIST_ANYWAY_MS, relist_anyway, r);
	*out = r;
	return 0;
}

static void end_all(struct registry *r, bool remove_all)
{
	struct sandbox *sb;

	for (;;) {
		struct err err = {0};
		bool made;

		pthread_mutex_lock(&r->lock);
		sb = r->names;
		if (sb)
			sandbox_get(sb);
		pthread_mutex_unlock(&r->lock);
		if (!sb)
			return;
		pthread_mutex_lock(&sb->lock);
		made = *sb->id;
		pthread_mutex_unlock(&sb->lock);
		if (remove_all && made && r->engine->ops->remove(r->engine, sb->id, &err) < 0)
			sandbox_error(sb, "remove", "", &err);
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
	pool_free(r->pool); /* what was begun in the engine is finished */
	end_all(r, false);  /* what that brought */
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
