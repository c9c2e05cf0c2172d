/* SPDX-License-Identifier: MIT */
/* What happened lately: the text of .sandboxfs/events, a line of JSON each. Any thread. */
#pragma once

#include "common/err.h"
#include "sandbox/event_line.h"

#define EVENTS_MAX 10000

struct events;
struct events_view;

/* audit: a file that gets a copy of each line, or NULL. */
int events_new(const char *audit, struct events **out, struct err *err);
/* Writes the audit file out, within some seconds. */
void events_free(struct events *e);

/* One line: time, event, sandbox (may be NULL), then the fields. Never waits for the audit file. */
void events_add(struct events *e, const char *event, const char *sandbox,
	const struct event_field *fields, size_t n);

/* How many bytes they are now; how many there ever were. */
size_t events_size(struct events *e);
uint64_t events_count(struct events *e);

/* The last EVENTS_MAX as they are now, oldest first; NULL: no memory. With a sandbox's name, only
 * what is told of that one: not of an earlier one by the name, and of earlier names of it. */
struct events_view *events_view_new(struct events *e, const char *sandbox);
void events_view_free(struct events_view *v);
size_t events_view_size(const struct events_view *v);
/* Copies up to `size` bytes at `off`; how many there were. */
size_t events_view_read(const struct events_view *v, size_t off, char *to, size_t size);
/* The lines one by one; NULL: no more. */
const struct event_line *events_view_line(const struct events_view *v, size_t k);
