/* SPDX-License-Identifier: MIT */
/* Polls: FUSE's workers ask, I/O threads answer. p->lock is a leaf. */
#include "fs/poller.h"

#include "fs/ctl.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define READY (POLLIN | POLLRDNORM)

void poller_init(struct poller *p, struct sandbox *sb, uint64_t job, uint8_t stream,
	uint64_t offset, void (*free)(struct poller *p))
{
	*p = (struct poller){
		.refs = 1, .sb = sb, .job = job, .stream = stream, .offset = offset, .free = free};
	sandbox_get(sb);
	pthread_mutex_init(&p->lock, NULL);
}

void poller_put(struct poller *p)
{
	if (--p->refs)
		return;
	if (p->ph)
		fuse_pollhandle_destroy(p->ph);
	sandbox_put(p->sb);
	pthread_mutex_destroy(&p->lock);
	p->free(p);
}

void poller_read_to(struct poller *p, uint64_t offset)
{
	pthread_mutex_lock(&p->lock);
	p->offset = offset;
	pthread_mutex_unlock(&p->lock);
}

/* The question has been answered: the kernel asks again. */
static bool watched(struct call *c, int r, struct wire_in *body)
{
	struct poller *p = (struct poller *)((char *)c - offsetof(struct poller, call));
	struct fuse_pollhandle *ph;
	struct proto_job j = {0};
	bool ok = true;

	if (r == 0) {
		proto_get_job(body, &j);
		ok = wire_end(body);
		proto_job_fini(&j);
	}
	call_fini(c);
	pthread_mutex_lock(&p->lock);
	p->failed |= r < 0;
	ph = p->ph;
	p->ph = NULL;
	p->watching = false;
	pthread_mutex_unlock(&p->lock);
	if (ph) {
		fuse_lowlevel_notify_poll(ph);
		fuse_pollhandle_destroy(ph);
	}
	poller_put(p);
	return ok;
}

static void watch(struct poller *p)
{
	bool start;

	pthread_mutex_lock(&p->lock);
	start = !p->watching && p->ph;
	if (start) {
		p->watching = true;
		p->refs++;
		memset(&p->call, 0, sizeof(p->call));
		call_begin(&p->call, PROTO_JOB_MORE, 0, 0);
		p->call.as_user = true;
		p->call.done = watched;
		p->call.repeat = p->call.patient = true;
		wire_u64(&p->call.frame, p->job);
		wire_u8(&p->call.frame, p->stream);
		wire_u64(&p->call.frame, p->offset);
	}
	pthread_mutex_unlock(&p->lock);
	if (start)
		sandbox_call(p->sb, &p->call);
}

static bool is_ready(struct poller *p, const struct proto_job *j)
{
	bool ready;

	pthread_mutex_lock(&p->lock);
	ready = j->result > PROTO_RESULT_RUNNING || j->size[p->stream] > p->offset;
	pthread_mutex_unlock(&p->lock);
	return ready;
}

static enum op_outcome reply_polled(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct poller *p = op->data;
	struct proto_job j;
	bool ready;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	/* Without a request the file may be closed by now. */
	if (req) {
		ready = is_ready(p, &j);
		if (!ready)
			watch(p);
		fuse_reply_poll(req, ready ? READY : 0);
	}
	proto_job_fini(&j);
	return OP_DONE;
}

/* A sandbox that does not answer now may again; else a read says at once what is wrong. */
static enum op_outcome not_polled(struct op *op, fuse_req_t req, int r)
{
	bool later = r == -EAGAIN && !ctl_is_down(op->sb);

	if (!req)
		return OP_DONE;
	if (later)
		watch(op->data);
	fuse_reply_poll(req, later ? 0 : READY | POLLERR);
	return OP_DONE;
}

void poller_poll(fuse_req_t req, struct inode *i, struct poller *p, struct fuse_pollhandle *ph)
{
	struct fuse_pollhandle *old = NULL;
	struct op *op;
	bool failed;

	pthread_mutex_lock(&p->lock);
	failed = p->failed;
	if (ph) {
		old = p->ph;
		p->ph = ph;
	}
	pthread_mutex_unlock(&p->lock);
	if (old)
		fuse_pollhandle_destroy(old);
	if (failed || !p->job) {
		fuse_reply_poll(req, READY | (failed ? POLLERR : 0));
		return;
	}
	op = ctl_ask_job(req, i, p->job, reply_polled, not_polled);
	if (op) {
		op->data = p;
		op_send_now(op);
	}
}

void poller_close(struct poller *p)
{
	bool watching;

	pthread_mutex_lock(&p->lock);
	watching = p->watching;
	pthread_mutex_unlock(&p->lock);
	/* The memory is there while the reference is; if it was answered meanwhile, the agent does
	 * not know the number any more. */
	if (watching && sandbox_cancel_waiting(p->sb, &p->call))
		watched(&p->call, -EINTR, NULL);
	else if (watching)
		sandbox_cancel(p->sb, &p->call);
	poller_put(p);
}
