/* SPDX-License-Identifier: MIT */
/* How far a pull is, over all layers, from what the engine says of each. Pure, one thread at a
 * time; whatever the engine says, the numbers only grow and are bounded. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_LAYERS_MAX 256 /* an image has at most 127 */

struct progress_layer {
	char id[32];
	int64_t bytes, total; /* total 0: not said yet */
	bool here;	      /* the engine had it already: nothing to fetch */
};

struct progress {
	struct progress_layer layers[PROGRESS_LAYERS_MAX];
	size_t n;
	int64_t bytes, total; /* of all layers so far */
	int percent;	      /* 0 to 99: 100 is the end, and the caller's to tell */
};

/* One object of the stream; true where a number has changed. */
bool progress_feed(struct progress *p, const cJSON *o);
