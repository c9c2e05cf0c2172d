/* SPDX-License-Identifier: MIT */
/* Ranges of open files in a sandbox's tree, whose bytes stay there: space, holes, copies. */
#include "fs/tree.h"

#include <errno.h>

void tree_fallocate(fuse_req_t req, struct inode *i, int mode, off_t off, off_t length,
	struct fuse_file_info *fi)
{
	struct op *op = tree_on_handle(req, i, handle_of(fi), PROTO_FALLOCATE, op_reply_nothing);

	if (!op)
		return;
	op->call.repeat = true;
	wire_u32(&op->call.frame, (uint32_t)mode); /* Linux's numbers are the protocol's */
	wire_u64(&op->call.frame, (uint64_t)off);
	wire_u64(&op->call.frame, (uint64_t)length);
	op_send(op);
}

static enum op_outcome reply_lseek(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint64_t at = wire_get_u64(body);

	/* Neither can lie before the place where the search began. */
	if (!wire_end(body) || at > INT64_MAX || at < op->off)
		return OP_BAD;
	if (req)
		fuse_reply_lseek(req, (off_t)at);
	return OP_DONE;
}

void tree_lseek(fuse_req_t req, struct inode *i, off_t off, int whence, struct fuse_file_info *fi)
{
	struct op *op = tree_on_handle(req, i, handle_of(fi), PROTO_LSEEK, reply_lseek);

	if (!op)
		return;
	op->off = (uint64_t)off;
	op->call.repeat = true;
	wire_u64(&op->call.frame, (uint64_t)off);
	wire_u32(&op->call.frame, (uint32_t)whence); /* SEEK_DATA and SEEK_HOLE are 3 and 4 */
	op_send(op);
}

static enum op_outcome reply_copy(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint64_t n = wire_get_u64(body);

	if (!wire_end(body) || n > op->size)
		return OP_BAD;
	if (req)
		fuse_reply_write(req, n);
	return OP_DONE;
}

void tree_copy(fuse_req_t req, struct inode *i, off_t off, struct fuse_file_info *fi,
	struct inode *to, off_t off_to, struct fuse_file_info *fi_to, size_t length)
{
	const struct handle *from = handle_of(fi), *into = handle_of(fi_to);
	struct op *op;

	/* EXDEV: the kernel reads and writes then. */
	if (to->ops != &tree_ops || to->sb != i->sb || from->epoch != into->epoch) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	op = tree_on_handle(req, i, from, PROTO_COPY, reply_copy);
	if (!op)
		return;
	op->ino2 = to;
	inode_get(to);
	op->size = length < UINT32_MAX ? length : UINT32_MAX; /* what the kernel's answer holds */
	op->call.repeat = true;
	wire_u64(&op->call.frame, (uint64_t)off);
	wire_u64(&op->call.frame, into->fh);
	wire_u64(&op->call.frame, (uint64_t)off_to);
	wire_u64(&op->call.frame, op->size);
	op_send(op);
}
