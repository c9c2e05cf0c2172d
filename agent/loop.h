/* SPDX-License-Identifier: MIT */
/* The agent's event loop: one thread, the main one, that all sources are called on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct source {
	int fd;
	void (*ready)(struct source *src, uint32_t events);
	/* Set by loop_del(): called when no event can name the source any more. */
	void (*gone)(struct source *src);
	struct source *next_gone;
	bool deleted;
};

int loop_init(void);

/* events: EPOLL*. Only from the loop's thread; loop_mod() from any. */
int loop_add(struct source *src, uint32_t events);
int loop_mod(struct source *src, uint32_t events);
/* Takes it out; the descriptor stays the caller's to close. gone() comes after this round. */
void loop_del(struct source *src, void (*gone)(struct source *src));

/* Calls fn(arg) on the loop's thread soon. Any thread; p is the caller's until then. */
struct post {
	struct post *next;
	void (*fn)(struct post *p);
};
void loop_post(struct post *p);

/* Calls tick() after every round; it returns the ms until it wants to be called again, or -1.
 * Returns when tick() sets *stop. */
void loop_run(int (*tick)(void *arg), void *arg, const bool *stop);
