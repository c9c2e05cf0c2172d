/* SPDX-License-Identifier: MIT */
/*
 * A kernel request that waits for an agent: the request, what it concerns, and what to do with the
 * answer. Answered exactly once, by whoever takes the request out of it: the reply, a failure, or
 * an interrupt.
 */
#pragma once

#include "fs/fs.h"
#include "fs/inode.h"

enum op_outcome {
	OP_DONE,  /* the request has been answered */
	OP_BAD,	  /* the agent's answer is malformed: EIO, and the agent is cut off */
	OP_AGAIN, /* the next call has been prepared with op_next: send it */
};

struct op {
	struct call call;
	struct fs *fs;
	struct sandbox *sb;	  /* a reference */
	struct inode *ino, *ino2; /* references, or NULL */
	bool remembered;	  /* ino is fixed, and stays known while somebody asks about it */
	_Atomic(struct fuse_req *) req;

	/* The agent said yes. req is NULL when the caller has been told EINTR meanwhile: then only
	 * undo what the answer brought. */
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body);
	/* It failed with -r; NULL: the errno is the answer. Must answer req unless that is NULL. */
	enum op_outcome (*failed)(struct op *op, fuse_req_t req, int r);
	/* The caller wants to go. NULL: it is told EINTR. Called with the table's lock held, once.
	 */
	void (*leave)(struct op *op);
	void (*fini)(struct op *op); /* frees data; NULL: nothing to free */

	/* For the reply. */
	uint64_t node, fh, off;
	bool barrier; /* set before it is sent: the answer waits until the kernel knows of every
			 change that came before it (JOB_INFO: if the job has ended) */
	uint32_t epoch, n;
	size_t size;
	unsigned flags;
	uint32_t count;
	bool wait;	    /* for the lock */
	bool any_signal;    /* it may be left for every signal, as a local lock */
	char *name, *name2; /* owned */
	struct fuse_file_info fi;
	void *data;

	/* Private to op.c. */
	uint64_t id;
	int pid;
	uint32_t uid, gid;
	int n_groups;  /* supplementary ones of the caller, where they count */
	gid_t *groups; /* owned */
	uint8_t *held; /* the answer that waits for the barrier; owned */
	size_t held_len;
	bool interrupted;
	bool leaving; /* its caller has a signal to leave for; failed() may look */
	unsigned ticks;
	uint64_t round; /* in which it was looked at last */
	UT_hash_handle hh;
	struct op *next_held; /* changes.c's, as the next */
	uint64_t hold_seq;
	int64_t held_ms;
};

/* NULL after having answered ENOMEM. ino (and ino2) are referenced; sb is ino's. The fields of the
 * message follow with wire_* on &op->call.frame. */
struct op *op_new(fuse_req_t req, struct inode *ino, uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body));
/* Prepares the next message of the same request. */
void op_next(struct op *op, uint16_t type);
/* Sends it; the op is no longer the caller's. */
void op_send(struct op *op);
/* Sends it only if the agent can answer now; else calls failed() with -EAGAIN. */
void op_send_now(struct op *op);
/* Answers success now, and sends it if there is a connection. */
void op_send_behind(struct op *op);

/* A request that something else than an agent answers: can be interrupted in the same way. take:
 * the request, to be answered now, or NULL if its caller was told EINTR meanwhile; the op is gone.
 * NULL from wait: ENOMEM has been answered. */
struct op *op_wait(fuse_req_t req);
/* The same with a leave(), just before its caller is told EINTR, and data for it. */
struct op *op_wait_for(fuse_req_t req, void (*leave)(struct op *op), void *data);
fuse_req_t op_take(struct op *op);

/* Replies that many share: an empty body is success; bytes, at most op->size, are data read. */
enum op_outcome op_reply_nothing(struct op *op, fuse_req_t req, struct wire_in *body);
enum op_outcome op_reply_data(struct op *op, fuse_req_t req, struct wire_in *body);

struct op_table *op_table_new(void);
/* The barrier has been reached: answers it. By changes.c. */
void op_released(struct op *op);

void op_table_free(struct op_table *t);
