/* SPDX-License-Identifier: MIT */
/* Limits of embedded sandboxes by cgroups, version 1 or 2, where this machine lets us make any. */
#pragma once

#include "sandbox/engine.h"

/* Less is too little for the agent and a command. It is Docker's too. */
#define CGROUPS_MEMORY_MIN (6u << 20)

struct cgroups;

/* Never NULL but for want of memory: where there are none, cgroups_can is 0. */
struct cgroups *cgroups_new(const char *data);
void cgroups_free(struct cgroups *c);

/* Which ENGINE_LIMIT_* can be set. */
unsigned cgroups_can(const struct cgroups *c);
/* "memory, cpu, pids by cgroup v1", or why not. */
const char *cgroups_words(const struct cgroups *c);

/* Makes a sandbox's groups with its limits; the directories that its first process is to join in
 * *dirs: a new NULL-terminated list. */
int cgroups_make(const struct cgroups *c, const char *id, const struct engine_limits *limits,
	char ***dirs, struct err *err);
int cgroups_set(const struct cgroups *c, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err);
/* Returns when it is so. -EOPNOTSUPP: there is no freezer. */
int cgroups_freeze(const struct cgroups *c, const char *id, bool freeze, struct err *err);
/* Was something in it killed for memory, since they were made? */
bool cgroups_oom(const struct cgroups *c, const char *id);
/* Removes the groups, as soon as their last process has left them. */
void cgroups_remove(const struct cgroups *c, const char *id);

void cgroups_dirs_free(char **dirs);
