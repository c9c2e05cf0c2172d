/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes in a sandbox's tree. The agent is asked for the whole value; what the caller
 * has room for is settled here. Access lists (system.posix_acl_*) are values like others: what they
 * mean is for the sandbox's kernel, and for ours where it decides (shown_lists).
 *
 * File capabilities are not passed: the mount is nosuid, and the kernel asks for them before each
 * write. ops.c answers for those; they are left out of lists here.
 */
#include "fs/tree.h"

#include "common/cleanup.h"
#include "fs/box.h"
#include "fs/changes.h"
#include "fs/shown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* n bytes for a caller that has room for op->size; 0 asks how many there are. */
static void answer(struct op *op, fuse_req_t req, const void *p, size_t n)
{
	if (!op->size)
		fuse_reply_xattr(req, n);
	else if (n > op->size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, p, n);
}

static enum op_outcome reply_value(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(body, PROTO_XATTR_MAX, &n);

	if (!wire_end(body))
		return OP_BAD;
	if (req)
		answer(op, req, p, n);
	return OP_DONE;
}

/* Copies the names that are shown; how many bytes, or -1 if it is not a list of names. */
static ssize_t shown_names(const uint8_t *p, size_t n, char *to)
{
	size_t used = 0;

	while (n) {
		size_t len = strnlen((const char *)p, n);

		if (!len || len == n || len > PROTO_NAME_MAX)
			return -1;
		if (strcmp((const char *)p, XATTR_CAPABILITY) != 0) {
			memcpy(to + used, p, len + 1);
			used += len + 1;
		}
		p += len + 1;
		n -= len + 1;
	}
	return (ssize_t)used;
}

static enum op_outcome reply_list(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(body, PROTO_XATTR_MAX, &n);
	cleanup_free char *names = malloc(n + 1);
	ssize_t used;

	if (!wire_end(body))
		return OP_BAD;
	used = names ? shown_names(p, n, names) : 0;
	if (used < 0)
		return OP_BAD;
	if (req && !names)
		fuse_reply_err(req, ENOMEM);
	else if (req)
		answer(op, req, names, (size_t)used);
	return OP_DONE;
}

/* NULL: has been answered. A removed sandbox's empty directory has none. */
static struct op *ask(fuse_req_t req, struct inode *i, uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	struct op *op;

	if (!i->epoch && box_is_husk(i->sb)) {
		fuse_reply_err(req, type == PROTO_GETXATTR ? ENODATA : EOPNOTSUPP);
		return NULL;
	}
	op = op_new(req, i, type, reply);
	if (op)
		wire_u64(&op->call.frame, i->node);
	return op;
}

/* The kernel asks for a list to decide by. On a file system that has none there is none: what it is
 * answered otherwise would be the caller's errno, whatever the mode allows. */
static enum op_outcome no_list(struct op *op, fuse_req_t req, int r)
{
	(void)op;
	if (req)
		fuse_reply_err(req, r == -EOPNOTSUPP ? ENODATA : -r);
	return OP_DONE;
}

static bool is_list(const char *name)
{
	return strncmp(name, "system.posix_acl_", strlen("system.posix_acl_")) == 0;
}

void tree_getxattr(fuse_req_t req, struct inode *i, const char *name, size_t size)
{
	struct op *op = ask(req, i, PROTO_GETXATTR, reply_value);

	if (!op)
		return;
	op->size = size;
	op->call.repeat = true;
	if (is_list(name) && shown_lists(i->fs))
		op->failed = no_list;
	wire_str(&op->call.frame, name);
	op_send(op);
}

void tree_listxattr(fuse_req_t req, struct inode *i, size_t size)
{
	struct op *op = ask(req, i, PROTO_LISTXATTR, reply_list);

	if (!op)
		return;
	op->size = size;
	op->call.repeat = true;
	op_send(op);
}

/* An ACL is also a mode, and the kernel does not know that. */
static enum op_outcome reply_changed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	changes_tell_attr(op->ino);
	return op_reply_nothing(op, req, body);
}

void tree_setxattr(fuse_req_t req, struct inode *i, const char *name, const char *value,
	size_t size, int flags)
{
	struct op *op;

	if (size > PROTO_XATTR_MAX) {
		fuse_reply_err(req, E2BIG);
		return;
	}
	op = ask(req, i, PROTO_SETXATTR, reply_changed);
	if (!op)
		return;
	op->call.repeat = !flags; /* a second CREATE would find the first one's work */
	wire_str(&op->call.frame, name);
	wire_bytes(&op->call.frame, value, size);
	wire_u32(&op->call.frame, (uint32_t)flags); /* Linux's numbers are the protocol's */
	op_send(op);
}

void tree_removexattr(fuse_req_t req, struct inode *i, const char *name)
{
	struct op *op = ask(req, i, PROTO_REMOVEXATTR, reply_changed);

	if (!op)
		return;
	wire_str(&op->call.frame, name);
	op_send(op);
}
