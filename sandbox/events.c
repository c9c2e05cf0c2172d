/* SPDX-License-Identifier: MIT */
/* A ring of counted lines; e->lock guards it. A view holds the lines that it shows, so that nothing
 * is copied for an open, and a line is freed when neither the ring nor a view has it. */
#include "sandbox/events.h"

#include "sandbox/audit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct events {
	struct audit *audit; /* or NULL */
	pthread_mutex_t lock;
	struct event_line *ring[EVENTS_MAX]; /* protected by lock, as the next */
	size_t next, bytes;
	uint64_t count;
};

struct events_view {
	size_t n;
	struct shown {
		struct event_line *line;
		size_t end; /* the offset behind it */
	} shown[];
};

int events_new(const char *audit, struct events **out, struct err *err)
{
	struct events *e = calloc(1, sizeof(*e));
	int r = 0;

	if (!e)
		return err_set(err, ENOMEM, "no memory for the events");
	if (audit)
		r = audit_new(audit, &e->audit, err);
	if (r < 0) {
		free(e);
		return r;
	}
	pthread_mutex_init(&e->lock, NULL);
	*out = e;
	return 0;
}

void events_free(struct events *e)
{
	if (!e)
		return;
	audit_free(e->audit);
	for (size_t k = 0; k < EVENTS_MAX; k++)
		event_line_put(e->ring[k]);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

void events_add(struct events *e, const char *event, const char *sandbox,
	const struct event_field *fields, size_t n)
{
	struct event_line *l = event_line_new(event, sandbox, fields, n), *old;

	if (!l)
		return;
	pthread_mutex_lock(&e->lock);
	old = e->ring[e->next];
	e->ring[e->next] = l;
	e->next = (e->next + 1) % EVENTS_MAX;
	e->count++;
	e->bytes += l->len - (old ? old->len : 0);
	if (e->audit) /* under the lock: in the same order */
		audit_add(e->audit, l);
	pthread_mutex_unlock(&e->lock);
	event_line_put(old);
}

size_t events_size(struct events *e)
{
	size_t bytes;

	pthread_mutex_lock(&e->lock);
	bytes = e->bytes;
	pthread_mutex_unlock(&e->lock);
	return bytes;
}

uint64_t events_count(struct events *e)
{
	uint64_t count;

	pthread_mutex_lock(&e->lock);
	count = e->count;
	pthread_mutex_unlock(&e->lock);
	return count;
}

/* From the newest to the oldest: a sandbox's life begins where its name was given to it. False:
 * what is older is another's. */
static bool concerns(const struct event_line *l, const char **name, bool *shown)
{
	bool same = strcmp(l->sandbox, *name) == 0;

	*shown = same;
	if (strcmp(l->event, "renamed") == 0 && strcmp(l->to, *name) == 0) {
		*shown = true;
		*name = l->sandbox;
	} else if (same && strcmp(l->event, "removed") == 0) {
		*shown = false;
		return false;
	} else if (same && (strcmp(l->event, "created") == 0 || *l->to)) {
		*shown = strcmp(l->event, "created") == 0;
		return false;
	}
	return true;
}

/* With the lock held. */
static void pick(struct events *e, struct events_view *v, const char *sandbox)
{
	const char *name = sandbox;
	bool shown = true, more = true;

	for (size_t k = 1; k <= EVENTS_MAX && more; k++) {
		struct event_line *l = e->ring[(e->next + EVENTS_MAX - k) % EVENTS_MAX];

		if (!l)
			break;
		if (sandbox)
			more = concerns(l, &name, &shown);
		if (shown)
			v->shown[v->n++].line = event_line_get(l);
	}
}

struct events_view *events_view_new(struct events *e, const char *sandbox)
{
	struct events_view *v = malloc(sizeof(*v) + EVENTS_MAX * sizeof(v->shown[0])), *fitted;
	size_t end = 0;

	if (!v)
		return NULL;
	v->n = 0;
	pthread_mutex_lock(&e->lock);
	pick(e, v, sandbox);
	pthread_mutex_unlock(&e->lock);
	for (size_t k = 0; k < v->n / 2; k++) {
		struct event_line *l = v->shown[k].line;

		v->shown[k].line = v->shown[v->n - 1 - k].line;
		v->shown[v->n - 1 - k].line = l;
	}
	for (size_t k = 0; k < v->n; k++)
		v->shown[k].end = end += v->shown[k].line->len;
	fitted = realloc(v, sizeof(*v) + v->n * sizeof(v->shown[0]));
	return fitted ? fitted : v;
}

void events_view_free(struct events_view *v)
{
	for (size_t k = 0; v && k < v->n; k++)
		event_line_put(v->shown[k].line);
	free(v);
}

size_t events_view_size(const struct events_view *v)
{
	return v->n ? v->shown[v->n - 1].end : 0;
}

const struct event_line *events_view_line(const struct events_view *v, size_t k)
{
	return k < v->n ? v->shown[k].line : NULL;
}

/* The first line that ends behind off. */
static size_t find(const struct events_view *v, size_t off)
{
	size_t low = 0, high = v->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (v->shown[mid].end > off)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

size_t events_view_read(const struct events_view *v, size_t off, char *to, size_t size)
{
	size_t got = 0;

	for (size_t k = find(v, off); k < v->n && got < size; k++) {
		const struct event_line *l = v->shown[k].line;
		size_t at = l->len - (v->shown[k].end - (off + got));
		size_t n = l->len - at < size - got ? l->len - at : size - got;

		memcpy(to + got, l->text + at, n);
		got += n;
	}
	return got;
}
