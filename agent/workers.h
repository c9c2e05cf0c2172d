/* SPDX-License-Identifier: MIT */
/* A few threads for what may take long. */
#pragma once

struct work {
	struct work *next;	     /* the pool's */
	void (*run)(struct work *w); /* on a worker, which does not look at w afterwards */
};

void workers_add(struct work *w);
