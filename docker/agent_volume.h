/* SPDX-License-Identifier: MIT */
/* How the agent gets into a container: a named volume, mounted read-only, filled once per agent
 * version and engine. Any thread. */
#pragma once

#include "common/err.h"
#include "docker/http.h"

struct agent_volume;

/* Reads the program once, so that its name and content stay together. */
int agent_volume_new(const char *agent_path, struct agent_volume **a, struct err *err);
void agent_volume_free(struct agent_volume *a);
const char *agent_volume_name(const struct agent_volume *a);

/* Returns when the volume is there and holds the agent. image: any that the engine has. Costs one
 * small request once it was verified. */
int agent_volume_ensure(struct agent_volume *a, struct http *h, const char *image, struct err *err);

/* It turned out not to hold the agent: look again next time. */
void agent_volume_doubt(struct agent_volume *a);
