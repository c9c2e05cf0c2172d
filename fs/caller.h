/* SPDX-License-Identifier: MIT */
/* What the kernel tells of the process behind a request. Reads /proc; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether a signal is pending for which the caller (a thread) would want to leave a waiting system
 * call: one that ends it, or INT, TERM, HUP, QUIT that it handles. True if the caller is gone. */
bool caller_leaves(pid_t tid);

/* Whether any signal is pending that it would act on, if only to go on afterwards: what ends a wait
 * for a lock on a local file system. True if the caller is gone. */
bool caller_signalled(pid_t tid);

/* The process that a thread belongs to; 0 if it cannot be known. */
pid_t caller_process(pid_t tid);

/* Whether it has a file of that number (st_ino) open for writing: after a close, by another
 * descriptor. 1, 0; -1 where that cannot be known. Nothing is opened or asked of the file itself,
 * which may be one of this mount's. */
int caller_writes(pid_t tid, uint64_t ino);

/* Whether it is being killed by a signal: then what it had written so far is not all it meant. */
bool caller_killed(pid_t tid);
