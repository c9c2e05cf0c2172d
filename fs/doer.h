/* SPDX-License-Identifier: MIT */
/*
 * A process of its own that makes system calls on our own mount. The daemon must not: a thread of
 * it that waits for the mount's answer would keep the mount from ending with the daemon, and
 * everybody in it would wait for ever.
 */
#pragma once

#include "common/err.h"
#include "common/proto.h"

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct doer {
	int sock; /* -1: none */
	pid_t pid;
};

/* What to do, and with whose rights. */
struct doer_order {
	uid_t uid;
	gid_t gid, groups[PROTO_GROUPS_MAX];
	int n_groups;
	struct timespec mounted; /* the time that the mount's root shows: no other has it */
	uint64_t own_ino;	 /* of the file that the lines are written to: it stays */
};

/* Before there are threads. mountpoint: an absolute path. */
int doer_start(const char *mountpoint, struct doer *d);
void doer_end(struct doer *d);

/* Any thread: has the lines of the text done, up to the first that fails. A descriptor, to be
 * closed, for the next two. */
int doer_begin(const struct doer *d, const struct doer_order *o, const char *text, struct err *err);
/* Waits for the end. */
int doer_wait(int fd, struct err *err);
/* Whoever does it is killed; from another thread than the one that waits. */
void doer_leave(int fd);
