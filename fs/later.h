/* SPDX-License-Identifier: MIT */
/*
 * A question about a fixed file (its attributes, an open, a write) that another thread answers
 * after a while. Whoever asks can be interrupted until then.
 */
#pragma once

#include "fs/inode.h"

struct later {
	struct op *op;
	struct inode *i;	   /* a reference */
	bool remembered;	   /* and a lookup: it stays known */
	struct fuse_file_info *fi; /* of an open; else NULL */
	enum answer how;	   /* if it is no open */
	size_t size;		   /* of a write: the asker's to use */
	struct fuse_file_info copy;
};

/* NULL: no memory, and that has been answered. */
struct later *later_new(
	fuse_req_t req, struct inode *i, const struct fuse_file_info *fi, enum answer how);
/* The request, if somebody still waits for its answer. Once. */
fuse_req_t later_take(struct later *l);
void later_free(struct later *l);

/* fn(l) in a thread that may wait. */
void later_run(struct later *l, void (*fn)(void *l));
