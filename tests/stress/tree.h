/*
 * The model: what the tree under test must be by now. tree_apply() says of an operation what must
 * come of it, and does it to the model.
 */
#ifndef STRESS_TREE_H
#define STRESS_TREE_H

#include <stdint.h>

#include "op.h"

enum { IN_A = 1, IN_B = 2, IN_H = 4 };

struct node {
	char type; /* f, d, l */
	int mode, nlink, held;
	int in;		      /* tree_mark: in which of a, b, h it has a name */
	int64_t mtime, ctime; /* ns; -1: not known */
	uint64_t ino;	      /* as the host saw it first; 0: not yet */
	char *data;
	int64_t size;
	uint32_t target;	  /* of a symlink: the number in its text */
	int xattr_len[OP_XATTRS]; /* -1: none */
	uint32_t xattr_seed[OP_XATTRS];
	struct node *child[OP_NAMES];
	int children;
};

struct tree {
	struct node *top[3]; /* a, b, h */
	struct node *held[OP_SLOTS];
	int nodes;
};

/* Where a path leads. */
struct place {
	struct node *dir; /* where its last name is; NULL for a top */
	int index;
	struct node *node; /* or NULL */
};

void tree_init(struct tree *tree);
/* 0, or the errno with which a lookup of all but the last name fails; PLACE is complete with 0
 * only. */
int tree_find(const struct tree *tree, const char *path, struct place *place);
/* Fills in what OP must give, and changes the model as OP does. */
void tree_apply(struct tree *tree, struct op *op);
/* Renews the `in` of all nodes. */
void tree_mark(struct tree *tree);
/* The text of a symlink with this number. */
void tree_target(uint32_t number, char *text, int len);

#endif
