/* SPDX-License-Identifier: MIT */
/* The JSON that makes a container from a spec. Pure. */
#pragma once

#include "common/err.h"
#include "sandbox/engine.h"

#include <cjson/cJSON.h>

/* user: the one that commands run as; agent_volume: the volume that holds the agent. A new object
 * in *out. -EINVAL: the spec asks for what cannot be. */
int body_create(const struct spec *spec, const char *user, const char *agent_volume, cJSON **out,
	struct err *err);
