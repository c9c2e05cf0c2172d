/* SPDX-License-Identifier: MIT */
/* The commands of post_start and pre_stop: one after another, as jobs. The loop's thread. */
#pragma once

#include "agent/launch.h"
#include "agent/setup_record.h"

struct hooks {
	const char *name;	   /* of their jobs: NAME, NAME-2, ... */
	struct setup_record *list; /* owned */
	size_t n, at;		   /* at: the one that runs */
	uint64_t job;		   /* its number; 0: none runs */
	bool go_on;		   /* also after one that failed */
};

/* Takes r over; -ENOMEM. */
int hooks_add(struct hooks *h, struct setup_record *r);

/* Starts the first, and the next when one has ended. 1: one runs; 0: all have ended well; -1: one
 * has failed, and what says why. *exit_code and *job (0: none) are of that one. */
int hooks_go_on(struct hooks *h, const struct launch_config *config, struct err *what,
	int *exit_code, uint64_t *job);

/* The end of what a job printed, as one text without NULs; a new string or NULL. */
char *hooks_output(uint64_t job, size_t max);
