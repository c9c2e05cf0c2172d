/* SPDX-License-Identifier: MIT */
/*
 * Numbers on their way back to the agent that gave them meaning, many in one message: the kernel
 * forgets a big tree at once, and a message for each file would be a queue of as many where the
 * agent is slow.
 */
#pragma once

#include <stdint.h>

struct sandbox;

#define FORGET_MAX 512

/* On a caller's stack: begins with n = 0, ends with forget_send(). */
struct forget {
	uint32_t n;
	uint32_t epoch;	    /* of all of them */
	struct sandbox *sb; /* a reference, while n > 0 */
	uint64_t nodes[FORGET_MAX];
};

void forget_add(struct forget *f, struct sandbox *sb, uint32_t epoch, uint64_t node);
void forget_send(struct forget *f);

/* One number, or several that follow each other. */
void forget_now(struct sandbox *sb, uint32_t epoch, uint64_t first, uint32_t n);
