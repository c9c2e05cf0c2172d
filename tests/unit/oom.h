/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail on demand, and a count of those alive. A test links oom.c with
 * -Wl,--wrap for malloc, calloc, realloc, strdup, strndup, asprintf and free, so this covers the
 * code under test and not the C library. One thread.
 */
#pragma once

/* The n-th allocation from now (0 is the next) fails, once; -1: none does. */
void oom_arm(long n);

/* How many allocations are alive. */
long oom_live(void);
