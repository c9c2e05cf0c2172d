/* SPDX-License-Identifier: MIT */
/* Execs: the programs that the engine starts in a running container for us. Any thread. */
#pragma once

#include "docker/docker.h"

#define EXEC_ID_MAX 65

/* Prepares `agent relay` in the container, standard streams attached; docker/stream.c starts it. */
int exec_create(struct docker *d, const char *container, char exec[EXEC_ID_MAX], struct err *err);

/* Returns when no exec of the container is half started. A container that is paused at such a
 * moment cannot be resumed, stopped or removed any more (runc's child is frozen while the engine
 * waits for it: tried with 20.10). -EBUSY: one stays half started. */
int exec_settle(struct docker *d, const char *container, struct err *err);
