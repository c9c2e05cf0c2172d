/* SPDX-License-Identifier: MIT */
/* What the sandbox's own control group counts; version 1 or 2, as the container sees it. */
#pragma once

#include "common/buf.h"

#include <stdint.h>

/* Before the first of the others. */
void cgroup_init(void);

/* Processes killed for lack of memory so far; 0 where it is not known. */
uint64_t cgroup_ooms(void);
/* How much memory the sandbox may use; UINT64_MAX: no limit is known. */
uint64_t cgroup_memory_max(void);

enum { CGROUP_MEMORY = 1, CGROUP_CPU = 2, CGROUP_PIDS = 4 };

/* `key value` lines of what is known; which of the three it was. Any thread. */
unsigned cgroup_stats(struct buf *out);
