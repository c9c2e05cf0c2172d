/* SPDX-License-Identifier: MIT */
/* One event as a line of JSON. Never changed after it was made, counted, at most EVENT_LINE_MAX
 * bytes. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EVENT_LINE_MAX 4096 /* with its newline: what a pipe takes as one */

/* key: letters. text: any bytes, NULL: the number, whose last `decimals` digits stand behind the
 * point. */
struct event_field {
	const char *key;
	const char *text;
	int64_t number;
	unsigned decimals;
};

struct event_line {
	_Atomic unsigned refs;
	const char *event, *sandbox; /* "": none */
	const char *to;		     /* of "renamed": the new name; else "" */
	size_t len;
	char *text; /* with a newline */
};

/* Time (now), event, sandbox (NULL: none), then the fields. What is too long is cut, with "..." for
 * the rest; what is no UTF-8 becomes U+FFFD. NULL: no memory. */
struct event_line *event_line_new(
	const char *event, const char *sandbox, const struct event_field *fields, size_t n);
struct event_line *event_line_get(struct event_line *l);
void event_line_put(struct event_line *l);
