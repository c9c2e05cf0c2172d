/* SPDX-License-Identifier: MIT */
/* Monotonic time. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int64_t clock_us(void)
{
	return clock_ns() / 1000;
}

static inline int64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}
