/* SPDX-License-Identifier: MIT */
/* Threads for what may block: engine calls. They are made as they are needed, up to a bound, so
 * that a pull of ten minutes in one sandbox does not delay a removal in another. */
#pragma once

struct pool;

int pool_new(unsigned max_threads, struct pool **out);
/* Waits for all tasks, ends the threads. */
void pool_free(struct pool *p);

/* Runs fn(arg) in one of the threads. -ENOMEM, -EAGAIN: not queued. */
int pool_run(struct pool *p, void (*fn)(void *arg), void *arg);
