/* SPDX-License-Identifier: MIT */
/* What the engine says of a container, as a struct engine_box. Pure; nothing is trusted. */
#pragma once

#include "common/err.h"
#include "sandbox/engine.h"

#include <cjson/cJSON.h>
#include <stdint.h>

/* From the answer to inspect, or from one entry of the list. 0; -ENOENT: not one of this
 * namespace's; -EPROTO: nonsense; -ENOMEM. */
int box_from_inspect(
	const cJSON *j, const char *namespace, struct engine_box *box, struct err *err);
int box_from_list(const cJSON *j, const char *namespace, struct engine_box *box, struct err *err);

/* update.c: from an answer's HostConfig, which may be NULL. */
void box_limits(const cJSON *host, struct engine_limits *l);

/* "2026-01-31T12:34:56.789Z", "...+01:00" to seconds since the epoch; -1: it is no such time. */
int64_t box_time(const char *s);
