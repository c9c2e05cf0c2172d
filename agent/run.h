/* SPDX-License-Identifier: MIT */
/* Runs a command under a supervisor of its own, which tells how it went through a pipe. */
#pragma once

#include "agent/user.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define RUN_SCRIPT_FD 3 /* what the command finds its script at, if it has one */

/* All is prepared before the fork: nothing is allocated after it. */
struct run_spec {
	char **argv, **envp; /* argv has room for one more before it: a script's shell */
	const char *path;    /* where argv[0] is looked for */
	const char *cwd;
	const struct user *user; /* whom to become; NULL: nobody else */
	struct rlimit files;	 /* RLIMIT_NOFILE for the command */
	int in, out, err;	 /* its standard streams */
	bool terminal;		 /* in is one, and to be its own */
	int script;		 /* becomes RUN_SCRIPT_FD; -1: none */
};

enum run_kind { RUN_STARTED, RUN_FAILED, RUN_ENDED };
enum run_stage { RUN_STAGE_FORK, RUN_STAGE_USER, RUN_STAGE_CWD, RUN_STAGE_EXEC };

struct run_report {
	uint32_t kind;			       /* enum run_kind */
	int32_t value;			       /* STARTED: pid; FAILED: errno; ENDED: wait status */
	uint32_t stage;			       /* FAILED */
	uint64_t user_us, system_us, peak_kib; /* ENDED */
};

/* Once, before any other: what commands inherit of us is the default, whoever started us. */
void run_init(void);
/* Forks. *report: read struct run_report from it; its end is the supervisor's end, which comes when
 * every descendant has ended. The supervisor's pid, or -errno. */
pid_t run_start(const struct run_spec *spec, int *report);

void run_usage(struct run_report *r, const struct rusage *ru);
