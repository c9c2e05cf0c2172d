/* SPDX-License-Identifier: MIT */
/* Symbolic links in a sandbox's tree: read and made as the mount's policy says. */
#include "fs/tree.h"

#include "common/cleanup.h"
#include "fs/symlink.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a link stands; strings are in the struct. */
struct stand {
	struct link_place at;
	struct place place;
	char dir[2 * PATH_MAX];
	struct sandbox_info info;
};

/* With s->place set. */
static int stand(struct sandbox *sb, struct stand *s)
{
	int r = sandbox_info(sb, &s->info);

	if (r < 0)
		return r;
	snprintf(s->dir, sizeof(s->dir), "%s%s",
		s->place.tree == TREE_WORKSPACE ? s->info.workspace : "", s->place.path);
	s->at = (struct link_place){.tree = s->place.tree,
		.depth = s->place.depth,
		.least = s->place.least,
		.sure = s->place.sure,
		.dir = s->dir,
		.sandbox = s->info.name};
	return 0;
}

static int show(struct inode *link, const char *text, char **out)
{
	struct stand s;
	int r;

	s.info = (struct sandbox_info){0};
	r = inode_link_place(link, &s.place);
	if (r == 0)
		r = stand(link->sb, &s);
	if (r == 0)
		r = symlink_show(&s.at, text, out);
	sandbox_info_fini(&s.info);
	return r;
}

static enum op_outcome reply_readlink(struct op *op, fuse_req_t req, struct wire_in *body)
{
	cleanup_free char *text = wire_get_str(body, PROTO_PATH_MAX - 1);
	cleanup_free char *shown = NULL;
	int r = 0;

	if (!wire_end(body))
		return OP_BAD;
	if (!req)
		return OP_DONE;
	if (op->fs->options->symlinks == SYMLINKS_CONTAIN)
		r = show(op->ino, text, &shown);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_readlink(req, shown ? shown : text);
	return OP_DONE;
}

void tree_readlink(fuse_req_t req, struct inode *i)
{
	struct op *op;

	if (i->fs->options->symlinks == SYMLINKS_DENY) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op = op_new(req, i, PROTO_READLINK, reply_readlink);
	if (!op)
		return;
	wire_u64(&op->call.frame, i->node);
	op->call.repeat = true;
	op_send(op);
}

void tree_symlink(fuse_req_t req, struct inode *dir, const char *name, const char *text)
{
	cleanup_free char *stored = NULL;
	struct stand s;
	struct op *op;
	int r;

	s.info = (struct sandbox_info){0};
	r = inode_place(dir, &s.place);
	if (r == 0)
		r = stand(dir->sb, &s);
	if (r == 0 && dir->fs->options->symlinks != SYMLINKS_RAW)
		r = symlink_store(&s.at, text, &stored);
	sandbox_info_fini(&s.info);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	op = tree_new_node(req, dir, name, PROTO_SYMLINK);
	if (op) {
		op->reply = tree_reply_entry;
		wire_str(&op->call.frame, stored ? stored : text);
		op_send(op);
	}
}
