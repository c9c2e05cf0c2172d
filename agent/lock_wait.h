/* SPDX-License-Identifier: MIT */
/* A lock that has to wait: a thread that blocks for it, until it has it or is told to stop. */
#pragma once

#include "agent/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#define LOCK_WAITS_MAX 256

/* Embed it; it and fd are the caller's until done(). */
struct lock_wait {
	struct post post;
	int fd;
	int flock_op;	    /* LOCK_SH or LOCK_EX; 0: range is meant */
	struct flock range; /* for F_OFD_SETLKW */
	/* On the loop's thread. error: 0 it is locked, EINTR it was stopped before. */
	void (*done)(struct lock_wait *w, int error);

	/* Private. */
	struct lock_wait *next; /* of those that were told to stop; the loop's */
	pthread_t thread;
	atomic_bool stop;
	bool stopping; /* in that list; the loop's */
	int error;     /* the thread's until it has posted */
};

/* All on the loop's thread. init: before any other thread is there. */
int lock_wait_init(void);
/* -EBUSY: there are LOCK_WAITS_MAX; else what pthread_create says. */
int lock_wait_start(struct lock_wait *w);
unsigned lock_wait_count(void);
void lock_wait_stop(struct lock_wait *w);
/* Tells again those that have not stopped; ms until it is to be called again, or -1. */
int lock_wait_tick(void);
