/* SPDX-License-Identifier: MIT */
/* The names of `ulimits`: for the engine, which checks them, and for the launcher, which sets them.
 */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

/* RLIMIT_*, or -1 */
int ulimit_named(const char *name);
/* -1 in a template is none. Whether a process with the hard limit `own`, and no right to raise it,
 * may set that. */
rlim_t ulimit_value(long long value);
bool ulimit_within(rlim_t value, rlim_t own);
