/* SPDX-License-Identifier: MIT */
/* Times of an engine's log. */
#pragma once

#include "common/buf.h"

/* Appends the lines of `in`, each `TIME text`, with TIME (RFC 3339) in UTC: Podman tells it in its
 * own zone, and only whole seconds. What is no time stays as it is. */
void log_time_utc(const struct buf *in, struct buf *out);
