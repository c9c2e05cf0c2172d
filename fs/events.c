/* SPDX-License-Identifier: MIT */
/* .sandboxfs/events: an open holds the lines that there are then, and each read copies from them.
 */
#include "sandbox/events.h"

#include "common/cleanup.h"
#include "fs/inode.h"

#include <errno.h>

/* Commands of all users stand there. */
#define MODE 0400

/* Reads may be under way when the file is released: each has a reference. */
struct opened {
	_Atomic int refs;
	struct events_view *view;
};

static void opened_put(struct opened *o)
{
	if (--o->refs == 0) {
		events_view_free(o->view);
		free(o);
	}
}

static void measure(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	size_t size = fi ? events_view_size(((struct opened *)(uintptr_t)fi->fh)->view)
			 : events_size(registry_events(i->fs->registry));

	inode_answer(req, i, MODE, size, how);
}

static void open_view(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct opened *o;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EACCES);
		return;
	}
	o = calloc(1, sizeof(*o));
	if (o)
		o->view = events_view_new(registry_events(i->fs->registry), NULL);
	if (!o || !o->view) {
		free(o);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	o->refs = 1;
	fi->fh = (uint64_t)(uintptr_t)o;
	fi->direct_io = 1;
	if (fuse_reply_open(req, fi) < 0)
		opened_put(o);
}

static void read_view(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct opened *o = (struct opened *)(uintptr_t)fi->fh;
	cleanup_free char *part = malloc(size ? size : 1);

	(void)i;
	if (!part) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	o->refs++;
	fuse_reply_buf(req, part, off < 0 ? 0 : events_view_read(o->view, (size_t)off, part, size));
	opened_put(o);
}

static void release_view(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	opened_put((struct opened *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

const struct node_ops events_ops = {
	.kind = 'E',
	.mounters = true,
	.measure = measure,
	.open = open_view,
	.read = read_view,
	.release = release_view,
};
