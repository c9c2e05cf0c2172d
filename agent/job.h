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

struct launch;
struct launch_config;

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
	bool killing;		 /* SIGKILL goes to the tree until it is empty */
	bool dropping;		 /* goes when its tree is empty */
	struct waiter *waiters;	 /* WAIT */
	struct waiter *starters; /* START, until the pid is known */
	struct waiter *droppers; /* DROP, until it has gone */
};

/* Reads what former lives left. config is kept; jobs_fd is DIR/jobs. */
int job_load(int jobs_fd, const struct launch_config *config);

/* num 0: the next one. NULL: errno says why. */
struct job *job_new(uint64_t num, bool foreground);
struct job *job_find(uint64_t num);
struct job *job_newest_foreground(void);
/* -EBUSY while a foreground job runs, or waits for its text from somebody who is there. */
int job_free_slot(void);

int job_write(struct job *j, uint64_t offset, const uint8_t *p, size_t n);
void job_start(struct job *j, const struct launch *l);
bool job_has_ended(const struct job *j);

/* Output so far; info for people and messages. */
void job_info(const struct job *j, struct store_info *info);
int job_put(struct buf *out, const struct job *j);
ssize_t job_read(const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size);

/* Signals what is left of its tree: how many processes. */
int job_signal(const struct job *j, int sig);
bool job_lives(const struct job *j);
/* Ends and forgets it, at once or as soon as nothing of it is left. */
void job_drop(struct job *j);

/* Keeps a request in one of a job's lists, to be answered later. */
int job_park(struct waiter **list, struct request *r);
/* Answers (EINTR) what a connection waits for: the WAIT of that id, or all for 0. */
void job_unpark(struct conn *c, uint64_t id);

/* A child of the agent itself has ended: a supervisor, or what a killed one left to us. */
void job_reaped(pid_t pid, int status, const struct rusage *ru);
/* TERM and KILL at the container's stop. True: something is alive. */
bool job_signal_all(int sig);
/* What has to be done again and again; ms until the next time, or -1. */
int job_tick(void);
