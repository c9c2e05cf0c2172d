/* SPDX-License-Identifier: MIT */
/* Signals to a whole process tree. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Sends sig to every descendant of root (not to root itself), however detached; where root is 0 (it
 * has been killed) to every process of the session `sid`. With SIGKILL they are stopped first, so
 * that none can fork out of sight. How many there were; -errno without /proc. */
int tree_signal(pid_t root, pid_t sid, int sig);
