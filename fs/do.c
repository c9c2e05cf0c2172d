/* SPDX-License-Identifier: MIT */
/*
 * .sandboxfs/do, for those who can only write files: lines that make, remove and move. Each line
 * acts when its newline is written, and the write tells how it went; a last line without one acts
 * when who opened the file closes it, or at the last close.
 */
#include "fs/doing.h"

#include "fs/caller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lines {
	pid_t opener;
	struct doer_order who; /* it, too: a release says nothing of its caller */
	pthread_mutex_t lock;
	struct buf rest; /* what has no newline yet; protected by lock */
};

static mode_t mode(const struct inode *i)
{
	/* Everybody who may make a sandbox may do so here; the daemon must be able to act as them.
	 */
	return i->fs->options->allow_other && geteuid() == 0 ? 0622 : 0600;
}

static void do_measure(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	inode_answer(req, i, mode(i), 0, how);
}

/* Only what makes a shell's `>` work. */
static void do_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	(void)st;
	if (to_set & ~FUSE_SET_ATTR_SIZE)
		fuse_reply_err(req, EPERM);
	else
		do_measure(req, i, fi, ANSWER_ATTR);
}

static struct lines *lines_of(const struct fuse_file_info *fi)
{
	return (struct lines *)(uintptr_t)fi->fh;
}

static void lines_free(struct lines *l)
{
	buf_fini(&l->rest);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void do_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct lines *l = calloc(1, sizeof(*l));

	(void)i;
	if (!l) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	l->opener = caller_process(fuse_req_ctx(req)->pid);
	doing_caller(req, &l->who);
	pthread_mutex_init(&l->lock, NULL);
	buf_init(&l->rest, DOING_LINE_MAX + PROTO_MAX_DATA);
	fi->fh = (uint64_t)(uintptr_t)l;
	fi->direct_io = 1;
	if (fuse_reply_open(req, fi) < 0)
		lines_free(l);
}

static void do_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)i;
	(void)size;
	(void)off;
	(void)fi;
	fuse_reply_buf(req, NULL, 0);
}

static void refuse(fuse_req_t req, struct inode *i, const char *why)
{
	struct err err;

	err_set(&err, EINVAL, "%s", why);
	fs_fail(i->fs, req, NULL, "do", ".sandboxfs/do", &err);
}

/* With the lock held: all lines that have an end, as a new string, out of what there is. NULL:
 * none. */
static char *take_lines(struct buf *b, bool all)
{
	const uint8_t *end = b->len ? memrchr(b->data, '\n', b->len) : NULL;
	size_t n = all ? b->len : end ? (size_t)(end - b->data) + 1 : 0;
	char *text = n ? strndup((char *)b->data, n) : NULL;

	if (text)
		buf_consume(b, n);
	return text;
}

static void do_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	struct lines *l = lines_of(fi);
	bool bad = memchr(data, 0, size), ended = memchr(data, '\n', size);
	char *text = NULL;

	(void)off;
	if (bad) {
		refuse(req, i, "a line has a NUL in it");
		return;
	}
	pthread_mutex_lock(&l->lock);
	buf_append(&l->rest, data, size);
	if (!l->rest.error && ended)
		text = take_lines(&l->rest, false);
	bad = l->rest.error || l->rest.len > DOING_LINE_MAX || (ended && !text);
	if (bad)
		buf_reset(&l->rest);
	pthread_mutex_unlock(&l->lock);
	if (text)
		doing_run(req, i, &l->who, text, size, true);
	else if (bad)
		refuse(req, i, "a line is too long");
	else
		fuse_reply_write(req, size);
}

/* What has no newline, if it is to be acted on now. */
static char *last_line(const struct inode *i, struct lines *l, pid_t tid, bool last)
{
	bool killed = caller_killed(tid);
	char *text = NULL;

	if (!last &&
		(!l->opener || caller_process(tid) != l->opener || caller_writes(tid, i->ino) > 0))
		return NULL;
	pthread_mutex_lock(&l->lock);
	if (killed)
		buf_reset(&l->rest); /* what it meant is not known */
	else
		text = take_lines(&l->rest, true);
	pthread_mutex_unlock(&l->lock);
	return text;
}

static void do_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct lines *l = lines_of(fi);
	char *text = last_line(i, l, fuse_req_ctx(req)->pid, false);

	if (text)
		doing_run(req, i, &l->who, text, 0, true);
	else
		fuse_reply_err(req, 0);
}

static void do_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct lines *l = lines_of(fi);
	char *text = last_line(i, l, fuse_req_ctx(req)->pid, true);

	if (text)
		doing_run(req, i, &l->who, text, 0, false);
	else
		fuse_reply_err(req, 0);
	lines_free(l);
}

/* The directory is locked until the answer, and the lines may concern it: they act behind. */
static void do_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	struct doer_order who;
	char *text;

	if (memchr(data, 0, size)) {
		refuse(req, i, "a line has a NUL in it");
		return;
	}
	doing_caller(req, &who);
	text = strndup(data, size);
	if (text)
		doing_run(req, i, &who, text, 0, false);
	else
		fuse_reply_err(req, ENOMEM);
}

const struct node_ops do_ops = {
	.kind = 'd',
	.measure = do_measure,
	.setattr = do_setattr,
	.open = do_open,
	.read = do_read,
	.write = do_write,
	.put = do_put,
	.flush = do_flush,
	.release = do_release,
};
