/* SPDX-License-Identifier: MIT */
/* Takes what jobs print out of their pipes, in the order of the writes, into their stores. */
#pragma once

#include "agent/loop.h"
#include "agent/store.h"

struct output;

/* Starts the thread; before it is called outputs cannot be made. */
int output_init(void);

/* A job's output into dir_fd (taken over). *out and *err: what the command writes to; the caller's,
 * to be closed after the fork. NULL: *error is a negative errno. */
struct output *output_new(int dir_fd, int *out, int *err, int *error);

/* The same for a terminal: its master (a copy is made) gives what there is, as stdout. */
struct output *output_new_terminal(int dir_fd, int master, int *error);

/* What has been written by now is stored, then done is posted to the loop. */
void output_drain(struct output *o, struct post *done);

/* Drops the caller's count. With stop, what comes from now on is thrown away; else it is stored as
 * long as somebody has the pipes open. */
void output_put(struct output *o, bool stop);

/* No stream of it keeps more than that many bytes from now on. */
void output_limit(struct output *o, uint64_t keep);
/* Nobody can print into it any more, and all is stored. */
bool output_is_over(struct output *o);
/* Posts p to the loop, once, when all jobs together have printed some more megabytes. */
void output_on_growth(struct post *p);
/* Posts p to the loop, once, when one of those that are watched has printed anything; that one is
 * then watched no more. What came before output_watch() is not told of: look after it. */
void output_on_more(struct post *p);
void output_watch(struct output *o);

void output_get(struct output *o, struct store_info *info);
