/* SPDX-License-Identifier: MIT */
/* Pseudo-terminals for commands. */
#pragma once

#include "agent/user.h"

/* A new one of that size, for that user: *master (non-blocking) is ours, *slave the command's; both
 * are the caller's. -errno with words. */
int terminal_open(const struct user *user, unsigned columns, unsigned rows, int *master, int *slave,
	struct err *err);
