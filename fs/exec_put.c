/* SPDX-License-Identifier: MIT */
/* A whole command at once (a scratch file was renamed onto exec or argv): reserved, written,
 * started, and not waited for. */
#include "fs/exec.h"

#include "fs/caller.h"
#include "fs/trail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct text {
	uint64_t job; /* 0: not reserved yet */
	struct trail_text trail;
	size_t size, sent;
	char data[];
};

static void text_free(struct op *op)
{
	free(op->data);
}

static enum op_outcome put_failed(struct op *op, fuse_req_t req, int r)
{
	struct text *t = op->data;

	if (r == -EBUSY && op->call.type == PROTO_JOB_START && op->call.losses) {
		trail_started(op->ino, t->job, &t->trail);
		if (req) /* it was started before the connection broke */
			fuse_reply_err(req, 0);
		return OP_DONE;
	}
	if (t->job && op->call.type == PROTO_JOB_START)
		exec_not_started(op->ino, t->job, &op->call, r);
	else if (t->job)
		exec_unreserve(op->ino, t->job);
	return ctl_failed(op, req, r);
}

static enum op_outcome reply_started(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct text *t = op->data;

	wire_get_u32(body); /* its pid */
	if (!wire_end(body))
		return OP_BAD;
	trail_started(op->ino, t->job, &t->trail);
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

static enum op_outcome reply_written(struct op *op, fuse_req_t req, struct wire_in *body);

/* The next piece; after the last the start. */
static enum op_outcome next(struct op *op, fuse_req_t req)
{
	struct text *t = op->data;
	size_t n = t->size - t->sent < PROTO_MAX_DATA ? t->size - t->sent : PROTO_MAX_DATA;

	if (!req) {
		exec_unreserve(op->ino, t->job);
		return OP_DONE;
	}
	op->reply = n ? reply_written : reply_started;
	op_next(op, n ? PROTO_JOB_WRITE : PROTO_JOB_START);
	op->call.repeat = true;
	wire_u64(&op->call.frame, t->job);
	if (n) {
		wire_u64(&op->call.frame, t->sent);
		wire_bytes(&op->call.frame, t->data + t->sent, n);
		t->sent += n;
	} else {
		wire_u8(&op->call.frame, exec_form(op->ino));
	}
	return OP_AGAIN;
}

static enum op_outcome reply_written(struct op *op, fuse_req_t req, struct wire_in *body)
{
	return wire_end(body) ? next(op, req) : OP_BAD;
}

static enum op_outcome reply_reserved(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct text *t = op->data;
	uint64_t job = wire_get_u64(body);

	if (!exec_reserved(op->ino, job, body))
		return OP_BAD;
	t->job = job;
	return next(op, req);
}

/* Nothing in it: nothing runs, as when nothing was written. */
void exec_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	struct text *t;
	struct op *op;

	if (!size) {
		fuse_reply_err(req, 0);
		return;
	}
	t = malloc(sizeof(*t) + size);
	if (!t) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*t = (struct text){.size = size};
	memcpy(t->data, data, size);
	t->trail.uid = fuse_req_ctx(req)->uid;
	t->trail.pid = caller_process(fuse_req_ctx(req)->pid);
	trail_write(&t->trail, 0, data, size);
	op = op_new(req, i, PROTO_JOB_OPEN, reply_reserved);
	if (!op) {
		free(t);
		return;
	}
	op->failed = put_failed;
	op->data = t;
	op->fini = text_free;
	op->call.repeat = true;
	wire_u64(&op->call.frame, i->job);
	op_send(op);
}
