/* SPDX-License-Identifier: MIT */
/* A command's live standard input: a pipe or a terminal that goes on after its start. */
#pragma once

#include "agent/conn.h"

struct input;

/* Into fd (non-blocking) go first the bytes of file_fd (-1: none), then, with end, its end. Both
 * are taken over. NULL: no memory. */
struct input *input_new(int fd, int file_fd, bool terminal, bool end);
/* Closes it; who waits gets EPIPE. in may be NULL. */
void input_free(struct input *in);

/* A JOB_STDIN of n bytes, perhaps the last ones. Answers with how many were taken, or PARKED. */
int input_write(struct input *in, struct request *r, const uint8_t *p, size_t n, bool end);

/* Answers (EINTR, or what was taken by then) those of a connection, of one id unless it is 0. */
void input_cancel(struct input *in, const struct conn *c, uint64_t id);

/* A terminal's size; -ENOTTY if it is none. */
int input_resize(const struct input *in, unsigned columns, unsigned rows);
