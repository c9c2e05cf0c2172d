/* SPDX-License-Identifier: MIT */
/* What all processes of the sandbox use together, by /proc: for sandboxes without a control group.
 */
#pragma once

#include <stdint.h>

struct usage {
	uint64_t threads;
	uint64_t memory;	     /* bytes; what several share is counted for each */
	uint64_t user_us, system_us; /* also of those that have ended and were reaped */
};

/* Of the PID namespace that the agent is in. -errno: /proc does not say. */
int usage_read(struct usage *u);
