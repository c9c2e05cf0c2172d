/* SPDX-License-Identifier: MIT */
/* From a job's text and settings to a running command. */
#pragma once

#include "agent/job.h"

struct launch_config {
	int root_fd;
	const char *workspace;
	const char *user_spec; /* the sandbox's user, as given */
	struct rlimit files;   /* the container's own limit */
	char **envp;	       /* the container's environment */
	char **more_env;       /* a hook's own, which no setting shows; NULL: none */
};

/* Starts j's command: dir_fd is its directory (borrowed). argv: the text is NUL-separated
 * arguments. On success j->supervisor, j->report.fd, j->output and perhaps j->input are set. What
 * cannot be started is -ENOENT (127) or another error (126), with words. */
int launch_job(
	const struct launch_config *config, bool argv, int dir_fd, struct job *j, struct err *err);
