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
};

/* What JOB_START set; owns its strings. */
struct launch {
	bool argv;
	char *user, *cwd;
	char **env, **shell;
	size_t n_env, n_shell;
};

/* Reads the tags of JOB_START to the end. -EINVAL: an unknown one, or a bad value. */
int launch_parse(struct wire_in *in, struct launch *l);
void launch_fini(struct launch *l);

/* Starts j's command: dir_fd is its directory (borrowed). On success j->supervisor, j->report.fd
 * and j->output are set. What cannot be started is -ENOENT (127) or another error (126), with
 * words. */
int launch_job(const struct launch_config *config, const struct launch *l, int dir_fd,
	struct job *j, struct err *err);
