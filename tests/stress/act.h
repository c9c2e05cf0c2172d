/*
 * Performs operations on a real tree, which is the current directory, and compares what comes of
 * them.
 */
#ifndef STRESS_ACT_H
#define STRESS_ACT_H

#include "op.h"

struct actor {
	struct {
		int fd;
		char *map; /* OP_MAP bytes */
	} held[OP_SLOTS];
	char why[512]; /* of the last operation that did not go as it must */
};

/* 0, or -1 with the reason in actor->why. */
int act(struct actor *actor, struct op *op);

#endif
