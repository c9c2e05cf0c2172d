/* SPDX-License-Identifier: MIT */
/* Ending a sandbox's processes, for run.c and create.c. */
#pragma once

#include "bwrap/bwrap.h"

/* Kills all that runs in the sandbox, and returns when it has ended. */
int run_kill(const struct bwrap *b, const char *id, int box_fd, struct err *err);
