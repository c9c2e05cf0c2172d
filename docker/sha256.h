/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4) of a block of memory: what the agent volume is named after. Pure. */
#pragma once

#include <stddef.h>

#define SHA256_HEX 64

/* Lower-case hex, and a NUL. */
void sha256_hex(const void *p, size_t n, char hex[SHA256_HEX + 1]);
