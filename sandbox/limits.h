/* SPDX-License-Identifier: MIT */
/* Limits as the files of cgroup v2 write them. Pure. */
#pragma once

#include "common/buf.h"
#include "common/err.h"
#include "sandbox/engine.h"

/* which: one ENGINE_LIMIT_*. "max" is none. Memory: bytes, also with Compose's b, k, m, g. CPU:
 * "max", QUOTA, or either with a PERIOD behind it (cpu_period_us 0: not said). -EINVAL, with words.
 */
int limits_parse(unsigned which, const char *text, struct engine_limits *out, struct err *err);
/* With a newline. */
void limits_render(unsigned which, const struct engine_limits *l, struct buf *out);

/* Whether `to` allows more than `from`. */
bool limits_raise(unsigned which, const struct engine_limits *from, const struct engine_limits *to);
