/* SPDX-License-Identifier: MIT */
/* All jobs of the sandbox: their numbers and names, which are kept, and for how long. */
#pragma once

#include "agent/job.h"

/* Reads what former lives left; jobs_fd is DIR/jobs. */
int roster_load(int jobs_fd);
extern int roster_fd; /* constant after that */

/* A new job with a copy of set (NULL: the defaults). num 0: the next one; name: of a named one,
 * else NULL. NULL: errno says why. */
struct job *roster_new(uint64_t num, const char *name, const struct settings *set);

struct job *roster_find(uint64_t num);
/* "7", "build", "main", "last". */
struct job *roster_by_name(const char *name);
struct job *roster_newest_foreground(void);
/* -EEXIST: taken, or never to be had; -ENOSPC: too many. */
int roster_may_name(const char *name);
/* -EBUSY while a foreground job runs, or waits for its text from somebody who is there. */
int roster_free_slot(void);
/* A foreground job that who opened it may never have heard of: the connection broke, and nobody has
 * named it since. It does not keep the slot. NULL: none. */
struct job *roster_unheard(void);

/* Calls fn for each, oldest first, but for those that are going. */
void roster_each(void (*fn)(struct job *j, void *arg), void *arg);

/* j goes: its memory at the end of this round. It was new: its opening has emptied the results. */
void roster_bury(struct job *j);
void roster_came_to_nothing(const struct job *j);
/* One has ended; and: those that ended last are kept. */
void roster_ended(struct job *j);
void roster_prune(void);
/* For room: drops the numbered one that ended first, but for the last. False: there is none. */
bool roster_drop_oldest(void);
bool roster_may_go(const struct job *j); /* is it one of those, or the last? */
/* Something of a job is due at that time (ms). */
void roster_due(int64_t at);

/* Answers (EINTR) what a connection waits for: the request of that id, or all for 0. */
void roster_unpark(struct conn *c, uint64_t id);
/* A child of the agent itself has ended: a supervisor, or what a killed one left to us. */
void roster_reaped(pid_t pid, int status, const struct rusage *ru);
void roster_have_reaped(void);	   /* some of these: what has become of the orphaned jobs? */
bool roster_is_ending(void);	   /* is the output of one that has exited still being stored? */
bool roster_supervises(pid_t pid); /* is it some job's supervisor? */
/* For a struct tree of an orphaned job: is a child of ours one that has left its session? Where it
 * can be another orphaned job's just as well, it is nobody's. */
bool roster_is_stray(const void *job, pid_t pid, pid_t sid, uint64_t start);
/* The same, or it may be another's. */
bool roster_may_be_stray(const void *job, pid_t pid, pid_t sid, uint64_t start);
/* TERM and KILL at the container's stop. True: something is alive. */
bool roster_signal_all(int sig);
/* What has to be done again and again; ms until the next time, or -1. */
int roster_tick(void);
