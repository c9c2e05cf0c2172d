/* SPDX-License-Identifier: MIT */
/*
 * Lines of two sources, each in order of time, become one text: `TIME words` is the container's,
 * `TIME [event] key=value ...` is ours. The container's are any bytes. The newest text of a mount
 * is kept for a moment (c->lock), unless something has happened since: programs ask for the size
 * first.
 */
#include "sandbox/log.h"

#include "sandbox/internal.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIME_LEN   23 /* 2026-01-02T03:04:05.678 */
#define SECOND_LEN 19 /* of an engine that tells no part of a second */
#define KEPT_MS	   500
#define EVENTS_MIN 4096 /* room that an event may need */

struct log_cache {
	pthread_mutex_t lock;
	const struct sandbox *of; /* compared only; protected by lock, as all */
	uint64_t events;
	int64_t when_ms;
	struct buf text;
};

struct log_cache *log_cache_new(void)
{
	struct log_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	buf_init(&c->text, LOG_MAX);
	return c;
}

void log_cache_free(struct log_cache *c)
{
	if (!c)
		return;
	buf_fini(&c->text);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* One line: what is no text becomes a blank. */
static void put_text(struct buf *b, const char *s)
{
	for (; *s; s++) {
		char c = (unsigned char)*s < 0x20 || *s == 0x7f ? ' ' : *s;

		buf_append(b, &c, 1);
	}
}

/* Commands have files of their own, and would drown the rest. */
static bool is_shown(const struct event_line *l)
{
	return strncmp(l->event, "exec-", 5) != 0;
}

static void put_event(struct buf *b, const struct event_line *l)
{
	cJSON *json = cJSON_Parse(l->text), *v;
	const char *time = cJSON_GetStringValue(cJSON_GetObjectItem(json, "time"));

	if (!time) {
		cJSON_Delete(json);
		return;
	}
	buf_printf(b, "%s [%s]", time, l->event);
	cJSON_ArrayForEach (v, json) {
		const char *text = cJSON_GetStringValue(v);
		bool words = strcmp(v->string, "message") == 0 || strcmp(v->string, "line") == 0;

		if (strcmp(v->string, "time") == 0 || strcmp(v->string, "event") == 0 ||
			strcmp(v->string, "sandbox") == 0)
			continue;
		buf_puts(b, " ");
		if (!words)
			buf_printf(b, "%s=", v->string);
		if (text)
			put_text(b, text);
		else
			buf_printf(b, "%" PRId64, (int64_t)cJSON_GetNumberValue(v));
	}
	buf_puts(b, "\n");
	cJSON_Delete(json);
}

/* Where a line of the container's ends, its newline included. */
static size_t line_len(const uint8_t *p, size_t n)
{
	const uint8_t *end = memchr(p, '\n', n);

	return end ? (size_t)(end - p) + 1 : n;
}

/* The engine's times are longer than ours: 2026-01-02T03:04:05.678901234Z text. */
static void put_printed(struct buf *b, const uint8_t *p, size_t n)
{
	const uint8_t *text = memchr(p, ' ', n);

	if (n > TIME_LEN && text && text - p >= TIME_LEN) {
		buf_append(b, p, TIME_LEN);
		buf_puts(b, "Z");
		buf_append(b, text, n - (size_t)(text - p));
	} else {
		buf_append(b, p, n);
	}
	if (p[n - 1] != '\n')
		buf_puts(b, "\n");
}

/* How much of a line's time can be compared. */
static size_t time_len(const uint8_t *p, size_t n)
{
	return n > SECOND_LEN && p[SECOND_LEN] == 'Z' ? SECOND_LEN : TIME_LEN;
}

static const char *time_of(const struct event_line *l)
{
	return l->text + strlen("{\"time\":\"");
}

static void merge(const struct buf *printed, const struct events_view *v, struct buf *out)
{
	const struct event_line *l = events_view_line(v, 0);
	size_t at = 0, k = 0;

	while (l || at < printed->len) {
		const uint8_t *p = printed->data + at;
		size_t n = at < printed->len ? line_len(p, printed->len - at) : 0;

		size_t len = time_len(p, n);

		if (l && (!n || (n > len && memcmp(time_of(l), p, len) <= 0))) {
			if (is_shown(l) && out->len + EVENTS_MIN < out->max)
				put_event(out, l);
			l = events_view_line(v, ++k);
		} else {
			put_printed(out, p, n);
			at += n;
		}
	}
}

static void render(struct sandbox *sb, struct buf *out)
{
	struct registry *r = sb->registry;
	struct buf printed = {0};
	struct events_view *v;
	struct err err = {0};
	char *id, *name;

	pthread_mutex_lock(&sb->lock);
	id = strdup(sb->id);
	name = strdup(sb->name);
	pthread_mutex_unlock(&sb->lock);
	v = name ? events_view_new(r->events, name) : NULL;
	if (id && *id && r->engine->ops->logs &&
		r->engine->ops->logs(r->engine, id, LOG_CONTAINER_MAX, r->stop_fd, &printed, &err) <
			0)
		sandbox_error(sb, "log", "ctl/log", &err);
	if (v)
		merge(&printed, v, out);
	events_view_free(v);
	buf_fini(&printed);
	free(id);
	free(name);
}

static bool is_kept(struct log_cache *c, struct sandbox *sb, uint64_t events, struct buf *out)
{
	bool kept;

	pthread_mutex_lock(&c->lock);
	kept = c->of == sb && c->events == events && loop_now_ms() - c->when_ms < KEPT_MS;
	if (kept)
		buf_append(out, c->text.data, c->text.len);
	pthread_mutex_unlock(&c->lock);
	return kept;
}

void sandbox_log(struct sandbox *sb, struct buf *out)
{
	struct log_cache *c = sb->registry->log;
	uint64_t events = events_count(sb->registry->events);

	if (is_kept(c, sb, events, out))
		return;
	render(sb, out);
	pthread_mutex_lock(&c->lock);
	c->of = sb;
	c->events = events;
	c->when_ms = loop_now_ms();
	buf_reset(&c->text);
	buf_append(&c->text, out->data, out->len);
	pthread_mutex_unlock(&c->lock);
}
