/* SPDX-License-Identifier: MIT */
/*
 * What was last heard of a sandbox's jobs and settings, for when it cannot be asked; and what it is
 * to be told when it can be again. Bounded, whatever the agent says. Any thread; a lock of its own.
 */
#pragma once

#include "common/proto.h"

struct seen;

struct seen *seen_new(void);
void seen_free(struct seen *s);

/* The agent told this of a job. */
void seen_job(struct seen *s, const struct proto_job *j);
/* A copy, which proto_job_fini frees; job 0 is the newest foreground one. False: nothing is known.
 */
bool seen_recall(struct seen *s, uint64_t job, struct proto_job *j);
/* There is no foreground job; whether that was so when it was last asked. */
void seen_none(struct seen *s);
bool seen_was_none(struct seen *s);
/* The job is gone. */
void seen_forget(struct seen *s, uint64_t job);

struct seen_name {
	uint64_t job;
	char name[PROTO_NAME_MAX + 1];
};

/* All jobs that there are, the oldest first; others are gone. */
void seen_listed(struct seen *s, const struct seen_name *names, size_t n);
/* A copy of them, to be freed; NULL: none, or no memory. */
struct seen_name *seen_names(struct seen *s, size_t *n);
/* By its name; 0: none. */
uint64_t seen_find(struct seen *s, const char *name);
/* Its name, or its number where no name is known. */
void seen_name(struct seen *s, uint64_t job, char *name, size_t size);
/* What jobs/last leads to; "" while there is none. */
void seen_last(struct seen *s, const char *name);
void seen_get_last(struct seen *s, char *name, size_t size);

/* Values of ctl/'s settings, by PROTO_SET_*. recall appends to b. */
void seen_setting(struct seen *s, unsigned set, const void *value, size_t n);
void seen_recall_setting(struct seen *s, unsigned set, struct buf *b);

/* How much ctl/stdin had for the next command. */
void seen_input(struct seen *s, uint64_t size);
uint64_t seen_get_input(struct seen *s);

/* What is to be told to the agent when it can be; take: the oldest of it, false if there is none.
 */
struct seen_errand {
	uint16_t type; /* a message that begins with the job's number; JOB_INFO: ctl_drop_new */
	uint64_t job;
	uint8_t extra[8]; /* what follows the number */
	size_t n;
};
void seen_later(struct seen *s, const struct seen_errand *e);
bool seen_take_errand(struct seen *s, struct seen_errand *e);
