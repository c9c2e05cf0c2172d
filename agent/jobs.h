/* SPDX-License-Identifier: MIT */
/* All jobs of the sandbox, and the messages about them. The loop's thread only. */
#pragma once

#include "agent/launch.h"
#include "agent/request.h"

/* state_fd: DIR; reads what former lives left. config is kept. */
int jobs_init(int state_fd, const struct launch_config *config);

/* Runs the template's own command as the job PROTO_JOB_MAIN. */
int jobs_main(char **argv);

/* A setting that ctl/ starts with, as text. */
int jobs_default(unsigned what, const char *text, struct err *err);

int jobs_open(struct request *r);
int jobs_write(struct request *r);
int jobs_start(struct request *r);
int jobs_wait(struct request *r);
int jobs_more(struct request *r);
int jobs_info(struct request *r);
int jobs_read(struct request *r);
int jobs_kill(struct request *r);
int jobs_drop(struct request *r);
int jobs_make(struct request *r);
int jobs_find(struct request *r);
int jobs_list(struct request *r);
int jobs_get(struct request *r);
int jobs_set(struct request *r);
int jobs_stdin(struct request *r);

void jobs_cancel(struct conn *c, uint64_t id);
