/* SPDX-License-Identifier: MIT */
/* Jobs on the state volume. jobs_fd is DIR/jobs. */
#pragma once

#include "agent/job.h"

int ledger_dir(int jobs_fd, uint64_t num, bool make); /* the job's directory opened, or -errno */
void ledger_save(int jobs_fd, const struct job *j);
void ledger_remove(int jobs_fd, uint64_t num);
/* Calls each() for every job found, oldest first; each() takes it over. */
int ledger_load(int jobs_fd, void (*each)(struct job *j));
/* A stream's bytes from offset, holes as zeros. A count or -errno. */
ssize_t ledger_read(
	int jobs_fd, const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size);
