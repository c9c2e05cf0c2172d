/* SPDX-License-Identifier: MIT */
/*
 * stdin: before the start a file that the command reads; of a job that runs with `pipe` or a
 * terminal, its live input. A write waits for room there and can be interrupted. ctl/stdin is what
 * waits for the next command, whoever wrote it: the agent is asked for it, and for where it ends.
 */
#include "fs/ctl.h"

#include "fs/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBE 65536u

static enum op_outcome reply_size(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, j.stdin_size, (enum answer)op->flags);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome size_unknown(struct op *op, fuse_req_t req, int r)
{
	if (req && r == -ENOENT)
		fuse_reply_err(req, ENOENT);
	else if (req)
		ctl_answer(req, op->ino, 0, (enum answer)op->flags);
	return OP_DONE;
}

static void put_probe(struct op *op)
{
	op->call.repeat = true;
	wire_u64(&op->call.frame, 0);
	wire_u8(&op->call.frame, PROTO_STREAM_STDIN);
	wire_u64(&op->call.frame, op->off);
	wire_u32(&op->call.frame, PROBE);
}

/* No message tells the size of ctl/stdin, but a read ends there. Most often the first does; else
 * ever further, then between what is there (op->node bytes) and what is not (op->fh). */
static enum op_outcome reply_probed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;

	wire_get_bytes(body, PROBE, &n);
	if (!wire_end(body) || op->off > INT64_MAX / 4)
		return OP_BAD;
	if (n || !op->off)
		op->node = op->off + n;
	else
		op->fh = op->off;
	if ((n || !op->off) && n < PROBE)
		op->fh = op->node;
	if (op->fh > op->node || (!op->fh && op->node)) {
		op->off = op->fh ? op->node + (op->fh - op->node) / 2 : op->node * 2;
		op_next(op, PROTO_JOB_READ);
		put_probe(op);
		return OP_AGAIN;
	}
	seen_input(itable_seen(op->ino->table), op->node);
	if (req)
		ctl_answer(req, op->ino, op->node, (enum answer)op->flags);
	return OP_DONE;
}

/* Nobody can be asked now. */
static enum op_outcome probe_failed(struct op *op, fuse_req_t req, int r)
{
	(void)r;
	if (req)
		ctl_answer(req, op->ino, seen_get_input(itable_seen(op->ino->table)),
			(enum answer)op->flags);
	return OP_DONE;
}

static struct op *probe(fuse_req_t req, struct inode *i)
{
	struct op *op = op_new(req, i, PROTO_JOB_READ, reply_probed);

	if (op) {
		op->failed = probe_failed;
		put_probe(op);
	}
	return op;
}

static void stdin_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct op *op =
		i->job ? ctl_ask_job(req, i, i->job, reply_size, size_unknown) : probe(req, i);

	(void)fi;
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

static void stdin_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void stdin_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)fi;
	if (!i->job && ctl_no_job_yet(i->sb)) /* and nothing was written for one */
		fuse_reply_buf(req, NULL, 0);
	else
		ctl_read(req, i, i->job, PROTO_STREAM_STDIN, size, off, NULL);
}

static struct op *prepare(fuse_req_t req, struct inode *i, const char *data, size_t size,
	uint64_t off, uint8_t flags,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	struct op *op = op_new(req, i, PROTO_JOB_STDIN, reply);

	if (!op)
		return NULL;
	op->failed = ctl_failed;
	op->any_signal = true; /* as a pipe that is full */
	op->off = off;
	op->size = size;
	wire_u64(&op->call.frame, i->job);
	wire_u64(&op->call.frame, off);
	wire_u8(&op->call.frame, flags);
	wire_bytes(&op->call.frame, data, size);
	return op;
}

/* How many bytes were taken; -1: malformed. */
static int64_t taken(struct op *op, struct wire_in *body)
{
	uint32_t n = wire_get_u32(body);
	struct seen *seen = itable_seen(op->ino->table);

	if (!wire_end(body) || n > op->size || (!n && op->size))
		return -1;
	if (!op->ino->job && op->off + n > seen_get_input(seen))
		seen_input(seen, op->off + n);
	return n;
}

static enum op_outcome reply_written(struct op *op, fuse_req_t req, struct wire_in *body)
{
	int64_t n = taken(op, body);

	if (n < 0)
		return OP_BAD;
	if (req)
		fuse_reply_write(req, (size_t)n);
	return OP_DONE;
}

/* The kernel's offset of an append is the size that it was last told. */
static void stdin_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	struct op *op;

	(void)fi;
	if (size > PROTO_MAX_DATA)
		size = PROTO_MAX_DATA;
	op = prepare(req, i, data, size, (uint64_t)off, 0, reply_written);
	if (op)
		op_send(op);
}

static enum op_outcome reply_emptied(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (taken(op, body) < 0)
		return OP_BAD;
	if (!op->ino->job)
		seen_input(itable_seen(op->ino->table), 0);
	if (req)
		ctl_answer(req, op->ino, 0, ANSWER_ATTR);
	return OP_DONE;
}

static void stdin_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	struct op *op;

	(void)fi;
	if ((to_set & ~FUSE_SET_ATTR_SIZE) || st->st_size != 0) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op = prepare(req, i, NULL, 0, 0, PROTO_STDIN_TRUNCATE, reply_emptied);
	if (op)
		op_send(op);
}

/* A put goes on with what was not taken yet. */
struct rest {
	size_t size, done;
	char data[];
};

static void rest_free(struct op *op)
{
	free(op->data);
}

static enum op_outcome reply_put(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct rest *rest = op->data;
	int64_t n = taken(op, body);

	if (n < 0)
		return OP_BAD;
	rest->done += (size_t)n;
	if (!req)
		return OP_DONE;
	if (rest->done == rest->size) {
		fuse_reply_err(req, 0);
		return OP_DONE;
	}
	op->off = rest->done;
	op->size =
		rest->size - rest->done < PROTO_MAX_DATA ? rest->size - rest->done : PROTO_MAX_DATA;
	op_next(op, PROTO_JOB_STDIN);
	wire_u64(&op->call.frame, op->ino->job);
	wire_u64(&op->call.frame, op->off);
	wire_u8(&op->call.frame, 0);
	wire_bytes(&op->call.frame, rest->data + rest->done, op->size);
	return OP_AGAIN;
}

static void stdin_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	size_t first = size < PROTO_MAX_DATA ? size : PROTO_MAX_DATA;
	struct rest *rest = malloc(sizeof(*rest) + size);
	struct op *op;

	if (!rest) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	rest->size = size;
	rest->done = 0;
	if (size)
		memcpy(rest->data, data, size);
	if (!i->job)
		seen_input(itable_seen(i->table), 0);
	op = prepare(req, i, data, first, 0, PROTO_STDIN_TRUNCATE, reply_put);
	if (!op) {
		free(rest);
		return;
	}
	op->data = rest;
	op->fini = rest_free;
	op_send(op);
}

const struct node_ops stdin_ops = {
	.kind = 'i',
	.measure = stdin_measure,
	.setattr = stdin_setattr,
	.open = stdin_open,
	.read = stdin_read,
	.write = stdin_write,
	.put = stdin_put,
};
