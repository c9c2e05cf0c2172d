/* SPDX-License-Identifier: MIT */
/* Open files in a sandbox's tree: their bytes. */
#include "fs/tree.h"

#include "fs/forget.h"
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct handle *handle_of(const struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

void handle_close(struct sandbox *sb, uint64_t fh, uint32_t epoch)
{
	struct buf frame;

	buf_init(&frame, PROTO_HEAD + 8);
	proto_begin(&frame, PROTO_CLOSE, 0, 0, 0, 0);
	wire_u64(&frame, fh);
	sandbox_post(sb, epoch, &frame);
	buf_fini(&frame);
}

static uint32_t open_flags(int flags)
{
	uint32_t f = 0;

	if ((flags & O_ACCMODE) != O_WRONLY)
		f |= PROTO_O_READ;
	if ((flags & O_ACCMODE) != O_RDONLY)
		f |= PROTO_O_WRITE;
	if (flags & O_APPEND)
		f |= PROTO_O_APPEND;
	if (flags & O_TRUNC)
		f |= PROTO_O_TRUNC;
	if (flags & O_EXCL)
		f |= PROTO_O_EXCL;
	if ((flags & O_SYNC) == O_SYNC)
		f |= PROTO_O_SYNC;
	else if (flags & O_DSYNC)
		f |= PROTO_O_DSYNC;
	return f;
}

/* A buffered write is cut at the pages' ends, and each piece would be an append of its own, with
 * those of the sandbox in between: so an append goes whole. */
static bool goes_whole(const struct fuse_file_info *fi)
{
	return fi->flags & O_APPEND &&
	       ((fi->flags & O_ACCMODE) == O_WRONLY || session_maps_direct());
}

/* A handle for what the agent has just opened. */
static struct handle *handle_new(struct op *op)
{
	struct handle *h = malloc(sizeof(*h));

	if (h)
		*h = (struct handle){.fh = op->fh,
			.epoch = sandbox_epoch(op->sb),
			.append = op->fi.flags & O_APPEND};
	return h;
}

static void drop_handle(struct op *op, struct handle *h)
{
	handle_close(op->sb, op->fh, sandbox_epoch(op->sb));
	free(h);
}

static enum op_outcome reply_open(struct op *op, fuse_req_t req, struct wire_in *body)
{
	bool dir = op->call.type == PROTO_OPENDIR;
	uint32_t opened = dir ? 0 : wire_get_u32(body);
	struct handle *h = NULL;

	if (!wire_end(body))
		return OP_BAD;
	op->fi.keep_cache = (opened & PROTO_OPENED_KEEP) != 0;
	if (req)
		h = handle_new(op);
	if (!h) {
		drop_handle(op, NULL);
		if (req)
			fuse_reply_err(req, ENOMEM);
		return OP_DONE;
	}
	op->fi.fh = (uint64_t)(uintptr_t)h;
	op->fi.direct_io = !dir && goes_whole(&op->fi);
	if (fuse_reply_open(req, &op->fi) < 0)
		drop_handle(op, h);
	return OP_DONE;
}

void tree_open_as(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, uint16_t type)
{
	struct op *op = op_new(req, i, type, reply_open);

	if (!op)
		return;
	op->fi = *fi;
	op->barrier = true; /* what was done before an open is seen after it */
	op->fh = atomic_fetch_add(&op->fs->next_id, 1);
	wire_u64(&op->call.frame, i->node);
	wire_u64(&op->call.frame, op->fh);
	if (type == PROTO_OPEN)
		wire_u32(&op->call.frame, open_flags(fi->flags));
	op_send(op);
}

void tree_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	tree_open_as(req, i, fi, PROTO_OPEN);
}

static enum op_outcome reply_create(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct handle *h = NULL;
	struct inode *i = NULL;
	struct proto_attr a;
	struct fuse_entry_param e;
	struct stat st;

	if (!tree_get_attr(body, &a))
		return OP_BAD;
	if (req) {
		h = handle_new(op);
		i = tree_found(op, &a, &st);
	} else {
		forget_now(op->sb, sandbox_epoch(op->sb), op->node, 1);
		tree_made_unseen(op);
	}
	if (!h || !i) {
		drop_handle(op, h);
		if (i)
			inode_forget(i, 1);
		if (req)
			fuse_reply_err(req, EIO);
		return OP_DONE;
	}
	e = inode_entry(i, a.cache);
	e.attr = st;
	op->fi.fh = (uint64_t)(uintptr_t)h;
	op->fi.direct_io = goes_whole(&op->fi);
	if (fuse_reply_create(req, &e, &op->fi) < 0) {
		drop_handle(op, h);
		inode_forget(i, 1);
	}
	return OP_DONE;
}

void tree_create(
	fuse_req_t req, struct inode *dir, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct op *op = tree_new_node(req, dir, name, PROTO_CREATE);

	if (!op)
		return;
	op->reply = reply_create;
	op->fi = *fi;
	op->fh = atomic_fetch_add(&op->fs->next_id, 1);
	wire_u64(&op->call.frame, op->fh);
	wire_u32(&op->call.frame, open_flags(fi->flags));
	wire_u32(&op->call.frame, tree_mode(req, mode & 07777));
	op_send(op);
}

struct op *tree_on_handle(fuse_req_t req, struct inode *i, const struct handle *h, uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	struct op *op = op_new(req, i, type, reply);

	if (!op)
		return NULL;
	op->call.epoch = op->epoch = h->epoch;
	wire_u64(&op->call.frame, h->fh);
	return op;
}

void tree_read(fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct op *op = tree_on_handle(req, i, handle_of(fi), PROTO_READ, op_reply_data);

	if (!op)
		return;
	op->size = size < PROTO_MAX_DATA ? size : PROTO_MAX_DATA;
	op->call.repeat = true;
	wire_u64(&op->call.frame, (uint64_t)off);
	wire_u32(&op->call.frame, (uint32_t)op->size);
	op_send(op);
}

static enum op_outcome reply_write(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint32_t n = wire_get_u32(body);

	if (!wire_end(body) || n > op->size)
		return OP_BAD;
	if (req)
		fuse_reply_write(req, n);
	return OP_DONE;
}

void tree_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	/* What was stored in a mapping goes where it was, and fcntl(2) may have changed the flag.
	 */
	bool append = fi->flags & O_APPEND && !fi->writepage;
	bool as_opened = append == handle_of(fi)->append;
	struct op *op = tree_on_handle(
		req, i, handle_of(fi), as_opened ? PROTO_WRITE : PROTO_WRITE_AS, reply_write);

	if (!op)
		return;
	op->size = size < PROTO_MAX_DATA ? size : PROTO_MAX_DATA;
	op->call.repeat = !append;
	wire_u64(&op->call.frame, (uint64_t)off);
	if (!as_opened)
		wire_u8(&op->call.frame, append);
	wire_bytes(&op->call.frame, data, op->size);
	op_send(op);
}

void tree_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);

	if (h->flocked || h->ranged) {
		tree_release_locked(req, i, fi);
		return;
	}
	if (!h->local)
		handle_close(i->sb, h->fh, h->epoch);
	i->leaving -= h->leaving;
	free(h);
	fuse_reply_err(req, 0);
}

void tree_fsync(fuse_req_t req, struct inode *i, int data_only, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct op *op;

	if (h->local) {
		fuse_reply_err(req, 0);
		return;
	}
	op = tree_on_handle(req, i, h, PROTO_FSYNC, op_reply_nothing);
	if (!op)
		return;
	op->call.repeat = true;
	wire_u8(&op->call.frame, data_only != 0);
	op_send(op);
}
