/* SPDX-License-Identifier: MIT */
/*
 * timeout, max_wait, user, cwd, env, shell, tty. Each write sets the value, and its error is the
 * write's: a close error nobody sees. What one open file has written so far is one text, sent whole
 * each time, so that env can come line by line. A truncation alone sets the default, but when who
 * opened it closes it: until then a write may follow, and if that fails the old value stays. What
 * that close did not do the last one does, for which nobody waits.
 */
#include "fs/ctl.h"

#include "fs/caller.h"
#include "fs/seen.h"
#include "fs/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct setting {
	struct inode *i;
	int opener;		     /* the thread that opened it to write; 0: read only */
	struct setting *prev, *next; /* in `writers`; protected by writers_lock */
	pthread_mutex_t lock;
	/* Protected by lock. */
	struct buf text;
	bool append;
	bool emptied; /* truncated, and nothing was written since */
};

/* Those who write now: few, and for a moment. O_TRUNC comes from the kernel as a truncation that
 * names no open file, just after the open. */
static struct setting *writers; /* protected by writers_lock */
static pthread_mutex_t writers_lock = PTHREAD_MUTEX_INITIALIZER;

static uint8_t set_of(const struct inode *i)
{
	return (uint8_t)(i->which - CTL_TIMEOUT + PROTO_SET_TIMEOUT);
}

static struct setting *setting_of(const struct fuse_file_info *fi)
{
	return fi ? (struct setting *)(uintptr_t)fi->fh : NULL;
}

static bool is_writer(const struct fuse_file_info *fi)
{
	return (fi->flags & O_ACCMODE) != O_RDONLY;
}

static struct setting *setting_new(const struct op *op, const struct buf *text)
{
	struct setting *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->i = op->ino;
	pthread_mutex_init(&s->lock, NULL);
	buf_init(&s->text, PROTO_CONFIG_MAX + 1);
	buf_append(&s->text, text->data, text->len);
	s->append = op->fi.flags & O_APPEND;
	if (is_writer(&op->fi)) {
		s->opener = op->pid;
		pthread_mutex_lock(&writers_lock);
		DL_PREPEND(writers, s);
		pthread_mutex_unlock(&writers_lock);
	}
	return s;
}

static void setting_free(struct setting *s)
{
	if (s->opener) {
		pthread_mutex_lock(&writers_lock);
		DL_DELETE(writers, s);
		pthread_mutex_unlock(&writers_lock);
	}
	pthread_mutex_destroy(&s->lock);
	buf_fini(&s->text);
	free(s);
}

/* Answers an open, or (op->count) a measure, with the text. */
static void answer(struct op *op, fuse_req_t req, const struct buf *text)
{
	struct setting *s;

	if (!op->count) {
		ctl_answer(req, op->ino, text->len, (enum answer)op->flags);
		return;
	}
	s = setting_new(op, text);
	if (!s || s->text.error) {
		if (s)
			setting_free(s);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	op->fi.fh = (uint64_t)(uintptr_t)s;
	op->fi.direct_io = 1;
	if (fuse_reply_open(req, &op->fi) < 0)
		setting_free(s);
}

static void answer_value(struct op *op, fuse_req_t req, const uint8_t *value, size_t n)
{
	struct buf text;

	buf_init(&text, PROTO_CONFIG_MAX + 1);
	buf_append(&text, value, n);
	if (n && value[n - 1] != '\n')
		buf_puts(&text, "\n");
	answer(op, req, &text);
	buf_fini(&text);
}

static enum op_outcome reply_value(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;
	const uint8_t *value = wire_get_bytes(body, PROTO_CONFIG_MAX, &n);

	if (!wire_end(body))
		return OP_BAD;
	if (!op->ino->job)
		seen_setting(itable_seen(op->ino->table), set_of(op->ino), value, n);
	if (req)
		answer_value(op, req, value, n);
	return OP_DONE;
}

/* A reader sees what ctl/ had when it was last asked; of a job's nothing is kept. */
static enum op_outcome value_unknown(struct op *op, fuse_req_t req, int r)
{
	struct buf value;

	if (!req)
		return OP_DONE;
	if (r != -EAGAIN || (op->ino->job && op->count)) {
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
		return OP_DONE;
	}
	buf_init(&value, PROTO_CONFIG_MAX);
	if (!op->ino->job)
		seen_recall_setting(itable_seen(op->ino->table), set_of(op->ino), &value);
	answer_value(op, req, value.data, value.len);
	buf_fini(&value);
	return OP_DONE;
}

static struct op *ask(fuse_req_t req, struct inode *i)
{
	struct op *op = op_new(req, i, PROTO_JOB_GET, reply_value);

	if (op) {
		op->failed = value_unknown;
		op->call.repeat = true;
		wire_u64(&op->call.frame, i->job);
		wire_u8(&op->call.frame, set_of(i));
	}
	return op;
}

static void settings_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct op *op = ask(req, i);

	(void)fi;
	if (op) {
		op->flags = how;
		op_send_now(op);
	}
}

/* Who opens it to write is told there and then if the sandbox cannot be set anything. */
static void settings_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct op *op = ask(req, i);

	if (!op)
		return;
	op->fi = *fi;
	op->count = 1;
	if (is_writer(fi)) {
		op->failed = ctl_failed;
		op_send(op);
	} else {
		op_send_now(op);
	}
}

static void settings_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct setting *s = setting_of(fi);
	char *copy = malloc(PROTO_CONFIG_MAX + 1);
	size_t at, n;

	(void)i;
	if (!copy) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_lock(&s->lock);
	at = off < 0 || (size_t)off > s->text.len ? s->text.len : (size_t)off;
	n = size < s->text.len - at ? size : s->text.len - at;
	if (n)
		memcpy(copy, s->text.data + at, n);
	pthread_mutex_unlock(&s->lock);
	fuse_reply_buf(req, copy, n);
	free(copy);
}

/* The message that sets a value, as it stands in the file. */
static void put_value(struct buf *frame, const struct inode *i, const char *text, size_t n)
{
	wire_u8(frame, set_of(i));
	wire_bytes(frame, text, n && text[n - 1] == '\n' ? n - 1 : n);
}

/* On a locked mount nobody widens what the template allows: a user who is not root becomes no
 * other, and a timeout is not made longer. What is no value the agent refuses. */
static bool widens(const struct inode *i, const char *text, size_t n, struct err *err)
{
	struct sandbox_info s;
	char value[32];
	double ms;

	if (!i->fs->options->locked)
		return false;
	n -= n && text[n - 1] == '\n';
	sandbox_numbers(i->sb, &s);
	if (i->which == CTL_USER && n && (s.uid || !s.epoch))
		return err_set(
			err, EPERM, "the mount is locked: commands run as the template's user");
	if (i->which != CTL_TIMEOUT || !n || !s.timeout_ms)
		return false;
	snprintf(value, sizeof(value), "%.*s", (int)n, text);
	if (value[strspn(value, "0123456789.")])
		return false;
	ms = n < sizeof(value) ? strtod(value, NULL) * 1000 : 0;
	if (ms > 0 && ms <= (double)s.timeout_ms)
		return false;
	return err_set(err, EPERM, "the mount is locked: the template's timeout is %g s",
		(double)s.timeout_ms / 1000);
}

/* NULL: it has been answered. */
static struct op *set(fuse_req_t req, struct inode *i, const char *text, size_t n,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body))
{
	struct err err = {0};
	struct op *op = NULL;

	if (widens(i, text, n, &err))
		ctl_fail(req, i, &err);
	else
		op = op_new(req, i, PROTO_JOB_SET, reply);
	if (op) {
		op->failed = ctl_failed;
		op->call.repeat = true;
		wire_u64(&op->call.frame, i->job);
		put_value(&op->call.frame, i, text, n);
	}
	return op;
}

static void too_long(fuse_req_t req, struct inode *i)
{
	struct err err;

	err_set(&err, EFBIG, "a value of %s has at most %u bytes", ctl_name(i->which),
		PROTO_CONFIG_MAX);
	ctl_fail(req, i, &err);
}

/* What a write leads to; the file's text becomes this if the agent takes it. The kernel lets one
 * write of a file follow another. */
struct writing {
	struct setting *s;
	struct buf text;
};

static void writing_free(struct op *op)
{
	struct writing *w = op->data;

	buf_fini(&w->text);
	free(w);
}

static enum op_outcome reply_written(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct writing *w = op->data;
	struct buf old;

	if (!wire_end(body))
		return OP_BAD;
	if (!req)
		return OP_DONE; /* and the file may be closed by now */
	pthread_mutex_lock(&w->s->lock);
	old = w->s->text;
	w->s->text = w->text;
	pthread_mutex_unlock(&w->s->lock);
	w->text = old;
	fuse_reply_write(req, op->size);
	return OP_DONE;
}

/* The text with the bytes put into it. -errno. */
static int merge(struct setting *s, const char *data, size_t size, off_t off, struct buf *text)
{
	size_t at, len;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	s->emptied = false;
	len = s->text.len;
	at = s->append ? len : (size_t)off;
	if (at > len) {
		r = -EINVAL;
	} else if (at + size > PROTO_CONFIG_MAX) {
		r = -EFBIG;
	} else {
		buf_append(text, s->text.data, at);
		buf_append(text, data, size);
		if (at + size < len)
			buf_append(text, s->text.data + at + size, len - at - size);
		r = text->error;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

static void settings_write(fuse_req_t req, struct inode *i, const char *data, size_t size,
	off_t off, struct fuse_file_info *fi)
{
	struct writing *w = calloc(1, sizeof(*w));
	struct op *op;
	int r;

	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	w->s = setting_of(fi);
	buf_init(&w->text, PROTO_CONFIG_MAX + 1);
	r = merge(w->s, data, size, off, &w->text);
	op = r < 0 ? NULL : set(req, i, (char *)w->text.data, w->text.len, reply_written);
	if (!op) {
		if (r == -EFBIG)
			too_long(req, i);
		else if (r < 0)
			fuse_reply_err(req, -r);
		buf_fini(&w->text);
		free(w);
		return;
	}
	op->size = size;
	op->data = w;
	op->fini = writing_free;
	op_send(op);
}

static enum op_outcome reply_default(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		ctl_answer(req, op->ino, 0, ANSWER_ATTR);
	return OP_DONE;
}

static void empty(struct setting *s)
{
	pthread_mutex_lock(&s->lock);
	buf_reset(&s->text);
	s->emptied = true;
	pthread_mutex_unlock(&s->lock);
}

/* Whether it belongs to an open that is under way. */
static bool empty_opened(fuse_req_t req, const struct inode *i)
{
	int tid = fuse_req_ctx(req)->pid;
	struct setting *s;

	pthread_mutex_lock(&writers_lock);
	for (s = writers; s; s = s->next)
		if (s->i == i && s->opener == tid)
			break;
	if (s)
		empty(s);
	pthread_mutex_unlock(&writers_lock);
	return s;
}

static void settings_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	struct op *op;

	if ((to_set & ~FUSE_SET_ATTR_SIZE) || st->st_size != 0) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (fi)
		empty(setting_of(fi));
	if (fi || empty_opened(req, i)) {
		ctl_answer(req, i, 0, ANSWER_ATTR);
		return;
	}
	op = set(req, i, "", 0, reply_default);
	if (op)
		op_send(op);
}

/* The file is open as long as somebody waits for this. */
static enum op_outcome reply_closed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct setting *s = op->data;

	if (!wire_end(body))
		return OP_BAD;
	if (!req)
		return OP_DONE;
	pthread_mutex_lock(&s->lock);
	s->emptied = false;
	pthread_mutex_unlock(&s->lock);
	fuse_reply_err(req, 0);
	return OP_DONE;
}

/* Whether it was truncated alone, and this is the close of who did that. */
static bool closes_empty(const struct inode *i, struct setting *s, pid_t tid)
{
	bool emptied;

	pthread_mutex_lock(&s->lock);
	emptied = s->emptied;
	pthread_mutex_unlock(&s->lock);
	return emptied && s->opener && caller_process(tid) == caller_process(s->opener) &&
	       !caller_killed(tid) && caller_writes(tid, i->ino) == 0;
}

static void settings_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct setting *s = setting_of(fi);
	struct op *op;

	if (!closes_empty(i, s, fuse_req_ctx(req)->pid)) {
		fuse_reply_err(req, 0);
		return;
	}
	op = set(req, i, "", 0, reply_closed);
	if (op) {
		op->data = s;
		op_send(op);
	}
}

static void settings_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct setting *s = setting_of(fi);
	struct buf value;

	if (s->emptied) {
		buf_init(&value, 8);
		put_value(&value, i, "", 0);
		ctl_tell_surely(i->table, i->sb, PROTO_JOB_SET, i->job, &value);
		buf_fini(&value);
	}
	setting_free(s);
	fuse_reply_err(req, 0);
}

static void settings_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	struct op *op;

	if (size > PROTO_CONFIG_MAX) {
		too_long(req, i);
		return;
	}
	op = set(req, i, data, size, op_reply_nothing);
	if (op)
		op_send(op);
}

const struct node_ops settings_ops = {
	.kind = 'v',
	.measure = settings_measure,
	.setattr = settings_setattr,
	.open = settings_open,
	.read = settings_read,
	.write = settings_write,
	.put = settings_put,
	.flush = settings_flush,
	.release = settings_release,
};
