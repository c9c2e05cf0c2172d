/* SPDX-License-Identifier: MIT */
/* Requests about a job that are answered later. The loop's thread only. */
#pragma once

#include "agent/conn.h"

struct job;

struct waiter {
	struct waiter *next;
	struct conn *conn; /* counted */
	uint64_t id;
	uint16_t type;
	bool patient;	 /* WAIT: answered when max_wait is over, too */
	unsigned stream; /* MORE: answered when this one is longer than offset, too */
	uint64_t offset;
};

/* Keeps a request in one of a job's lists: PARKED, or -ENOMEM. */
int waiter_park(struct waiter **list, struct request *r, bool patient);

/* Answers all in the list: with the job's info, its pid, nothing, or a failure (positive). */
void waiter_answer(struct waiter **list, const struct job *j, int failure);
/* The same for a MORE, of that stream and offset. */
int waiter_park_more(struct waiter **list, struct request *r, unsigned stream, uint64_t offset);
/* Answers those that waited for so much; true: others still wait for more. */
bool waiter_more(struct waiter **list, const struct job *j);
/* Only the patient ones. */
void waiter_lose_patience(struct waiter **list, const struct job *j);

/* Answers (EINTR) those of a connection, and of one id unless it is 0. */
void waiter_cancel(struct waiter **list, const struct conn *c, uint64_t id);
