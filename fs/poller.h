/* SPDX-License-Identifier: MIT */
/*
 * An open file of a job that can be polled: ready when a stream of the job is longer than what was
 * read of it, or the job has ended. Who polls is answered by what the agent knows now; where that
 * is nothing new, one question (JOB_MORE) stays with the agent, and its answer wakes the kernel.
 */
#pragma once

#include "fs/op.h"

#define POLLER_END UINT64_MAX /* as offset: no stream is longer, so only the end counts */

struct poller {
	struct call call;   /* under way while `watching` */
	_Atomic int refs;   /* the open file's, and the call's */
	struct sandbox *sb; /* a reference */
	uint64_t job;	    /* 0: none, always ready */
	uint8_t stream;	    /* PROTO_STREAM_*; constant, as the three above */
	pthread_mutex_t lock;
	/* Protected by lock. */
	uint64_t offset;
	bool watching;
	bool failed; /* a read says why */
	struct fuse_pollhandle *ph;
	void (*free)(struct poller *p); /* frees what it is part of */
};

void poller_init(struct poller *p, struct sandbox *sb, uint64_t job, uint8_t stream,
	uint64_t offset, void (*free)(struct poller *p));
/* So much has been read. */
void poller_read_to(struct poller *p, uint64_t offset);
/* Answers a poll. */
void poller_poll(fuse_req_t req, struct inode *i, struct poller *p, struct fuse_pollhandle *ph);
/* The file is closed: ends the question, and drops the file's reference. */
void poller_close(struct poller *p);
/* Drops a reference. */
void poller_put(struct poller *p);
