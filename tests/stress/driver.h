/*
 * What the programs that follow the model have in common: they let the host or the inside act,
 * learn, report.
 */
#ifndef STRESS_DRIVER_H
#define STRESS_DRIVER_H

#include <stdint.h>

#include "act.h"
#include "box.h"
#include "pick.h"

enum { BATCH = 1500, LOG = 64 };

struct batch {
	struct op ops[BATCH];
	int count;
	char args[BATCH * 200]; /* as they travel */
	size_t len;
};

struct driver {
	struct box box;
	struct tree tree;
	struct pick pick;
	struct actor actor;
	uint64_t seed;
	long done, wanted; /* operations, or rounds */
	long counts[OP_KINDS];
	int wrongs;
	char log[LOG][300]; /* a ring of the last operations */
	long logged;
};

/* Parses `[--seed S] [--NAME N] [--without KINDS] [--local INSIDE] DIR`; NAME is what `wanted`
 * counts. */
int driver_open(struct driver *d, int argc, char **argv, const char *name);
/* Keeps OP in mind for a report. */
void driver_log(struct driver *d, const char *side, const struct op *op);
/* Says what was wrong with OP, and, the first time, what had come before. */
void driver_report(struct driver *d, const char *side, const char *op, const char *why);
/* Lets the host act; 0, or -1 after a report. AHEAD: the model has gone on since it saw OP. */
int driver_host(struct driver *d, struct op *op, int ahead);

void batch_add(struct batch *batch, const struct op *op);
/* Sends it inside; in one or in two steps. The number of those that went wrong, each reported. */
int driver_inside(struct driver *d, struct batch *batch);
void driver_begin(struct driver *d, struct batch *batch);
int driver_end(struct driver *d);
/* Reads what the last command inside printed: wrongs, and the times that OP_SNAPs saw. Expects
 * COUNT done. */
int driver_results(struct driver *d, int count);

/* Adds OP_SNAPs for all whose times the model does not know. */
void driver_snaps(struct driver *d, struct batch *batch, int trees);
/* Adds looks at everything that must be in TREES, and at what must not, in random order. */
void driver_looks(struct driver *d, struct batch *batch, int trees);
/* A line: how many of each kind. */
void driver_counts(const struct driver *d);

/* The program inside: performs the operations in its arguments. */
int driver_act(int argc, char **argv);

#endif
