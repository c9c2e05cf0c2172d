/* SPDX-License-Identifier: MIT */
/* The sandbox's root, put together in the launcher's own mount namespace. */
#pragma once

#include "bwrap/plan.h"

#include <stdbool.h>
#include <sys/types.h>

/* Where it is put together: over something that no sandbox is made from. */
#define STAGE "/sys"
/* Where the sandbox's root and bwrap are after stage_enter(). */
#define STAGE_ROOT  "/root"
#define STAGE_BWRAP "/bwrap"

/* Opens what is to be mounted, while it can still be reached; then mounts it. The current
 * directory is the box's. agent is the program's path, groups the directories of the sandbox's
 * cgroups, NULL at the end. user: in a user namespace of an ordinary user, who may mount less. */
int stage_make(
	const struct plan *p, const char *agent, char *const *groups, bool user, struct err *err);

/* stage_dev.c: for stage_make(). owner: root's, as it is called from where we stand. */
int stage_dev(int root_fd, uid_t owner, struct err *err);
/* A new file system, not mounted anywhere yet. options: pairs of a key and its value, NULL at the
 * end. */
int stage_new_mount(const char *type, const char *const *options, unsigned attr);

/* Can one directory be laid over another, in `dir`? In a mount namespace of the caller's own. */
bool stage_overlay(const char *dir, bool user);

/* Leaves all of the machine's mounts that bwrap does not need: it stays in this namespace for as
 * long as the sandbox runs, and a copy of a mount would outlive the unmounting of the mount itself,
 * with the daemon of a FUSE file system waiting for that. -ENOENT: there is no bwrap. */
int stage_enter(struct err *err);
