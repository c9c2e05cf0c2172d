/* SPDX-License-Identifier: MIT */
/* PROTO_STATS: what the sandbox uses now, as `key value` lines. */
#pragma once

#include "agent/request.h"

void stats_init(void);
int stats_answer(struct request *r);
