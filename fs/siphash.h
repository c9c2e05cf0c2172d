/* SPDX-License-Identifier: MIT */
/*
 * SipHash-1-3, for tables whose keys a sandbox chooses: without the seed nobody can find keys that
 * collide, which would make each search a walk through all of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Before there are threads: the seed of this process. */
void siphash_seed(void);
uint64_t siphash(const void *p, size_t n);
/* With a seed of one's own. */
uint64_t siphash_with(const uint64_t seed[2], const void *p, size_t n);
