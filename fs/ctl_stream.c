/* SPDX-License-Identifier: MIT */
/* stdout, stderr and output of the last command: read from the agent as they are asked for. An open
 * file stays with the command that was the last when it was opened. */
#include "fs/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct reading {
	uint64_t job; /* 0: no command has run */
};

static unsigned stream_of(const struct inode *i)
{
	return i->which - CTL_STDOUT + PROTO_STREAM_STDOUT;
}

static struct reading *reading_of(const struct fuse_file_info *fi)
{
	return fi ? (struct reading *)(uintptr_t)fi->fh : NULL;
}

static bool get_job(struct op *op, struct wire_in *body, struct proto_job *j)
{
	proto_get_job(body, j);
	if (!wire_end(body)) {
		proto_job_fini(j);
		return false;
	}
	itable_remember_job(op->ino->table, j);
	return true;
}

static enum op_outcome reply_size(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!get_job(op, body, &j))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, j.size[stream_of(op->ino)], (enum answer)op->flags);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome size_unknown(struct op *op, fuse_req_t req, int r)
{
	(void)r;
	if (req)
		ctl_answer(req, op->ino, 0, (enum answer)op->flags);
	return OP_DONE;
}

static void stream_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct reading *rd = reading_of(fi);
	struct op *op;

	if (rd && !rd->job) {
		ctl_answer(req, i, 0, how);
		return;
	}
	op = ctl_ask_job(req, i, rd ? rd->job : 0, reply_size, size_unknown);
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

static void reply_open(struct op *op, fuse_req_t req, uint64_t job)
{
	struct reading *rd = malloc(sizeof(*rd));

	if (!rd) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	rd->job = job;
	op->fi.fh = (uint64_t)(uintptr_t)rd;
	op->fi.direct_io = 1;
	if (fuse_reply_open(req, &op->fi) < 0)
		free(rd);
}

static enum op_outcome reply_opened(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!get_job(op, body, &j))
		return OP_BAD;
	if (req)
		reply_open(op, req, j.job);
	proto_job_fini(&j);
	return OP_DONE;
}

/* No command has run: empty. A sandbox that is stopped keeps its output, out of reach. */
static enum op_outcome open_unknown(struct op *op, fuse_req_t req, int r)
{
	if (!req)
		return OP_DONE;
	if (r == -ENOENT || (r == -EAGAIN && ctl_no_job_yet(op->sb)))
		reply_open(op, req, 0);
	else
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

static void stream_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct op *op;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EACCES);
		return;
	}
	op = ctl_ask_job(req, i, 0, reply_opened, open_unknown);
	if (op) {
		op->fi = *fi;
		op_send_now(op);
	}
}

static void stream_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	ctl_read(req, i, reading_of(fi)->job, (uint8_t)stream_of(i), size, off);
}

static void stream_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	free(reading_of(fi));
	fuse_reply_err(req, 0);
}

const struct node_ops ctl_stream_ops = {
	.kind = 's',
	.measure = stream_measure,
	.open = stream_open,
	.read = stream_read,
	.release = stream_release,
};
