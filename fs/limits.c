/* SPDX-License-Identifier: MIT */
/*
 * memory.max, cpu.max, pids.max: the engine's limits, in cgroup v2's words. What is shown was told
 * by the engine; where that may be old it is asked, in a thread that may wait. A write is in force
 * when it returns.
 */
#include "sandbox/limits.h"

#include "common/cleanup.h"
#include "fs/ctl.h"
#include "fs/later.h"
#include "fs/text.h"
#include "sandbox/facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned limit_of(const struct inode *i)
{
	return i->which == CTL_MEMORY_MAX ? ENGINE_LIMIT_MEMORY
	       : i->which == CTL_CPU_MAX  ? ENGINE_LIMIT_CPU
					  : ENGINE_LIMIT_PIDS;
}

static void fail(fuse_req_t req, struct inode *i, const char *op, const struct err *err)
{
	char path[32];

	snprintf(path, sizeof(path), "ctl/%s", ctl_name(i->which));
	fs_fail(i->fs, req, i->sb, op, path, err);
}

static void reply(fuse_req_t req, struct inode *i, const struct engine_limits *limits,
	struct fuse_file_info *fi, enum answer how)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	limits_render(limit_of(i), limits, &b);
	if (fi)
		text_reply_open(req, &b, fi);
	else
		ctl_answer(req, i, b.len, how);
	buf_fini(&b);
}

/* Failing, the last that was known does; nothing known is nothing to show. */
static void asked(void *arg, int r, const struct err *err)
{
	struct later *l = arg;
	fuse_req_t req = later_take(l);
	struct engine_limits limits;
	struct buf nothing;

	facts_limits(l->i->sb, &limits);
	buf_init(&nothing, 1);
	if (req && (r == 0 || limits.cpu_period_us))
		reply(req, l->i, &limits, l->fi, l->how);
	else if (req && r == -EBUSY && l->fi)
		text_reply_open(req, &nothing, l->fi);
	else if (req && l->fi)
		fail(req, l->i, "open", err);
	else if (req)
		ctl_answer(req, l->i, 0, l->how);
	later_free(l);
}

static void ask(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct engine_limits limits;
	struct later *l;

	if (facts_limits(i->sb, &limits)) {
		reply(req, i, &limits, fi, how);
		return;
	}
	l = later_new(req, i, fi, how);
	if (l)
		facts_ask(i->sb, asked, l);
}

static void limit_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ask(req, i, NULL, how);
}

static void limit_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct buf nothing;

	if ((fi->flags & O_ACCMODE) == O_RDONLY) {
		ask(req, i, fi, ANSWER_ATTR);
		return;
	}
	buf_init(&nothing, 1);
	text_reply_open(req, &nothing, fi);
}

/* Only what makes a shell's `>` work. */
static void limit_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	(void)st;
	(void)fi;
	if (to_set & ~FUSE_SET_ATTR_SIZE)
		fuse_reply_err(req, EPERM);
	else
		ask(req, i, NULL, ANSWER_ATTR);
}

static void was_set(void *arg, int r, const struct err *err)
{
	struct later *l = arg;
	fuse_req_t req = later_take(l);

	if (r < 0)
		fail(req, l->i, "write", err);
	else if (req && !l->size) /* put by a rename */
		fuse_reply_err(req, 0);
	else if (req)
		fuse_reply_write(req, l->size);
	later_free(l);
}

static void set(fuse_req_t req, struct inode *i, const char *data, size_t size, bool put)
{
	cleanup_free char *text = strndup(data, size);
	struct engine_limits want = {0};
	struct err err = {0};
	struct later *l;

	if (!text)
		err_set(&err, ENOMEM, "no memory for that");
	else
		limits_parse(limit_of(i), text, &want, &err);
	if (err.code) {
		fail(req, i, "write", &err);
		return;
	}
	l = later_new(req, i, NULL, ANSWER_ATTR);
	if (!l)
		return;
	l->size = put ? 0 : size;
	facts_set_limit(i->sb, limit_of(i), &want, i->fs->options->locked, was_set, l);
}

static void limit_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	(void)off;
	(void)fi;
	set(req, i, data, size, false);
}

static void limit_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	set(req, i, data, size, true);
}

const struct node_ops limit_ops = {
	.kind = 'u',
	.measure = limit_measure,
	.setattr = limit_setattr,
	.open = limit_open,
	.read = text_read,
	.write = limit_write,
	.put = limit_put,
	.release = text_release,
};
