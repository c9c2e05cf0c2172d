/*
 * Picks operations at random, such that most of them do something.
 */
#ifndef STRESS_PICK_H
#define STRESS_PICK_H

#include "data.h"
#include "tree.h"

struct pick {
	struct rnd rnd;
	int names, depth, nodes; /* of the table; of paths; of the tree at most, about */
	int64_t size;		 /* of a file at most */
	uint32_t without;	 /* a bit for each kind that is not wanted */
};

/* Who acts: on which trees (IN_A | ...), from the host or not, and whether the other acts at once.
 */
struct scope {
	int trees, host, at_once;
};

/* The model is asked, not changed: apply it. */
void pick_op(struct pick *pick, const struct tree *tree, const struct scope *scope, struct op *op);
/* The kinds in a list of names with commas, as bits; 0 with a message for a name that is none. */
uint32_t pick_kinds(const char *list);

#endif
