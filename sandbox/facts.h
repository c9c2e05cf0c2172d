/* SPDX-License-Identifier: MIT */
/* What the engine knows of a sandbox and nobody else: its limits, the ports that it publishes. */
#pragma once

#include "sandbox/registry.h"

/* Whether they are known, and the limits themselves. */
bool facts_limits(struct sandbox *sb, struct engine_limits *out);
bool facts_ports_known(struct sandbox *sb);

/* Asks the engine; reports from a lifecycle thread, when they are known. */
void facts_ask(struct sandbox *sb, registry_done *done, void *arg);

/* Sets the limit `which` (one ENGINE_LIMIT_*): in force when done is called. With lower_only a
 * limit that allows more than now is -EPERM. */
void facts_set_limit(struct sandbox *sb, unsigned which, const struct engine_limits *want,
	bool lower_only, registry_done *done, void *arg);
