/* SPDX-License-Identifier: MIT */
/* All jobs of the sandbox, and the messages about them. The loop's thread only. */
#pragma once

#include "agent/launch.h"
#include "agent/request.h"

/* state_fd: DIR; reads what former lives left. config is kept. */
int jobs_init(int state_fd, const struct launch_config *config);

/* Runs the template's own command as the job JOB_MAIN. */
int jobs_main(char **argv);

int jobs_open(struct request *r);
int jobs_write(struct request *r);
int jobs_start(struct request *r);
int jobs_wait(struct request *r);
int jobs_info(struct request *r);
int jobs_read(struct request *r);
int jobs_kill(struct request *r);
int jobs_drop(struct request *r);

void jobs_cancel(struct conn *c, uint64_t id);
