/* SPDX-License-Identifier: MIT */
/* One job: a command, its output, its result. All fields are the loop's. */
#pragma once

#include "agent/conn.h"
#include "agent/output.h"
#include "agent/run.h"

#define JOB_MAIN (1ull << 32) /* the template's own command; other numbers stay below */

/* A request that is answered later. */
struct waiter {
	struct waiter *next;
	struct conn *conn; /* counted */
	uint64_t id;
	uint16_t type;
};

struct job {
	struct source report; /* first: a source is its job. fd -1: no supervisor (any more) */
	struct job *next;     /* newest first */
	uint64_t num;
	bool foreground;
	uint8_t session[PROTO_SESSION]; /* who opened it; matters while it is new */

	uint8_t result; /* enum proto_result */
	int exit_code;	/* -1: not known */
	pid_t pid, supervisor;
	int64_t started_us;
	uint64_t wall_us, user_us, system_us, peak_kib;
	uint64_t command_size;
	char words[ERR_MSG_MAX];
	char program[128], cwd[128]; /* for words about a start that failed */

	struct output *output;	 /* NULL: not started, or of a former life */
	struct store_info saved; /* where output is NULL */
	struct post drained;	 /* posted when the output is stored */
	bool ending;		 /* the command has ended, its output is being stored */
	int status;		 /* of its process, when ending */
	bool orphaned;		 /* the supervisor was killed: its children are the agent's */
	bool start_failed;
	bool killing;  /* SIGKILL goes to the tree until it is empty */
	bool dropping; /* goes when its tree is empty */
	struct waiter *waiters; /* WAIT */
	struct waiter *starters; /* START, until the pid is known */
	struct waiter *droppers; /* DROP, until it has gone */
};

/* In ledger.c: the state volume. jobs_fd is DIR/jobs. */
int ledger_dir(int jobs_fd, uint64_t num, bool make); /* the job's directory opened, or -errno */
void ledger_save(int jobs_fd, const struct job *j);
void ledger_remove(int jobs_fd, uint64_t num);
/* Calls each() for every job found, oldest first; each() takes it over. */
int ledger_load(int jobs_fd, void (*each)(struct job *j));
/* A stream's bytes from offset, holes as zeros. A count or -errno. */
ssize_t ledger_read(int jobs_fd, const struct job *j, unsigned stream, uint64_t offset, void *p,
	size_t size);

void job_info(const struct job *j, struct store_info *info);
