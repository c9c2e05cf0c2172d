/* SPDX-License-Identifier: MIT */
/* With whose rights the calling thread touches files. */
#pragma once

#include "agent/user.h"

/* Before the first thread: the agent's own ids, and the user whose groups go with its uid. */
void creds_init(const struct user *user);

/* The calling thread's file rights from now on; costs nothing when they are these already. Without
 * groups the sandbox's own user has those of the sandbox. */
int creds_become(uint32_t uid, uint32_t gid, const gid_t *groups, size_t n_groups, struct err *err);

/* Back to the agent's own, for the state volume, /proc and fork. */
void creds_own(void);
