/* SPDX-License-Identifier: MIT */
/* The text of ctl/log: what the container printed, and what happened to the sandbox, by time. */
#pragma once

#include "common/buf.h"
#include "sandbox/sandbox.h"

#define LOG_CONTAINER_MAX (1u << 20)		  /* of what the container printed */
#define LOG_MAX		  (4 * LOG_CONTAINER_MAX) /* of all */

/* Into out, which is initialised with LOG_MAX. Asks the engine: from a lifecycle thread. */
void sandbox_log(struct sandbox *sb, struct buf *out);

/* The last text, so that who looks at the size and then reads gets one answer. */
struct log_cache;
struct log_cache *log_cache_new(void);
void log_cache_free(struct log_cache *c);
