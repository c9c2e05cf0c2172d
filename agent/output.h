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

/* What has been written by now is stored, then done is posted to the loop. */
void output_drain(struct output *o, struct post *done);

/* Drops the caller's count. With stop, what comes from now on is thrown away; else it is stored as
 * long as somebody has the pipes open. */
void output_put(struct output *o, bool stop);

void output_get(struct output *o, struct store_info *info);
