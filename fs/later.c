/* SPDX-License-Identifier: MIT */
/* Belongs to whoever is to answer: no lock. */
#include "fs/later.h"

#include "fs/op.h"

#include <errno.h>
#include <stdlib.h>

struct later *later_new(
	fuse_req_t req, struct inode *i, const struct fuse_file_info *fi, enum answer how)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	l->op = op_wait(req);
	if (!l->op) {
		free(l);
		return NULL;
	}
	l->i = i;
	inode_get(i);
	l->remembered = inode_remember(i);
	l->how = how;
	if (fi) {
		l->copy = *fi;
		l->fi = &l->copy;
	}
	return l;
}

fuse_req_t later_take(struct later *l)
{
	return op_take(l->op);
}

void later_free(struct later *l)
{
	if (l->remembered)
		inode_forget(l->i, 1);
	inode_put(l->i);
	free(l);
}

void later_run(struct later *l, void (*fn)(void *l))
{
	fuse_req_t req;

	if (registry_defer(l->i->fs->registry, fn, l) == 0)
		return;
	req = later_take(l);
	if (req)
		fuse_reply_err(req, ENOMEM);
	later_free(l);
}
