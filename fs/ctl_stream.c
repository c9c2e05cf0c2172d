/* SPDX-License-Identifier: MIT */
/* stdout, stderr and output of the last command, or of a job: read from the agent as they are asked
 * for. An open file stays with the command that was the last when it was opened; a poll of it waits
 * for more than was read. */
#include "fs/ctl.h"

#include "fs/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static unsigned stream_of(const struct inode *i)
{
	return i->which - CTL_STDOUT + PROTO_STREAM_STDOUT;
}

static struct poller *reading_of(const struct fuse_file_info *fi)
{
	return fi ? (struct poller *)(uintptr_t)fi->fh : NULL;
}

static enum op_outcome reply_size(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, j.size[stream_of(op->ino)], (enum answer)op->flags);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome size_unknown(struct op *op, fuse_req_t req, int r)
{
	if (req && r == -ENOENT && op->ino->job)
		fuse_reply_err(req, ENOENT);
	else if (req)
		ctl_answer(req, op->ino, 0, (enum answer)op->flags);
	return OP_DONE;
}

static void stream_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct poller *rd = reading_of(fi);
	struct op *op;

	if (rd && !rd->job) {
		ctl_answer(req, i, 0, how);
		return;
	}
	op = ctl_ask_job(req, i, rd ? rd->job : i->job, reply_size, size_unknown);
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

static void reading_free(struct poller *p)
{
	free(p);
}

static void reply_open(struct op *op, fuse_req_t req, uint64_t job)
{
	struct poller *rd = malloc(sizeof(*rd));

	if (!rd) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	poller_init(rd, op->sb, job, (uint8_t)stream_of(op->ino), 0, reading_free);
	op->fi.fh = (uint64_t)(uintptr_t)rd;
	op->fi.direct_io = 1;
	if (fuse_reply_open(req, &op->fi) < 0)
		poller_put(rd);
}

static enum op_outcome reply_opened(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
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
	if (!op->ino->job && (r == -ENOENT || (r == -EAGAIN && ctl_no_job_yet(op->sb))))
		reply_open(op, req, 0);
	else
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

static void stream_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct op *op;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		ctl_read_only(req, i);
		return;
	}
	op = ctl_ask_job(req, i, i->job, reply_opened, open_unknown);
	if (op) {
		op->fi = *fi;
		op_send_now(op);
	}
}

static void stream_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct poller *rd = reading_of(fi);

	ctl_read(req, i, rd->job, rd->stream, size, off, rd);
}

static void stream_poll(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
	poller_poll(req, i, reading_of(fi), ph);
}

static void stream_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	poller_close(reading_of(fi));
	fuse_reply_err(req, 0);
}

const struct node_ops ctl_stream_ops = {
	.kind = 's',
	.measure = stream_measure,
	.open = stream_open,
	.read = stream_read,
	.poll = stream_poll,
	.release = stream_release,
};
