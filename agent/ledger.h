/* SPDX-License-Identifier: MIT */
/* Jobs on the state volume. jobs_fd is DIR/jobs. */
#pragma once

#include "agent/job.h"

/* What the next job of each kind gets. */
struct ledger_next {
	uint64_t numbered, named, born;
};

int ledger_dir(int jobs_fd, uint64_t num, bool make); /* the job's directory opened, or -errno */
/* A new job's directory with its empty command, and what of it has to survive a restart already. */
int ledger_make(int jobs_fd, struct job *j);
void ledger_save(int jobs_fd, const struct job *j);
void ledger_save_next(int jobs_fd, const struct ledger_next *next);
void ledger_remove(int jobs_fd, uint64_t num);
/* The same by a worker: whoever waits for a command's end is not to wait for that. */
void ledger_remove_behind(int jobs_fd, uint64_t num);
/* Calls each() for every job found, oldest first; each() takes it over. */
int ledger_load(int jobs_fd, void (*each)(struct job *j), struct ledger_next *next);

/* A stream's bytes from offset, holes as zeros. A count or -errno. */
ssize_t ledger_read(
	int jobs_fd, const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size);
/* Into "command" or "stdin" of a job's directory; first emptied, if `empty`. */
int ledger_write(int jobs_fd, uint64_t num, const char *file, bool empty, uint64_t offset,
	const void *p, size_t n);
