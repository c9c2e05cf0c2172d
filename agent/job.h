/* SPDX-License-Identifier: MIT */
/* One job: a command, its settings, input, output, result. All fields are the loop's. */
#pragma once

#include "agent/output.h"
#include "agent/run.h"
#include "agent/settings.h"
#include "agent/waiter.h"

struct input;
struct launch_config;

struct job {
	struct source report; /* first: a source is its job. fd -1: no supervisor (any more) */
	struct job *next;     /* older; the newest is first */
	struct job *prev;     /* newer */
	uint64_t num;
	uint64_t born;			/* jobs in the order of their making, over all lives */
	uint64_t ended;			/* and of their ending, in this life */
	char *name;			/* of a named one, else NULL; owned */
	bool foreground;		/* made by ctl/ */
	bool slot;			/* and a second one has to wait for it */
	uint8_t session[PROTO_SESSION]; /* who opened it; matters while it is new, as the next */
	unsigned life;			/* by which connection; 0: and has named it since */
	struct settings set;

	uint8_t result; /* enum proto_result */
	int exit_code;	/* -1: not known */
	pid_t pid, supervisor;
	int64_t started_us;
	uint64_t began; /* the same by tree_now() */
	uint64_t wall_us, user_us, system_us, peak_kib, ooms;
	uint64_t command_size, stdin_size;
	char words[ERR_MSG_MAX];
	char program[128], cwd[128]; /* for words about a start that failed */

	struct output *output;	 /* NULL: not started, or of a former life */
	struct store_info saved; /* where output is NULL */
	struct post drained;	 /* posted when the output is stored */
	struct input *input;	 /* a live one; NULL: none (any more) */
	bool input_ended;	 /* before the start: nothing more will come */

	/* Times in ms; 0: none. */
	int64_t timeout_at, kill_at, patience_at; /* kill_at: and again until its tree is empty */
	int kill_wait;				  /* until the next KILL */

	bool exited;	   /* the command's own process has ended */
	bool ending;	   /* and its output is being stored */
	int status;	   /* of its process, when it has exited */
	bool orphaned;	   /* the supervisor was killed: its children are the agent's */
	bool start_failed; /* what could not be started has words */
	bool timed_out;
	bool killed;		 /* somebody has sent it SIGKILL */
	bool lost;		 /* nobody knows how its process ended */
	bool stopped;		 /* it ran when the sandbox was stopped */
	bool impatient;		 /* max_wait is over: nobody waits for it with patience */
	bool dropping;		 /* goes when its tree is empty */
	struct waiter *waiters;	 /* WAIT */
	struct waiter *starters; /* START, until the pid is known */
	struct waiter *droppers; /* DROP, until it has gone */
};

/* What cannot be started has ended at once; that is no failure of the request. */
void job_start(struct job *j, bool argv, const struct launch_config *config);
static inline bool job_has_ended(const struct job *j)
{
	return j->result > PROTO_RESULT_RUNNING;
}

/* Output so far; info for messages. */
void job_info(const struct job *j, struct store_info *info);
uint64_t job_bytes(const struct job *j); /* that it keeps on the state volume */
int job_put(struct buf *out, const struct job *j);
void job_name(const struct job *j, char name[PROTO_NAME_MAX + 1]);

/* Signals what is left of its tree: how many processes, and how many of them refuse it. */
int job_signal(const struct job *j, int sig, int *refused);
bool job_lives(const struct job *j);
bool job_may_live(const struct job *j); /* or what may be of it, or of another, does */
/* SIGKILL until nothing is left; how many refuse it. */
int job_kill(struct job *j);
/* Ends and forgets it, at once or as soon as nothing of it is left. */
void job_drop(struct job *j);

/* Its supervisor, or its orphaned command, has ended; false: that pid is neither. */
bool job_reaped(struct job *j, pid_t pid, int status, const struct rusage *ru);
/* Nothing more is heard of its supervisor. */
void job_close_report(struct job *j);
/* Does what is due; when the next is, in ms, or 0. */
int64_t job_due(struct job *j, int64_t now);
