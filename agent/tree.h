/* SPDX-License-Identifier: MIT */
/* Signals to a whole process tree. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Which processes: the descendants of root (not root itself), however detached. Where root is 0 (it
 * has been killed): the session's, those children of ours that is_stray() knows to have left it,
 * and their descendants. */
struct tree {
	pid_t root, sid;
	bool (*is_stray)(const void *of, pid_t pid, pid_t sid, uint64_t start);
	const void *of;
};

/* Sends sig to every one. With SIGKILL they are stopped first, so that none can fork out of sight.
 * How many there were, and in *refused how many of them it may not be sent to; -errno without
 * /proc. */
int tree_signal(const struct tree *t, int sig, int *refused);

/* The time as is_stray() gets it: what starts from now on has this or more. */
uint64_t tree_now(void);
