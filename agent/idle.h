/* SPDX-License-Identifier: MIT */
/* When the sandbox was last used, and who wants to know that it is not. The loop's thread. */
#pragma once

#include "agent/request.h"

/* It is used now: by a request of that type (if that is a use), or by something that has ended. */
void idle_request(uint16_t type);
void idle_touch(void);

int idle_ask(struct request *r);
void idle_cancel(const struct conn *c, uint64_t id); /* id 0: all of the connection */

/* Answers those for whom it is time; ms until the next is due, or -1. */
int idle_tick(void);
