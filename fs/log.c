/* SPDX-License-Identifier: MIT */
/* ctl/log: asked of the engine in a lifecycle thread, for its size too; the caller can be
 * interrupted. */
#include "sandbox/log.h"

#include "fs/ctl.h"
#include "fs/later.h"
#include "fs/text.h"

#include <stdlib.h>

static void answer(void *arg)
{
	struct later *l = arg;
	struct buf b;
	fuse_req_t req;

	buf_init(&b, LOG_MAX);
	sandbox_log(l->i->sb, &b);
	req = later_take(l);
	if (req && l->fi)
		text_reply_open(req, &b, l->fi);
	else if (req)
		ctl_answer(req, l->i, b.len, l->how);
	buf_fini(&b);
	later_free(l);
}

static void ask(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct later *l = later_new(req, i, fi, how);

	if (l)
		later_run(l, answer);
}

static void log_measure(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ask(req, i, NULL, how);
}

static void log_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		ctl_read_only(req, i);
	else
		ask(req, i, fi, ANSWER_ATTR);
}

const struct node_ops log_ops = {
	.kind = 'g',
	.measure = log_measure,
	.open = log_open,
	.read = text_read,
	.release = text_release,
};
