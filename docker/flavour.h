/* SPDX-License-Identifier: MIT */
/* How engines that speak this API differ. Whoever must do a thing otherwise asks here, and nobody
 * asks for the name. docs/engines.md says what a user sees of it. */
#pragma once

#include "common/err.h"
#include "sandbox/spec.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

struct flavour {
	const char *name; /* for .sandboxfs/engine */
	/* The event stream's head comes with the first event, be that in an hour. All events since
	 * the moment that was asked for are told, so one need not wait for it. */
	bool late_head;
	/* Times of the log are in the engine's own zone. */
	bool local_log;
	/* It takes these in a request to make a container, and does nothing with them. */
	bool ignores_runtime, ignores_device_requests, ignores_volume_options, ignores_subpath,
		ignores_system_paths;
	/* A port is published as one number, or as any. */
	bool no_port_ranges;
	unsigned limits_lacking; /* the ENGINE_LIMIT_* that it takes and does not hold */
};

/* By the answers of /version and /info. */
void flavour_read(const cJSON *version, const cJSON *info, struct flavour *f);

/* 0, or -EOPNOTSUPP with the key: what the engine would ignore in silence is refused in words. */
int flavour_check(const struct flavour *f, const struct spec *spec, struct err *err);
