/* SPDX-License-Identifier: MIT */
/* The JSON that makes a container from a spec. Pure. */
#pragma once

#include "common/err.h"
#include "docker/json.h"
#include "sandbox/engine.h"

/* user: the one that commands run as; agent_volume: the volume that holds the agent; making: a word
 * that no other request has. A new object in *out. -EINVAL: the spec asks for what cannot be. */
int body_create(const struct spec *spec, const char *user, const char *agent_volume,
	const char *making, cJSON **out, struct err *err);

/* KEY=VALUE lines as members. */
void body_add_pairs(struct json_builder *b, cJSON *to, char *const *pairs);
