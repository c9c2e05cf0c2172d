/* SPDX-License-Identifier: MIT */
/*
 * exec and argv: a command is written, and runs when the process that opened the file closes it.
 *
 * FLUSH comes at each close of each inherited descriptor, so the opener's process decides: a flush
 * of its, once something was written, starts the command and is answered when it has ended.
 * Children may write and exit. Where the opener is gone, or never wrote, the last close starts what
 * was written. A writer that is killed half way still flushes: what it meant is not known, so
 * nothing is started.
 */
#include "fs/ctl.h"

#include "fs/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct writing {
	uint64_t job;
	bool writer; /* opened for writing: the job is reserved for it */
	bool append;
	pid_t opener;
	pthread_mutex_t lock;
	uint64_t wrote;	  /* where the text ends; protected by lock */
	bool started;	  /* protected by lock */
	bool spoiled;	  /* the opener was killed; protected by lock */
	bool last_killed; /* so was the last to close; protected by lock */
};

static struct writing *writing_of(const struct fuse_file_info *fi)
{
	return fi ? (struct writing *)(uintptr_t)fi->fh : NULL;
}

static enum op_outcome failed(struct op *op, fuse_req_t req, int r)
{
	const char *words = op->call.words,
		   *path = op->ino->which == CTL_EXEC ? "ctl/exec" : "ctl/argv";
	struct err err;

	err_set(&err, -r, "%s", words && *words ? words : strerror(-r));
	if (r != -EINTR) /* that was the caller's own wish */
		fs_fail(op->fs, req, op->sb, "exec", path, &err);
	else if (req)
		fuse_reply_err(req, EINTR);
	return OP_DONE;
}

static struct writing *writing_new(uint64_t job, bool writer, const struct op *op)
{
	struct writing *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->job = job;
	w->writer = writer;
	w->append = op->fi.flags & O_APPEND;
	w->opener = caller_process(op->pid);
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

static void writing_free(struct writing *w)
{
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void reply_open(struct op *op, fuse_req_t req, uint64_t job, bool writer)
{
	struct writing *w = writing_new(job, writer, op);

	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	op->fi.fh = (uint64_t)(uintptr_t)w;
	op->fi.direct_io = 1;
	if (fuse_reply_open(req, &op->fi) < 0) {
		if (writer)
			ctl_tell(op->sb, PROTO_JOB_DROP, job, NULL);
		writing_free(w);
	}
}

static enum op_outcome reply_reserved(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint64_t job = wire_get_u64(body);

	if (!wire_end(body) || !job)
		return OP_BAD;
	if (req)
		reply_open(op, req, job, true);
	else
		ctl_tell(op->sb, PROTO_JOB_DROP, job, NULL);
	return OP_DONE;
}

static enum op_outcome reply_last(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;
	uint64_t job;

	proto_get_job(body, &j);
	job = j.job;
	proto_job_fini(&j);
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		reply_open(op, req, job, false);
	return OP_DONE;
}

static enum op_outcome no_last(struct op *op, fuse_req_t req, int r)
{
	if (!req)
		return OP_DONE;
	if (r == -ENOENT || (r == -EAGAIN && ctl_no_job_yet(op->sb)))
		reply_open(op, req, 0, false);
	else
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

static void exec_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	bool reads = (fi->flags & O_ACCMODE) == O_RDONLY;
	struct op *op = reads ? ctl_ask_job(req, i, 0, reply_last, no_last)
			      : op_new(req, i, PROTO_JOB_OPEN, reply_reserved);

	if (!op)
		return;
	op->fi = *fi;
	if (reads) {
		op_send_now(op);
		return;
	}
	op->failed = failed;
	wire_u8(&op->call.frame, PROTO_JOB_FOREGROUND);
	op_send(op);
}

static void exec_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	ctl_read(req, i, writing_of(fi)->job, PROTO_STREAM_COMMAND, size, off);
}

static enum op_outcome reply_write(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		fuse_reply_write(req, op->size);
	return OP_DONE;
}

static void exec_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	struct writing *w = writing_of(fi);
	uint64_t at = (uint64_t)off;
	bool started;
	struct op *op;

	if (size > PROTO_MAX_DATA)
		size = PROTO_MAX_DATA;
	pthread_mutex_lock(&w->lock);
	started = w->started;
	if (w->append)
		at = w->wrote; /* the kernel's idea of the end is the last command's */
	if (at + size > w->wrote)
		w->wrote = at + size;
	pthread_mutex_unlock(&w->lock);
	if (started) {
		fuse_reply_err(req, EPIPE); /* it runs already */
		return;
	}
	op = op_new(req, i, PROTO_JOB_WRITE, reply_write);
	if (!op)
		return;
	op->failed = failed;
	op->size = size;
	op->call.repeat = true;
	wire_u64(&op->call.frame, w->job);
	wire_u64(&op->call.frame, at);
	wire_bytes(&op->call.frame, data, size);
	op_send(op);
}

static enum op_outcome reply_ended(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	proto_get_job(body, &j);
	if (!wire_end(body)) {
		proto_job_fini(&j);
		return OP_BAD;
	}
	itable_remember_job(op->ino->table, &j);
	proto_job_fini(&j);
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

static enum op_outcome wait_for_end(struct op *op)
{
	op->reply = reply_ended;
	op->failed = failed;
	op->barrier = true; /* who hears of the end sees what the command did */
	op_next(op, PROTO_JOB_WAIT);
	op->call.repeat = true;
	wire_u64(&op->call.frame, op->fh);
	return OP_AGAIN;
}

static enum op_outcome reply_started(struct op *op, fuse_req_t req, struct wire_in *body)
{
	(void)req;
	wire_get_u32(body); /* its pid */
	return wire_end(body) ? wait_for_end(op) : OP_BAD;
}

/* Asked for again after a connection broke (the command may have done that itself): it had been
 * started the first time. */
static enum op_outcome start_failed(struct op *op, fuse_req_t req, int r)
{
	return r == -EBUSY && op->call.losses ? wait_for_end(op) : failed(op, req, r);
}

static void put_signal(struct buf *b, uint32_t sig)
{
	buf_init(b, 4);
	wire_u32(b, sig);
}

/* Ctrl-C in the writer, or its death: the whole tree goes, and then the wait ends by itself. */
static void leave(struct op *op)
{
	struct buf sig;

	put_signal(&sig, SIGKILL);
	ctl_tell(op->sb, PROTO_JOB_KILL, op->fh, &sig);
	buf_fini(&sig);
}

static void put_settings(struct buf *b, const struct inode *i)
{
	if (i->which == CTL_ARGV) {
		wire_u8(b, PROTO_SET_ARGV);
		wire_bytes(b, NULL, 0);
	}
}

/* Whether this close is the one that starts the command. */
static bool starts(struct writing *w, pid_t tid)
{
	bool opener = w->opener && caller_process(tid) == w->opener;
	bool killed = caller_killed(tid), start = false;

	pthread_mutex_lock(&w->lock);
	w->last_killed = killed;
	if (opener && killed)
		w->spoiled = true;
	if (w->writer && !w->started && !w->spoiled && w->wrote && opener)
		start = w->started = true;
	pthread_mutex_unlock(&w->lock);
	return start;
}

static void exec_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct writing *w = writing_of(fi);
	struct op *op;

	if (!starts(w, fuse_req_ctx(req)->pid)) {
		fuse_reply_err(req, 0);
		return;
	}
	op = op_new(req, i, PROTO_JOB_START, reply_started);
	if (!op)
		return;
	op->fh = w->job;
	op->failed = start_failed;
	op->call.repeat = true;
	op->leave = leave;
	wire_u64(&op->call.frame, w->job);
	put_settings(&op->call.frame, i);
	op_send(op);
}

static void exec_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct writing *w = writing_of(fi);
	struct buf settings;

	buf_init(&settings, PROTO_CONFIG_MAX);
	put_settings(&settings, i);
	if (w->writer && !w->started) {
		if (w->wrote && !w->spoiled && !w->last_killed)
			ctl_tell(i->sb, PROTO_JOB_START, w->job, &settings);
		else
			ctl_tell(i->sb, PROTO_JOB_DROP, w->job, NULL);
	}
	buf_fini(&settings);
	writing_free(w);
	fuse_reply_err(req, 0);
}

static enum op_outcome reply_size(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;
	uint64_t size;

	proto_get_job(body, &j);
	size = j.command_size;
	if (wire_end(body))
		itable_remember_job(op->ino->table, &j);
	proto_job_fini(&j);
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, size, (enum answer)op->flags);
	return OP_DONE;
}

static enum op_outcome no_size(struct op *op, fuse_req_t req, int r)
{
	(void)r;
	if (req)
		ctl_answer(req, op->ino, 0, (enum answer)op->flags);
	return OP_DONE;
}

/* A lookup takes the size that was last seen: it comes before every command that is written, and a
 * round trip there would be felt. */
static void exec_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct writing *w = writing_of(fi);
	struct proto_job last = {0};
	struct op *op;

	if (how == ANSWER_ENTRY && itable_recall_job(i->table, &last)) {
		ctl_answer(req, i, last.command_size, how);
		proto_job_fini(&last);
		return;
	}
	op = ctl_ask_job(req, i, w ? w->job : 0, reply_size, no_size);
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

/* A truncation alone runs nothing and changes nothing. */
static void exec_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	(void)st;
	if (to_set & ~FUSE_SET_ATTR_SIZE)
		fuse_reply_err(req, EPERM);
	else
		exec_measure(req, i, fi, ANSWER_ATTR);
}

const struct node_ops exec_ops = {
	.kind = 'X',
	.measure = exec_measure,
	.setattr = exec_setattr,
	.open = exec_open,
	.read = exec_read,
	.write = exec_write,
	.flush = exec_flush,
	.release = exec_release,
};
