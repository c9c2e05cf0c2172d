/* SPDX-License-Identifier: MIT */
/*
 * Each job that runs has a call of ours with its agent, answered when it has ended. t->lock guards
 * the list; a call is sent without it. A call that fails because there is no connection is sent
 * again when there is one; of a job whose sandbox has gone nothing more will be known.
 */
#include "fs/trail.h"

#include "fs/op.h"
#include "fs/seen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define WATCHED_MAX 2048u /* jobs of a sandbox; more than an honest one runs */
#define LISTED_MAX  4096u

struct trail {
	struct registry *registry;
	pthread_mutex_t lock;
	struct watched *jobs; /* protected by lock, as the next */
	bool stop;
};

struct watched {
	struct call call;
	struct trail *t;
	struct sandbox *sb; /* a reference */
	uint64_t job;
	char name[PROTO_NAME_MAX + 1];
	bool out; /* the call is under way; protected by t->lock */
	struct watched *prev, *next, *also;
};

struct trail *trail_new(struct registry *r)
{
	struct trail *t = calloc(1, sizeof(*t));

	if (t) {
		t->registry = r;
		pthread_mutex_init(&t->lock, NULL);
	}
	return t;
}

static void watched_free(struct watched *w)
{
	call_fini(&w->call);
	sandbox_put(w->sb);
	free(w);
}

void trail_stop(struct trail *t)
{
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_mutex_unlock(&t->lock);
}

void trail_free(struct trail *t)
{
	struct watched *w, *tmp;

	if (!t)
		return;
	DL_FOREACH_SAFE (t->jobs, w, tmp) {
		DL_DELETE(t->jobs, w);
		watched_free(w);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

struct trail_text *trail_copy(const struct trail_text *x)
{
	struct trail_text *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *x;
	return copy;
}

void trail_op_free(struct op *op)
{
	free(op->data);
}

void trail_write(struct trail_text *x, uint64_t at, const void *data, size_t n)
{
	const char *p = data;

	if (at + n > x->size)
		x->size = at + n;
	if (at > x->len || at >= TRAIL_HEAD)
		return; /* not the beginning */
	if (n > TRAIL_HEAD - at)
		n = TRAIL_HEAD - (size_t)at;
	for (size_t k = 0; k < n; k++)
		x->head[at + k] = p[k] ? p[k] : ' '; /* between the arguments of argv */
	if (at + n > x->len)
		x->len = (size_t)at + n;
}

static bool is_gone(struct sandbox *sb)
{
	struct sandbox_info info;

	sandbox_numbers(sb, &info);
	return info.removed;
}

/* Nobody did anything wrong by file operations, but the sandbox came to its limit: say so where its
 * failures are looked for. The answer to the writer's own wait comes after this. */
static void tell_oom(struct watched *w)
{
	char path[sizeof("ctl/jobs/") + PROTO_NAME_MAX];
	struct err err;

	snprintf(path, sizeof(path), "ctl/jobs/%s", w->name);
	err_set(&err, ENOMEM, "OOM: a process of job %s was killed, for the sandbox's memory.max",
		w->name);
	sandbox_error(w->sb, "exec", path, &err);
}

/* j: how it ended; NULL: that will never be known. */
static void tell_end(struct watched *w, const struct proto_job *j)
{
	const struct proto_job lost = {.result = PROTO_RESULT_LOST, .exit_code = -1};
	struct event_field f[4] = {{.key = "job", .text = w->name}};
	struct sandbox_info info;
	size_t n = 1;

	if (sandbox_info(w->sb, &info) < 0)
		return;
	if (!j)
		j = &lost;
	f[n++] = (struct event_field){.key = "result", .text = proto_result_name(j->result)};
	if (j->exit_code >= 0)
		f[n++] = (struct event_field){.key = "exit_code", .number = j->exit_code};
	if (j->result != PROTO_RESULT_LOST)
		f[n++] = (struct event_field){.key = "wall_seconds",
			.number = (int64_t)(j->wall_us / 1000),
			.decimals = 3};
	events_add(registry_events(w->t->registry), "exec-end", info.name, f, n);
	sandbox_info_fini(&info);
	if (j->result == PROTO_RESULT_OOM_KILL)
		tell_oom(w);
}

/* It is the caller's from now on. */
static void unlist(struct watched *w)
{
	pthread_mutex_lock(&w->t->lock);
	DL_DELETE(w->t->jobs, w);
	pthread_mutex_unlock(&w->t->lock);
}

static bool ended(struct call *c, int r, struct wire_in *body)
{
	struct watched *w = (struct watched *)c;
	struct trail *t = w->t;
	struct proto_job j = {0};
	bool ok = true, stop, over;

	if (r == 0) {
		proto_get_job(body, &j);
		ok = wire_end(body) && j.job == w->job && j.result > PROTO_RESULT_RUNNING;
	}
	over = (r == 0 && ok) || r == -ENOENT || is_gone(w->sb);
	pthread_mutex_lock(&t->lock);
	stop = t->stop;
	w->out = over && !stop; /* or somebody else would take it, and free it too */
	pthread_mutex_unlock(&t->lock);
	if (over && !stop) {
		unlist(w);
		tell_end(w, r == 0 && ok ? &j : NULL);
		watched_free(w);
	}
	proto_job_fini(&j);
	return ok;
}

/* Asks for the end, if there is a connection; else it is asked for later. */
static void ask_end(struct watched *w)
{
	call_fini(&w->call);
	call_begin(&w->call, PROTO_JOB_WAIT, 0, 0);
	w->call.as_user = w->call.repeat = w->call.patient = true;
	w->call.done = ended;
	wire_u64(&w->call.frame, w->job);
	wire_u8(&w->call.frame, 0);
	if (sandbox_call_linked(w->sb, &w->call) < 0) {
		pthread_mutex_lock(&w->t->lock);
		w->out = false;
		pthread_mutex_unlock(&w->t->lock);
	}
}

static void watch(struct trail *t, struct sandbox *sb, uint64_t job, const char *name)
{
	struct watched *w = calloc(1, sizeof(*w)), *other, *same = NULL;
	unsigned n = 0;

	if (!w)
		return;
	w->t = t;
	w->sb = sb;
	sandbox_get(sb);
	w->job = job;
	w->out = true;
	memcpy(w->name, name, strnlen(name, PROTO_NAME_MAX));
	pthread_mutex_lock(&t->lock);
	DL_FOREACH (t->jobs, other) {
		n += other->sb == sb;
		if (other->sb == sb && other->job == job)
			same = other;
	}
	if (!same && n < WATCHED_MAX && !t->stop) {
		DL_APPEND(t->jobs, w);
		pthread_mutex_unlock(&t->lock);
		ask_end(w);
		return;
	}
	pthread_mutex_unlock(&t->lock);
	watched_free(w);
}

/* Those that wait for a connection, and that this concerns: its sandbox has one, or has gone. As if
 * under way from now on; linked by `also`. */
static struct watched *take_idle(struct trail *t, struct sandbox *up)
{
	struct watched *w, *list = NULL;

	pthread_mutex_lock(&t->lock);
	DL_FOREACH (t->jobs, w) {
		if (w->out || t->stop || (w->sb != up && !is_gone(w->sb)))
			continue;
		w->out = true;
		w->also = list;
		list = w;
	}
	pthread_mutex_unlock(&t->lock);
	return list;
}

static void sweep(struct trail *t, struct sandbox *up)
{
	struct watched *next;

	for (struct watched *w = take_idle(t, up); w; w = next) {
		next = w->also;
		if (is_gone(w->sb)) {
			unlist(w);
			tell_end(w, NULL);
			watched_free(w);
		} else {
			ask_end(w);
		}
	}
}

void trail_started(struct inode *i, uint64_t job, const struct trail_text *x)
{
	const struct trail_text nothing = {0};
	struct trail *t = i->fs->trail;
	char name[PROTO_NAME_MAX + 1], command[TRAIL_HEAD + 4];
	struct event_field f[4] = {
		{.key = "job", .text = name}, {.key = "command", .text = command}};
	struct sandbox_info info;

	if (!x)
		x = &nothing;
	f[2] = (struct event_field){.key = "uid", .number = x->uid};
	f[3] = (struct event_field){.key = "pid", .number = x->pid};
	memcpy(command, x->head, x->len);
	memcpy(command + x->len, x->size > x->len ? "..." : "", x->size > x->len ? 4 : 1);
	seen_name(itable_seen(i->table), job, name, sizeof(name));
	if (sandbox_info(i->sb, &info) == 0) {
		events_add(registry_events(t->registry), "exec-start", info.name, f, 4);
		sandbox_info_fini(&info);
	}
	watch(t, i->sb, job, name);
	sweep(t, NULL);
}

/* Jobs that run already: a daemon that was killed started them, or the template. One after another
 * is asked for. */
struct survey {
	struct call call;
	struct trail *t;
	struct seen *seen;
	struct sandbox *sb; /* a reference: what was seen goes with it */
	uint64_t *jobs;
	size_t n, at;
};

static bool surveyed(struct call *c, int r, struct wire_in *body);

/* Takes it. */
static void survey_send(struct survey *s, uint16_t type)
{
	call_fini(&s->call);
	call_begin(&s->call, type, 0, 0);
	s->call.as_user = s->call.repeat = true;
	s->call.done = surveyed;
	if (type == PROTO_JOB_INFO)
		wire_u64(&s->call.frame, s->jobs[s->at]);
	if (sandbox_call_linked(s->sb, &s->call) < 0)
		surveyed(&s->call, -EAGAIN, NULL);
}

static bool read_list(struct survey *s, struct wire_in *body)
{
	bool foreground = false;

	while (!body->bad && body->p < body->end) {
		uint64_t job = wire_get_u64(body);
		char *name = proto_get_name(body);
		uint64_t *more =
			s->n < LISTED_MAX ? realloc(s->jobs, (s->n + 1) * sizeof(job)) : NULL;

		free(name);
		if (!more)
			return false;
		s->jobs = more;
		s->jobs[s->n++] = job;
		foreground |= job < PROTO_JOB_MAIN;
	}
	if (wire_end(body) && !foreground)
		seen_none(s->seen);
	return wire_end(body);
}

static bool read_info(struct survey *s, struct wire_in *body)
{
	struct proto_job j;
	bool ok;

	proto_get_job(body, &j);
	ok = wire_end(body) && j.job == s->jobs[s->at];
	if (ok)
		seen_job(s->seen, &j);
	if (ok && j.result == PROTO_RESULT_RUNNING)
		watch(s->t, s->sb, j.job, j.name);
	proto_job_fini(&j);
	s->at++;
	return ok;
}

static bool surveyed(struct call *c, int r, struct wire_in *body)
{
	struct survey *s = (struct survey *)c;
	bool ok = true;

	if (r == 0)
		ok = c->type == PROTO_JOB_LIST ? read_list(s, body) : read_info(s, body);
	else if (r == -ENOENT && c->type == PROTO_JOB_INFO)
		s->at++; /* it has gone meanwhile */
	else
		ok = false;
	if (ok && s->at < s->n) {
		survey_send(s, PROTO_JOB_INFO);
		return true;
	}
	call_fini(&s->call);
	sandbox_put(s->sb);
	free(s->jobs);
	free(s);
	return ok || r < 0;
}

void trail_up(struct fs *fs, struct itable *table, struct sandbox *sb, bool first)
{
	struct trail *t = fs->trail;
	struct survey *s = first ? calloc(1, sizeof(*s)) : NULL;

	sweep(t, sb);
	if (!s)
		return;
	s->t = t;
	s->seen = itable_seen(table);
	s->sb = sb;
	sandbox_get(sb);
	survey_send(s, PROTO_JOB_LIST);
}
