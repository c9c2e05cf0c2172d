/* SPDX-License-Identifier: MIT */
/* Written into a fixed room: each text gets what is left after the least that the fields behind it
 * need, so that one long command cuts nothing but itself. */
#include "sandbox/event_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAME	 6  /* ,"": and the quotes of a text */
#define NUMBER	 32 /* the longest, and its decimals */
#define LEAST	 96 /* room that a text has in any case, if it needs it */
#define NAME_MAX 256
#define MARK	 "..."
#define ESCAPED	 6 /* \u0000: the longest that a byte becomes */

struct room {
	char text[EVENT_LINE_MAX + 1];
	size_t len;
};

/* How many bytes make the UTF-8 character at p (which ends with a NUL): 0, if they make none. */
static size_t utf8_length(const unsigned char *p)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] > 0xf4)
		return 0;
	for (size_t k = 1; k < n; k++)
		if ((p[k] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || /* surrogates */
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* One character of text, escaped, into out; how many bytes of text that was. */
static size_t escape(const unsigned char *p, char out[ESCAPED + 1])
{
	static const char short_ones[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	size_t n = utf8_length(p);

	for (const char *s = short_ones; *s; s += 2) {
		if (*p == (unsigned char)*s) {
			snprintf(out, ESCAPED + 1, "\\%c", s[1]);
			return 1;
		}
	}
	if (*p < 0x20 || *p == 0x7f) {
		snprintf(out, ESCAPED + 1, "\\u%04x", *p);
	} else if (n) {
		memcpy(out, p, n);
		out[n] = 0;
	} else {
		snprintf(out, ESCAPED + 1, "\\ufffd");
	}
	return n ? n : 1;
}

static void put(struct room *r, const char *s, size_t n)
{
	if (n <= EVENT_LINE_MAX - r->len) {
		memcpy(r->text + r->len, s, n);
		r->len += n;
	}
}

/* At most `most` bytes between the quotes. */
static void put_text(struct room *r, const char *s, size_t most)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t from = r->len, fits = r->len; /* fits: up to where the mark would still go in */
	char out[ESCAPED + 1];

	while (*p) {
		size_t step = escape(p, out), n = strlen(out);

		if (r->len - from + n > most) {
			r->len = fits;
			put(r, MARK, strlen(MARK));
			break;
		}
		put(r, out, n);
		p += step;
		if (r->len - from + strlen(MARK) <= most)
			fits = r->len;
	}
}

/* The least that a field needs. */
static size_t need(const struct event_field *f)
{
	size_t n = f->text ? strnlen(f->text, LEAST) * ESCAPED : NUMBER;

	return FRAME + strlen(f->key) + (n < LEAST ? n : LEAST);
}

static void put_field(struct room *r, const struct event_field *f, size_t most)
{
	char number[NUMBER + 1];
	int64_t unit = 1;

	put(r, ",\"", 2);
	put(r, f->key, strlen(f->key));
	put(r, "\":", 2);
	if (!f->text) {
		for (unsigned k = 0; k < f->decimals; k++)
			unit *= 10;
		snprintf(number, sizeof(number), "%" PRId64, f->number / unit);
		put(r, number, strlen(number));
		if (f->decimals) {
			snprintf(number, sizeof(number), ".%0*lld", (int)f->decimals,
				llabs(f->number % unit));
			put(r, number, strlen(number));
		}
		return;
	}
	put(r, "\"", 1);
	put_text(r, f->text, most);
	put(r, "\"", 1);
}

static void put_time(struct room *r)
{
	char text[64];
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(text, sizeof(text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03ldZ\"", now.tv_nsec / 1000000);
	put(r, text, strlen(text));
}

/* Fields for which there is no room, which no caller has, are left out. */
static void render(struct room *r, const char *event, const char *sandbox,
	const struct event_field *fields, size_t n)
{
	struct event_field head[] = {
		{.key = "event", .text = event}, {.key = "sandbox", .text = sandbox}};
	size_t end = strlen("}\n"), rest = end;

	put_time(r);
	put_field(r, &head[0], LEAST);
	if (sandbox)
		put_field(r, &head[1], NAME_MAX * ESCAPED);
	for (size_t k = 0; k < n; k++)
		rest += need(&fields[k]);
	for (size_t k = 0; k < n; k++) {
		size_t frame = FRAME + strlen(fields[k].key), left = EVENT_LINE_MAX - r->len;

		rest -= need(&fields[k]);
		if (left >= rest + need(&fields[k]))
			put_field(r, &fields[k], left - rest - frame);
	}
	put(r, "}\n", end);
}

static char *copy(char **at, const char *s)
{
	char *to = *at;
	size_t n = strlen(s) + 1;

	memcpy(to, s, n);
	*at += n;
	return to;
}

struct event_line *event_line_new(
	const char *event, const char *sandbox, const struct event_field *fields, size_t n)
{
	const char *box = sandbox ? sandbox : "", *to = "";
	struct room r = {.len = 0};
	struct event_line *l;
	char *at;

	for (size_t k = 0; k < n && strcmp(event, "renamed") == 0; k++)
		if (fields[k].text && strcmp(fields[k].key, "to") == 0)
			to = fields[k].text;
	render(&r, event, sandbox, fields, n);
	r.text[r.len] = 0;
	l = malloc(sizeof(*l) + r.len + strlen(event) + strlen(box) + strlen(to) + 4);
	if (!l)
		return NULL;
	at = (char *)(l + 1);
	l->refs = 1;
	l->len = r.len;
	l->text = copy(&at, r.text);
	l->event = copy(&at, event);
	l->sandbox = copy(&at, box);
	l->to = copy(&at, to);
	return l;
}

struct event_line *event_line_get(struct event_line *l)
{
	l->refs++;
	return l;
}

void event_line_put(struct event_line *l)
{
	if (l && --l->refs == 0)
		free(l);
}
