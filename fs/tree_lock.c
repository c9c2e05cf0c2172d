/* SPDX-License-Identifier: MIT */
/*
 * Locks on the files of a sandbox's tree. The agent takes them for us, so they hold against the
 * sandbox's own processes and other mounts; the host's kernel keeps none. An owner is what the
 * kernel says: a process's table of files (fcntl), or an open file (F_OFD_SETLK, flock).
 */
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#define AGAIN_MAX 50 /* round trips that a close under way is waited for */

/* How many locks an owner has asked for, by a hash: see undo(). */
static _Atomic uint32_t asked[256];

static _Atomic uint32_t *asked_by(const struct inode *i, uint64_t owner)
{
	return &asked[((owner ^ (uintptr_t)i) * 0x9e3779b97f4a7c15u) >> 56];
}

/* What a lock op needs to be sent, and to be sent again: op->fh, node (the owner), off and size
 * (first and last byte), flags (PROTO_LOCK_*), n (times it was sent). */
static void put_fields(struct op *op, bool wait)
{
	struct buf *b = &op->call.frame;

	op->call.epoch = op->epoch;
	op->call.repeat = true; /* to lock again what one has locked changes nothing */
	wire_u64(b, op->fh);
	switch (op->call.type) {
	case PROTO_FLOCK:
		wire_u32(b, op->flags);
		wire_u8(b, wait);
		break;
	case PROTO_LOCK_DROP:
		wire_u64(b, op->node);
		break;
	default:
		wire_u64(b, op->node);
		proto_put_lock(b,
			&(struct proto_lock){.type = op->flags, .start = op->off, .end = op->size});
		if (op->call.type == PROTO_LOCK)
			wire_u8(b, wait);
	}
}

static struct op *lock_op(fuse_req_t req, struct inode *i, const struct fuse_file_info *fi,
	uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	const struct handle *h = handle_of(fi);
	struct op *op = op_new(req, i, type, reply);

	if (!op)
		return NULL;
	op->epoch = h->epoch;
	op->fh = h->fh;
	op->node = fi->lock_owner;
	return op;
}

static bool set_range(struct op *op, const struct flock *l)
{
	op->off = (uint64_t)l->l_start;
	op->size = l->l_len ? (uint64_t)l->l_start + (uint64_t)l->l_len - 1 : (uint64_t)INT64_MAX;
	op->flags = l->l_type == F_RDLCK   ? PROTO_LOCK_READ
		    : l->l_type == F_WRLCK ? PROTO_LOCK_WRITE
					   : PROTO_LOCK_NONE;
	return op->off <= op->size && op->size <= INT64_MAX;
}

static enum op_outcome reply_test(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct flock fl = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	struct proto_lock l;

	(void)op;
	proto_get_lock(body, &l);
	if (!wire_end(body))
		return OP_BAD;
	if (l.type != PROTO_LOCK_NONE) {
		/* The holder's pid is the sandbox's, and another process's on the host: 0, which
		 * fcntl shows as it is. */
		fl.l_type = l.type == PROTO_LOCK_READ ? F_RDLCK : F_WRLCK;
		fl.l_start = (off_t)l.start;
		fl.l_len = l.end == INT64_MAX ? 0 : (off_t)(l.end - l.start + 1);
	}
	if (req)
		fuse_reply_lock(req, &fl);
	return OP_DONE;
}

void tree_getlk(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct flock *l)
{
	struct op *op = lock_op(req, i, fi, PROTO_LOCK_TEST, reply_test);

	if (!op)
		return;
	if (!set_range(op, l) || op->flags == PROTO_LOCK_NONE)
		op->call.frame.error = -EINVAL; /* sending it says so */
	put_fields(op, false);
	op_send(op);
}

/* Nobody waits for this lock any more: its caller was told EINTR. If it has asked for another since
 * then, that may be this one, which it holds now. */
static enum op_outcome undo(struct op *op)
{
	if (op->flags == PROTO_LOCK_NONE || op->count != *asked_by(op->ino, op->node))
		return OP_DONE;
	op->flags = PROTO_LOCK_NONE;
	op->reply = op_reply_nothing;
	op->failed = NULL;
	op->barrier = false;
	op_next(op, op->call.type);
	put_fields(op, false);
	return OP_AGAIN;
}

static enum op_outcome reply_locked(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	if (!req)
		return undo(op);
	fuse_reply_err(req, 0);
	return OP_DONE;
}

/* Asked for again: a lock that is taken while a close is under way, which may be taken by nobody,
 * since a close(2) that ends a flock has returned before the kernel tells us of it (RELEASE); and a
 * wait that ended because another thread of the same process closed the file, which on a local disk
 * goes on. EINTR is not for the kernel unless there is a signal: fcntl would return 512. */
static enum op_outcome lock_failed(struct op *op, fuse_req_t req, int r)
{
	bool again = r == -EAGAIN ? op->ino->leaving > 0 : r == -EINTR && !op->leaving;

	if (!req)
		return OP_DONE;
	if (again && op->n++ < AGAIN_MAX) {
		op_next(op, op->call.type);
		put_fields(op, op->wait);
		return OP_AGAIN;
	}
	fuse_reply_err(req, r == -EINTR && !op->leaving ? ENOLCK : -r);
	return OP_DONE;
}

static void send_lock(struct op *op, bool wait)
{
	op->barrier = op->flags != PROTO_LOCK_NONE;
	op->any_signal = true;
	op->failed = lock_failed;
	op->wait = wait;
	op->count = ++*asked_by(op->ino, op->node);
	put_fields(op, wait);
	op_send(op);
}

/* Its handle is in use after all: what closed was one of several descriptors. */
static void stays(struct inode *i, struct handle *h)
{
	if (atomic_exchange(&h->leaving, false))
		i->leaving--;
}

void tree_setlk(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct flock *l, int wait)
{
	struct op *op = lock_op(req, i, fi, PROTO_LOCK, reply_locked);
	struct handle *h = handle_of(fi);

	if (!op)
		return;
	if (!set_range(op, l))
		op->call.frame.error = -EINVAL;
	if (op->flags != PROTO_LOCK_NONE) {
		i->locked = true;
		h->owner = fi->lock_owner;
		h->ranged = true;
		stays(i, h);
	}
	send_lock(op, wait);
}

void tree_flock(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, int how)
{
	struct op *op = lock_op(req, i, fi, PROTO_FLOCK, reply_locked);
	struct handle *h = handle_of(fi);

	if (!op)
		return;
	switch (how & ~LOCK_NB) {
	case LOCK_SH:
		op->flags = PROTO_LOCK_READ;
		break;
	case LOCK_EX:
		op->flags = PROTO_LOCK_WRITE;
		break;
	default:
		op->flags = PROTO_LOCK_NONE;
	}
	if (op->flags != PROTO_LOCK_NONE) {
		h->flocked = true;
		stays(i, h);
	}
	send_lock(op, !(how & LOCK_NB));
}

/* Whatever became of it, the close is one. */
static enum op_outcome flush_failed(struct op *op, fuse_req_t req, int r)
{
	(void)op;
	(void)r;
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

void tree_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct op *op;

	/* What a process has locked goes now, and is not RELEASE's to end: by then the same process
	 * may have opened and locked the file again. */
	if (h->ranged && h->owner == fi->lock_owner)
		h->ranged = false;
	if ((h->flocked || h->ranged) && !atomic_exchange(&h->leaving, true))
		i->leaving++;
	/* Every write has been answered by now: but for locks nothing is left to do. */
	if (!i->locked) {
		fuse_reply_err(req, 0);
		return;
	}
	op = lock_op(req, i, fi, PROTO_LOCK_DROP, op_reply_nothing);
	if (!op)
		return;
	op->failed = flush_failed;
	++*asked_by(i, op->node);
	put_fields(op, false);
	if (sandbox_state(i->sb) == SANDBOX_RUNNING)
		op_send(op);
	else
		op_send_behind(op); /* nobody waits for a sandbox that is not up, nor wakes it */
}

/* The agent's CLOSE would end the locks too, but is a message that may be lost with its connection;
 * and a lock must not outlive its holder. */
static enum op_outcome release_next(struct op *op, fuse_req_t req)
{
	op->n &= op->n - 1; /* the lowest is done */
	if (op->n) {
		op_next(op, PROTO_LOCK_DROP);
		put_fields(op, false);
		return OP_AGAIN;
	}
	handle_close(op->sb, op->fh, op->epoch);
	op->ino->leaving -= op->count;
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

static enum op_outcome reply_released(struct op *op, fuse_req_t req, struct wire_in *body)
{
	return wire_end(body) ? release_next(op, req) : OP_BAD;
}

static enum op_outcome release_failed(struct op *op, fuse_req_t req, int r)
{
	(void)r;
	return release_next(op, req);
}

void tree_release_locked(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct op *op = NULL;

	if (sandbox_state(i->sb) == SANDBOX_RUNNING) {
		op = lock_op(
			req, i, fi, h->flocked ? PROTO_FLOCK : PROTO_LOCK_DROP, reply_released);
		req = NULL; /* it is op's, or has been answered */
	}
	if (op) {
		op->failed = release_failed;
		op->flags = PROTO_LOCK_NONE;
		op->node = h->owner;
		op->n = (h->flocked ? 1 : 0) | (h->ranged ? 2 : 0);
		op->count = h->leaving;
		put_fields(op, false);
		free(h);
		op_send(op);
		return;
	}
	handle_close(i->sb, h->fh, h->epoch);
	i->leaving -= h->leaving;
	free(h);
	if (req)
		fuse_reply_err(req, 0);
}
