/* SPDX-License-Identifier: MIT */
/*
 * How a sandbox is to be run: written once by the engine, at create, into the box's directory as
 * the file PLAN_FILE; read by the launcher at each start. Words that end in NUL, each directive
 * with its own number of arguments:
 *
 *   lower DIR            the root is this tree, read-only, with the box's changes over it; without
 *                        it the box's own directory `root`
 *   bind SRC DEST        a directory or file of the host's, or of the box's (SRC without a /)
 *   robind SRC DEST      the same, read-only
 *   tryrobind SRC DEST   the same, where SRC exists
 *   tmpfs DEST SIZE MODE SIZE in bytes (0: the kernel's own limit), MODE in octal
 *   rotmpfs DEST SIZE MODE  the same, read-only: empty for ever
 *   shm SIZE             /dev/shm
 *   rlimit NAME SOFT HARD  -1: none
 *   pids N               processes, where no cgroup counts them
 *   readonly             the root itself is read-only
 *   share-net            the host's network
 *   hostname NAME
 *   cap NAME             a capability of root's inside: CAP_KILL
 *   env NAME VALUE
 *   exec ARG             an argument of the agent's
 */
#pragma once

#include "common/err.h"

#include <stddef.h>

#define PLAN_FILE "plan"

/* What the launcher hears: the directives in their order, NULL-terminated arguments. */
struct plan {
	char *text; /* owned */
	size_t len;
	const char **words; /* owned; point into text */
	size_t n_words;
};

/* How many arguments a directive has; -1: there is none of that name. */
int plan_args(const char *directive);
/* Reads and checks it: every directive is known and complete. */
int plan_read(int box_fd, struct plan *p, struct err *err);
void plan_fini(struct plan *p);
