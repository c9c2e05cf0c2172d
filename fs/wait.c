/* SPDX-License-Identifier: MIT */
/*
 * wait: a read blocks until the job has ended and gives its exit code; an empty line where that is
 * not known. Of size 1, since a file of size 0 is read by nobody: a reader that believes the size
 * goes through the page cache, where it has no lock owner, is refused there (EINVAL) and falls back
 * to read(2). Pollable: poller.h.
 */
#include "fs/ctl.h"

#include "fs/poller.h"
#include "fs/seen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct waiting {
	struct poller poller; /* first: its memory is this */
	char text[16];	      /* once it was read; protected by the poller's lock */
};

static struct waiting *waiting_of(const struct fuse_file_info *fi)
{
	return (struct waiting *)(uintptr_t)fi->fh;
}

static void waiting_free(struct poller *p)
{
	free(p);
}

/* The job has ended, and the kernel knows of all that it did: reads are answered from here on. */
static void note(struct waiting *w, const struct proto_job *j)
{
	pthread_mutex_lock(&w->poller.lock);
	if (j->exit_code >= 0)
		snprintf(w->text, sizeof(w->text), "%d\n", j->exit_code);
	else
		snprintf(w->text, sizeof(w->text), "\n");
	pthread_mutex_unlock(&w->poller.lock);
}

static bool has_ended(const struct proto_job *j)
{
	return j->result > PROTO_RESULT_RUNNING;
}

static void wait_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ctl_answer(req, i, 1, how);
}

static void wait_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct waiting *w;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		ctl_read_only(req, i);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	poller_init(&w->poller, i->sb, i->job, PROTO_STREAM_OUTPUT, POLLER_END, waiting_free);
	fi->fh = (uint64_t)(uintptr_t)w;
	fi->direct_io = 1;
	if (fuse_reply_open(req, fi) < 0)
		poller_put(&w->poller);
}

static void reply_text(fuse_req_t req, struct waiting *w, size_t size, uint64_t off)
{
	char text[sizeof(w->text)];
	size_t n;

	pthread_mutex_lock(&w->poller.lock);
	memcpy(text, w->text, sizeof(text));
	pthread_mutex_unlock(&w->poller.lock);
	n = strlen(text);
	if (off > n)
		off = n;
	fuse_reply_buf(req, text + off, size < n - off ? size : n - off);
}

static enum op_outcome reply_ended(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	if (req) {
		note(op->data, &j);
		reply_text(req, op->data, op->size, op->off);
	}
	proto_job_fini(&j);
	return OP_DONE;
}

/* Only what has stopped with its sandbox, and was not known to have ended. */
static bool ended_before(struct inode *i, struct waiting *w)
{
	struct proto_job j;
	bool ended;

	if (!seen_recall(itable_seen(i->table), i->job, &j))
		return false;
	ended = has_ended(&j);
	if (ended)
		note(w, &j);
	proto_job_fini(&j);
	return ended;
}

static void wait_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct waiting *w = waiting_of(fi);
	struct op *op;
	bool ended;

	if (!fi->lock_owner) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	pthread_mutex_lock(&w->poller.lock);
	ended = *w->text;
	pthread_mutex_unlock(&w->poller.lock);
	if (ended || (ctl_is_down(i->sb) && ended_before(i, w))) {
		reply_text(req, w, size, (uint64_t)off);
		return;
	}
	if (ctl_is_down(i->sb)) {
		fuse_reply_err(req, ESHUTDOWN);
		return;
	}
	op = op_new(req, i, PROTO_JOB_WAIT, reply_ended);
	if (!op)
		return;
	op->barrier = true;
	op->any_signal = true;
	op->data = w;
	op->size = size;
	op->off = (uint64_t)off;
	op->call.repeat = op->call.patient = true;
	wire_u64(&op->call.frame, i->job);
	wire_u8(&op->call.frame, 0);
	op_send(op);
}

static void wait_poll(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
	poller_poll(req, i, &waiting_of(fi)->poller, ph);
}

static void wait_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	poller_close(&waiting_of(fi)->poller);
	fuse_reply_err(req, 0);
}

const struct node_ops wait_ops = {
	.kind = 'w',
	.measure = wait_measure,
	.open = wait_open,
	.read = wait_read,
	.poll = wait_poll,
	.release = wait_release,
};
