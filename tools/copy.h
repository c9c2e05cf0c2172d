/* SPDX-License-Identifier: MIT */
/* One of a job's streams, to one of our descriptors, by a thread of its own: who reads there may
 * take as long as they like, and keep nobody else waiting. What the sandbox has dropped of it
 * reads as zeros, which are never printed: it is left out and counted. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct job;

struct copy {
	const struct job *job; /* constant while the thread runs, as the next four */
	const char *name;      /* stdout or stderr */
	int from, to;
	int end;  /* the job's `wait` */
	int done; /* an eventfd, to which 1 is added at the end */

	char *data;  /* the thread's, as the next */
	uint64_t at; /* in the stream */

	_Atomic uint64_t given; /* how many bytes have been taken by whoever reads */
	_Atomic uint64_t lost, lost_from, lost_to;
	_Atomic bool over, failed;
};

/* The fields above `data` are set. Runs until the job has ended and what it had printed by then is
 * copied, or nobody wants it. False: it has said why. */
bool copy_start(struct copy *c);
/* Whether all of the stream was printed that somebody wanted; says what was not. */
bool copy_is_whole(struct copy *c);
