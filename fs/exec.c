/* SPDX-License-Identifier: MIT */
/*
 * exec and argv: a command is written, and runs when the process that opened the file closes it. In
 * ctl/ that close waits for its end; in a job's directory it does not.
 *
 * FLUSH comes at each close of each inherited descriptor, so the opener's process decides: a flush
 * of its, once something was written, starts the command and is answered when it has ended; unless
 * it has the file open by another descriptor (a shell's `>&7` makes and closes one each time).
 * Children may write and exit. Where the opener is gone, or never wrote, the last close starts what
 * was written. A writer that is killed half way still flushes: what it meant is not known, so
 * nothing is started.
 */
#include "fs/exec.h"

#include "fs/caller.h"
#include "fs/seen.h"
#include "fs/trail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writing {
	uint64_t job;
	bool writer; /* opened for writing: the job is reserved for it */
	bool append;
	pid_t opener;
	pthread_mutex_t lock;
	uint64_t wrote;		/* where the text ends; protected by lock */
	bool started;		/* protected by lock */
	bool spoiled;		/* the opener was killed; protected by lock */
	bool last_killed;	/* so was the last to close; protected by lock */
	struct trail_text text; /* protected by lock */
};

static struct writing *writing_of(const struct fuse_file_info *fi)
{
	return fi ? (struct writing *)(uintptr_t)fi->fh : NULL;
}

/* The last command is no longer the newest, nor its size that of exec. */
static void note_new(struct inode *i, uint64_t job)
{
	char name[24], none[] = "";
	struct proto_job j = {.job = job,
		.result = PROTO_RESULT_NEW,
		.exit_code = -1,
		.name = name,
		.command = none,
		.words = none};

	snprintf(name, sizeof(name), "%" PRIu64, job);
	seen_job(itable_seen(i->table), &j);
	seen_last(itable_seen(i->table), name);
}

bool exec_reserved(struct inode *i, uint64_t job, const struct wire_in *body)
{
	if (!wire_end(body) || !job || (i->job && job != i->job))
		return false;
	if (!i->job) {
		note_new(i, job);
		seen_input(itable_seen(i->table), 0); /* it is that job's now */
	}
	return true;
}

void exec_unreserve(struct inode *i, uint64_t job)
{
	if (!i->job)
		ctl_tell_surely(i->table, i->sb, PROTO_JOB_DROP, job, NULL);
}

void exec_not_started(struct inode *i, uint64_t job, const struct call *start, int r)
{
	if (i->job)
		return;
	if (start->losses || r == -EBUSY || r == -EIO)
		ctl_drop_new(i->table, i->sb, job);
	else
		exec_unreserve(i, job);
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
	w->text.uid = op->uid;
	w->text.pid = w->opener;
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
		if (writer)
			exec_unreserve(op->ino, job);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	op->fi.fh = (uint64_t)(uintptr_t)w;
	op->fi.direct_io = 1;
	if (fuse_reply_open(req, &op->fi) < 0) {
		if (writer)
			exec_unreserve(op->ino, job);
		writing_free(w);
	}
}

static enum op_outcome reply_reserved(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint64_t job = wire_get_u64(body);

	if (!exec_reserved(op->ino, job, body))
		return OP_BAD;
	if (req)
		reply_open(op, req, job, true);
	else
		exec_unreserve(op->ino, job);
	return OP_DONE;
}

static enum op_outcome reply_last(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	if (req)
		reply_open(op, req, j.job, false);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome no_last(struct op *op, fuse_req_t req, int r)
{
	if (!req)
		return OP_DONE;
	if (!op->ino->job && (r == -ENOENT || (r == -EAGAIN && ctl_no_job_yet(op->sb))))
		reply_open(op, req, 0, false);
	else
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

static void exec_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	bool reads = (fi->flags & O_ACCMODE) == O_RDONLY;
	struct op *op = reads ? ctl_ask_job(req, i, i->job, reply_last, no_last)
			      : op_new(req, i, PROTO_JOB_OPEN, reply_reserved);

	if (!op)
		return;
	op->fi = *fi;
	if (reads) {
		op_send_now(op);
		return;
	}
	op->failed = ctl_failed;
	op->call.repeat = true; /* a job whose answer was lost gives way */
	wire_u64(&op->call.frame, i->job);
	op_send(op);
}

static void exec_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	ctl_read(req, i, writing_of(fi)->job, PROTO_STREAM_COMMAND, size, off, NULL);
}

static enum op_outcome reply_write(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		fuse_reply_write(req, op->size);
	return OP_DONE;
}

/* What is not there as a whole is not to run. While req waits the file is open. */
static enum op_outcome write_failed(struct op *op, fuse_req_t req, int r)
{
	struct writing *w = op->data;

	if (req) {
		pthread_mutex_lock(&w->lock);
		w->spoiled = true;
		pthread_mutex_unlock(&w->lock);
	}
	return ctl_failed(op, req, r);
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
	if (!started)
		trail_write(&w->text, at, data, size);
	pthread_mutex_unlock(&w->lock);
	if (started) {
		fuse_reply_err(req, EPIPE); /* it runs already */
		return;
	}
	op = op_new(req, i, PROTO_JOB_WRITE, reply_write);
	if (!op)
		return;
	op->failed = write_failed;
	op->data = w;
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

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	proto_job_fini(&j);
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

/* A foreground command's close returns when it has ended, or when its max_wait is over. */
static enum op_outcome wait_for_end(struct op *op, fuse_req_t req)
{
	trail_started(op->ino, op->fh, op->data);
	if (op->ino->job) { /* one of many: it goes on by itself */
		if (req)
			fuse_reply_err(req, 0);
		return OP_DONE;
	}
	op->reply = reply_ended;
	op->failed = ctl_failed;
	op->barrier = true; /* who hears of the end sees what the command did */
	op_next(op, PROTO_JOB_WAIT);
	op->call.repeat = op->call.patient = true;
	wire_u64(&op->call.frame, op->fh);
	wire_u8(&op->call.frame, 1);
	return OP_AGAIN;
}

static enum op_outcome reply_started(struct op *op, fuse_req_t req, struct wire_in *body)
{
	wire_get_u32(body); /* its pid */
	return wire_end(body) ? wait_for_end(op, req) : OP_BAD;
}

/* Asked for again after a connection broke (the command may have done that itself): it had been
 * started the first time. */
static enum op_outcome start_failed(struct op *op, fuse_req_t req, int r)
{
	if (r == -EBUSY && op->call.losses)
		return wait_for_end(op, req);
	exec_not_started(op->ino, op->fh, &op->call, r);
	return ctl_failed(op, req, r);
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
	ctl_tell_surely(op->ino->table, op->sb, PROTO_JOB_KILL, op->fh, &sig);
	buf_fini(&sig);
}

uint8_t exec_form(const struct inode *i)
{
	return i->which == CTL_ARGV ? PROTO_START_ARGV : PROTO_START_SCRIPT;
}

/* Whether this close is the one that starts the command. */
static bool starts(const struct inode *i, struct writing *w, pid_t tid)
{
	bool opener = w->opener && caller_process(tid) == w->opener;
	bool killed = caller_killed(tid), start;

	pthread_mutex_lock(&w->lock);
	w->last_killed = killed;
	if (opener && killed)
		w->spoiled = true;
	start = w->writer && !w->started && !w->spoiled && w->wrote && opener;
	pthread_mutex_unlock(&w->lock);
	if (!start || caller_writes(tid, i->ino) > 0)
		return false;
	pthread_mutex_lock(&w->lock);
	start = !w->started; /* of two that close the last two, one starts it */
	w->started = true;
	pthread_mutex_unlock(&w->lock);
	return start;
}

static void exec_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct writing *w = writing_of(fi);
	uint64_t job = w->job;
	struct op *op;

	if (!starts(i, w, fuse_req_ctx(req)->pid)) {
		fuse_reply_err(req, 0);
		return;
	}
	inode_get(i); /* who has been answered may close it, and forget it */
	op = op_new(req, i, PROTO_JOB_START, reply_started);
	if (!op)
		exec_unreserve(i, job);
	inode_put(i);
	if (!op)
		return;
	op->fh = job;
	pthread_mutex_lock(&w->lock);
	op->data = trail_copy(&w->text); /* who was interrupted may close before the answer */
	pthread_mutex_unlock(&w->lock);
	op->fini = trail_op_free;
	op->failed = start_failed;
	op->call.repeat = true;
	op->leave = i->job ? NULL : leave;
	wire_u64(&op->call.frame, job);
	wire_u8(&op->call.frame, exec_form(i));
	op_send(op);
}

/* Nobody waits for it, so nobody would hear that it was not: without a connection it starts when
 * there is one. */
static void start_behind(struct inode *i, const struct writing *w, const struct buf *form)
{
	ctl_tell_surely(i->table, i->sb, PROTO_JOB_START, w->job, form);
	trail_started(i, w->job, &w->text);
}

static void exec_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct writing *w = writing_of(fi);
	struct buf form;

	buf_init(&form, 1);
	wire_u8(&form, exec_form(i));
	if (w->writer && !w->started) {
		if (w->wrote && !w->spoiled && !w->last_killed)
			start_behind(i, w, &form);
		else
			exec_unreserve(i, w->job);
	}
	buf_fini(&form);
	writing_free(w);
	fuse_reply_err(req, 0);
}

static enum op_outcome reply_size(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!ctl_get_job(op, body, &j))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, j.command_size, (enum answer)op->flags);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome no_size(struct op *op, fuse_req_t req, int r)
{
	if (req && r == -ENOENT && op->ino->job)
		fuse_reply_err(req, ENOENT);
	else if (req)
		ctl_answer(req, op->ino, 0, (enum answer)op->flags);
	return OP_DONE;
}

/* A lookup takes the size that was last seen: it comes before every command that is written, and a
 * round trip there would be felt. Not of a job that was new then: its text can have come since. */
static void exec_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct writing *w = writing_of(fi);
	struct proto_job last = {0};
	bool known = how == ANSWER_ENTRY && seen_recall(itable_seen(i->table), i->job, &last) &&
		     last.result != PROTO_RESULT_NEW;
	uint64_t size = last.command_size;
	struct op *op;

	proto_job_fini(&last);
	if (known) {
		ctl_answer(req, i, size, how);
		return;
	}
	op = ctl_ask_job(req, i, w ? w->job : i->job, reply_size, no_size);
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

/* A truncation alone runs nothing and changes nothing. A shell's `>` makes one behind its open, by
 * which the text is empty already: nobody need be asked. (The kernel names no handle there; it asks
 * for the size again when somebody wants it.) */
static void exec_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	if (to_set == FUSE_SET_ATTR_SIZE && st->st_size == 0)
		ctl_answer(req, i, 0, ANSWER_ATTR);
	else
		ctl_setattr(req, i, st, to_set, fi);
}

const struct node_ops exec_ops = {
	.kind = 'X',
	.measure = exec_measure,
	.setattr = exec_setattr,
	.open = exec_open,
	.read = exec_read,
	.write = exec_write,
	.put = exec_put,
	.flush = exec_flush,
	.release = exec_release,
};
