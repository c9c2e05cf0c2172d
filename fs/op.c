/* SPDX-License-Identifier: MIT */
/*
 * Requests in flight and their interrupts, by a number that is never used twice, because an
 * interrupt may come for a request that is being answered; in shards with a lock each. The kernel
 * sends INTERRUPT once, for the first signal of any kind: SIGCHLD must not end a command, but the
 * SIGINT after it must, and is not announced. So an interrupted request's caller is looked at, now
 * and every 100 ms while the request lasts, and leaves only if a signal is pending that it would
 * leave for.
 */
#include "fs/op.h"

#include "fs/caller.h"
#include "fs/changes.h"
#include "fs/shown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS	      100
#define PATIENT_TICKS 5 /* an agent that can answer has this long to do so */

#define SHARDS 16

struct shard {
	pthread_mutex_t lock;
	struct op *ops; /* protected by lock */
};

struct op_table {
	_Atomic uint64_t next_id;
	_Atomic unsigned interrupted; /* how many of them are */
	_Atomic bool ticking;
	_Atomic uint64_t rounds;    /* of looking at those */
	struct shard shard[SHARDS]; /* by id */
};

struct op_table *op_table_new(void)
{
	struct op_table *t = calloc(1, sizeof(*t));

	for (unsigned k = 0; t && k < SHARDS; k++)
		pthread_mutex_init(&t->shard[k].lock, NULL);
	return t;
}

void op_table_free(struct op_table *t)
{
	for (unsigned k = 0; t && k < SHARDS; k++)
		pthread_mutex_destroy(&t->shard[k].lock);
	free(t);
}

static struct shard *shard_of(struct op_table *t, uint64_t id)
{
	return &t->shard[id % SHARDS];
}

static void op_free(struct op *op)
{
	if (op->fini)
		op->fini(op);
	call_fini(&op->call);
	if (op->remembered)
		inode_forget(op->ino, 1);
	if (op->ino)
		inode_put(op->ino);
	if (op->ino2)
		inode_put(op->ino2);
	if (op->sb)
		sandbox_put(op->sb);
	free(op->name);
	free(op->name2);
	free(op->groups);
	free(op->held);
	free(op);
}

static void table_remove(struct op *op)
{
	struct op_table *t = op->fs->ops;
	struct shard *s = shard_of(t, op->id);

	pthread_mutex_lock(&s->lock);
	HASH_DEL(s->ops, op);
	t->interrupted -= op->interrupted;
	pthread_mutex_unlock(&s->lock);
}

/* A job that still runs has done nothing that would have to be seen. */
static bool wants_barrier(const struct op *op, const struct wire_in *body)
{
	struct wire_in in = *body;

	if (op->call.type != PROTO_JOB_INFO)
		return true;
	wire_get_u64(&in);
	return wire_get_u8(&in) > PROTO_RESULT_RUNNING;
}

/* Keeps a copy of the answer until the kernel has been told. False: there is nothing to tell. */
static bool hold(struct op *op, const struct wire_in *body)
{
	struct changes *changes = itable_changes(op->ino->table);
	size_t n = (size_t)(body->end - body->p);

	if (!changes || !wants_barrier(op, body) || changes_are_told(changes, op->call.seq))
		return false;
	op->held = malloc(n ? n : 1);
	if (!op->held)
		return false;
	memcpy(op->held, body->p, n);
	op->held_len = n;
	if (changes_hold(changes, op->call.seq, op))
		return true;
	free(op->held);
	op->held = NULL;
	return false;
}

static bool finish(struct op *op, int r, struct wire_in *body)
{
	enum op_outcome out = OP_DONE;
	fuse_req_t req;

	table_remove(op);
	req = atomic_exchange(&op->req, NULL);
	if (r == 0)
		out = op->reply(op, req, body);
	else if (op->failed)
		out = op->failed(op, req, r);
	else if (req)
		fuse_reply_err(req, -r);
	if (out == OP_BAD && req)
		fuse_reply_err(req, EIO);
	if (out == OP_AGAIN) {
		atomic_store(&op->req, req);
		op_send(op);
	} else {
		op_free(op);
	}
	return out != OP_BAD;
}

/* Messages that begin with the node that they are about, which is op->ino. */
static bool names_node(uint16_t type)
{
	switch (type) {
	case PROTO_GETATTR:
	case PROTO_SETATTR:
	case PROTO_READLINK:
	case PROTO_LINK:
	case PROTO_OPEN:
	case PROTO_STATFS:
	case PROTO_ACCESS:
	case PROTO_GETXATTR:
	case PROTO_SETXATTR:
	case PROTO_LISTXATTR:
	case PROTO_REMOVEXATTR:
		return true;
	default:
		return false;
	}
}

/* A file that is found by another of its names gets another number, and the one that it had is
 * forgotten, perhaps before a message with it came to the agent: then it names the new one. */
static bool renumbered(struct op *op)
{
	size_t at = PROTO_HEAD + (size_t)op->n_groups * 4;
	struct wire_in in;
	uint64_t now;

	if (!names_node(op->call.type) || op->call.frame.len < at + 8)
		return false;
	in = wire_in(op->call.frame.data + at, 8);
	now = op->ino->node;
	if (wire_get_u64(&in) == now || op->epoch != op->ino->epoch)
		return false;
	for (int k = 0; k < 8; k++)
		op->call.frame.data[at + (size_t)k] = (uint8_t)(now >> (8 * k));
	return true;
}

static bool op_done(struct call *c, int r, struct wire_in *body)
{
	struct op *op = (struct op *)c;

	if (r == -ESTALE && renumbered(op)) {
		sandbox_call(op->sb, c);
		return true;
	}
	if (r == 0 && op->barrier && hold(op, body))
		return true;
	return finish(op, r, body);
}

void op_released(struct op *op)
{
	struct wire_in body = wire_in(op->held, op->held_len);
	uint8_t *held = op->held;

	op->held = NULL;
	finish(op, 0, &body); /* a malformed body fails this one; the connection tells by others */
	free(held);
}

static void prepare(struct op *op, uint16_t type)
{
	bool as_user = !op->fs->options->allow_other || shown_as_one(op->fs);

	call_begin(&op->call, type, op->uid, op->gid);
	if (op->n_groups) {
		op->call.frame.data[6] = (uint8_t)op->n_groups; /* the head's count of them */
		op->call.frame.data[7] = (uint8_t)(op->n_groups >> 8);
		for (int k = 0; k < op->n_groups; k++)
			wire_u32(&op->call.frame, op->groups[k]);
	}
	op->call.as_user = as_user;
	op->call.epoch = op->epoch;
	op->call.done = op_done;
}

/* Without them the caller has its first group only, as a process of another pid namespace does. */
static void find_groups(struct op *op, fuse_req_t req)
{
	gid_t groups[PROTO_GROUPS_MAX];
	int n = fuse_req_getgroups(req, (int)PROTO_GROUPS_MAX, groups);

	if (n <= 0)
		return;
	if (n > (int)PROTO_GROUPS_MAX)
		n = (int)PROTO_GROUPS_MAX;
	op->groups = malloc((size_t)n * sizeof(*groups));
	if (!op->groups)
		return;
	memcpy(op->groups, groups, (size_t)n * sizeof(*groups));
	op->n_groups = n;
}

struct op *op_new(fuse_req_t req, struct inode *ino, uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	op->fs = ino->fs;
	op->sb = ino->sb;
	sandbox_get(op->sb);
	op->ino = ino;
	inode_get(ino);
	op->remembered = ino->tree == TREE_NONE && inode_remember(ino);
	op->req = req;
	op->reply = reply;
	op->pid = fuse_req_ctx(req)->pid;
	op->uid = fuse_req_ctx(req)->uid;
	op->gid = fuse_req_ctx(req)->gid;
	op->epoch = ino->epoch;
	if (op->uid == UINT32_MAX) /* the kernel itself: pages of a mapping */
		op->uid = op->gid = 0;
	if (op->fs->options->allow_other && !shown_as_one(op->fs) && op->uid)
		find_groups(op, req);
	prepare(op, type);
	return op;
}

void op_next(struct op *op, uint16_t type)
{
	call_fini(&op->call);
	op->call = (struct call){0};
	prepare(op, type);
}

/* What is to be done about an interrupted request whose caller may want to leave. */
enum verdict { STAY, CANCELLED, ABANDON };

/* With the shard's lock held, so the op cannot end meanwhile. */
static enum verdict consider(struct op *op)
{
	if (!op->leaving && !(op->any_signal ? caller_signalled(op->pid) : caller_leaves(op->pid)))
		return STAY;
	if (!op->sb) { /* whoever answers it finds nobody */
		if (op->leave)
			op->leave(op);
		return ABANDON;
	}
	if (!op->leaving) {
		op->leaving = true;
		if (op->leave)
			op->leave(op);
		if (sandbox_cancel_waiting(op->sb, &op->call))
			return CANCELLED;
		if (!op->leave)
			sandbox_cancel(op->sb, &op->call);
	}
	if (!sandbox_answers(op->sb) || ++op->ticks > PATIENT_TICKS)
		return ABANDON;
	return STAY;
}

/* With the shard's lock held, which is released to act. */
static void act_unlock(struct shard *s, struct op *op, enum verdict v)
{
	fuse_req_t req;

	if (v == CANCELLED) { /* it is ours again */
		pthread_mutex_unlock(&s->lock);
		op_done(&op->call, -EINTR, NULL);
		return;
	}
	req = atomic_exchange(&op->req, NULL);
	pthread_mutex_unlock(&s->lock);
	if (req)
		fuse_reply_err(req, EINTR); /* the late answer is undone when it comes */
}

/* Looks at the interrupted requests of a shard; each is considered once. */
static void look(struct shard *s, uint64_t round)
{
	for (bool more = true; more;) {
		enum verdict v = STAY;
		struct op *op, *tmp;

		more = false;
		pthread_mutex_lock(&s->lock);
		HASH_ITER (hh, s->ops, op, tmp) {
			if (op->round == round || !op->interrupted || !op->req)
				continue;
			op->round = round;
			v = consider(op);
			if (v != STAY)
				break;
		}
		if (op && v != STAY) {
			act_unlock(s, op, v);
			more = true;
		} else {
			pthread_mutex_unlock(&s->lock);
		}
	}
}

static void tick(void *arg)
{
	struct fs *fs = arg;
	struct op_table *t = fs->ops;
	uint64_t round = ++t->rounds;

	for (unsigned k = 0; k < SHARDS; k++)
		look(&t->shard[k], round);
	atomic_store(&t->ticking, false);
	if (t->interrupted && !atomic_exchange(&t->ticking, true))
		registry_after(fs->registry, TICK_MS, tick, fs);
}

static void on_interrupt(fuse_req_t req, void *data)
{
	uint64_t id = (uint64_t)(uintptr_t)data;
	struct fs *fs = fs_of(req);
	struct op_table *t = fs->ops;
	struct shard *s = shard_of(t, id);
	enum verdict v = STAY;
	struct op *op;

	pthread_mutex_lock(&s->lock);
	HASH_FIND(hh, s->ops, &id, sizeof(id), op);
	if (op && !op->interrupted) {
		op->interrupted = true;
		t->interrupted++;
		v = consider(op);
	}
	if (op && v != STAY)
		act_unlock(s, op, v);
	else
		pthread_mutex_unlock(&s->lock);
	if (t->interrupted && !atomic_exchange(&t->ticking, true))
		registry_after(fs->registry, TICK_MS, tick, fs);
}

static void enter(struct op *op)
{
	struct op_table *t = op->fs->ops;
	struct shard *s;

	op->interrupted = op->leaving = false;
	op->ticks = 0;
	op->id = ++t->next_id;
	s = shard_of(t, op->id);
	pthread_mutex_lock(&s->lock);
	HASH_ADD(hh, s->ops, id, sizeof(op->id), op);
	pthread_mutex_unlock(&s->lock);
	/* Before it is sent: afterwards the request may be gone at any moment. */
	if (op->req)
		fuse_req_interrupt_func(op->req, on_interrupt, (void *)(uintptr_t)op->id);
}

void op_send(struct op *op)
{
	enter(op);
	sandbox_call(op->sb, &op->call);
}

void op_send_now(struct op *op)
{
	enter(op);
	if (sandbox_call_now(op->sb, &op->call) < 0)
		op_done(&op->call, -EAGAIN, NULL);
}

void op_send_behind(struct op *op)
{
	fuse_req_t req = atomic_exchange(&op->req, NULL);

	if (req)
		fuse_reply_err(req, 0);
	enter(op);
	if (sandbox_call_linked(op->sb, &op->call) < 0)
		op_done(&op->call, -EAGAIN, NULL);
}

struct op *op_wait_for(fuse_req_t req, void (*leave)(struct op *op), void *data)
{
	struct op *op = calloc(1, sizeof(*op));

	if (!op) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	op->fs = fs_of(req);
	op->req = req;
	op->pid = fuse_req_ctx(req)->pid;
	op->leave = leave;
	op->data = data;
	enter(op);
	return op;
}

struct op *op_wait(fuse_req_t req)
{
	return op_wait_for(req, NULL, NULL);
}

fuse_req_t op_take(struct op *op)
{
	fuse_req_t req;

	table_remove(op);
	req = atomic_exchange(&op->req, NULL);
	op_free(op);
	return req;
}

enum op_outcome op_reply_nothing(struct op *op, fuse_req_t req, struct wire_in *body)
{
	(void)op;
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

enum op_outcome op_reply_data(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(body, op->size, &n);

	if (!wire_end(body))
		return OP_BAD;
	if (req)
		fuse_reply_buf(req, (const char *)p, n);
	return OP_DONE;
}
