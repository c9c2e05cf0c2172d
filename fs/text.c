/* SPDX-License-Identifier: MIT */
/* README, .sandboxfs/{version,engine,errors}; and what every generated file shares. */
#include "fs/text.h"

#include "fs/op.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char readme[] =
	"# sandboxfs: sandboxes as directories\n"
	"\n"
	"    mkdir demo                           starts a container\n"
	"    cp -r src demo/workspace/            its files, live, both ways\n"
	"    echo 'make test' > demo/ctl/exec     runs a command in it; returns when it has ended\n"
	"    cat demo/ctl/stdout                  what it printed (stderr; output has both)\n"
	"    cat demo/ctl/exit_code               0..255; 128+N for signal N\n"
	"    cat demo/ctl/summary                 all of that at a glance\n"
	"    rmdir demo                           stops and removes it\n"
	"\n"
	"What you type runs on the host; only what is written to ctl/ runs in the sandbox.\n"
	"\n"
	"    mkdir python@demo                    from the template python\n"
	"    printf 'ls\\0-l\\0' > demo/ctl/argv    a command without a shell\n"
	"    cat demo/ctl/state                   creating starting running paused stopped failed\n"
	"    echo stopped > demo/ctl/state        or running, paused, restart\n"
	"    cat demo/ctl/error                   why the last thing failed\n"
	"    cat .sandboxfs/errors                the last failures of this mount, in words\n"
	"    ls -L demo/rootfs/                   its whole file system\n";

struct text {
	_Atomic int refs; /* the open file's, and each read's until its reply has been sent */
	size_t len;
	char data[];
};

static void text_put(struct text *t)
{
	if (--t->refs == 0)
		free(t);
}

void text_reply_open(fuse_req_t req, struct buf *b, struct fuse_file_info *fi)
{
	struct text *t = b->error ? NULL : malloc(sizeof(*t) + b->len);

	if (!t) {
		buf_fini(b);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	t->refs = 1;
	t->len = b->len;
	if (b->len)
		memcpy(t->data, b->data, b->len);
	buf_fini(b);
	fi->fh = (uint64_t)(uintptr_t)t;
	fi->direct_io = 1;
	if (fuse_reply_open(req, fi) < 0)
		free(t);
}

void text_read(fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct text *t = (struct text *)(uintptr_t)fi->fh;
	size_t at = off < 0 || (size_t)off > t->len ? t->len : (size_t)off;

	(void)i;
	t->refs++;
	fuse_reply_buf(req, t->data + at, size < t->len - at ? size : t->len - at);
	text_put(t);
}

void text_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	text_put((struct text *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

const char *text_name(unsigned which)
{
	static const char *const names[TEXTS] = {"README", "version", "engine", "errors"};

	return names[which];
}

void text_lookup(fuse_req_t req, unsigned which)
{
	inode_reply_file(req, inode_fixed(fs_of(req)->table, &text_ops, which));
}

static void render(struct fs *fs, unsigned which, struct buf *b)
{
	if (which == TEXT_README)
		buf_puts(b, readme);
	else if (which == TEXT_VERSION)
		buf_puts(b, SANDBOXFS_VERSION "\n");
	else if (which == TEXT_ERRORS)
		report_render(registry_report(fs->registry), b);
	else
		registry_describe(fs->registry, b);
}

/* The engine's text asks the engine, so it is rendered in a thread that may wait. */
struct pending {
	struct op *op;
	struct inode *i;
	bool open;
	enum answer how; /* if not open */
	struct fuse_file_info fi;
};

static void reply(
	fuse_req_t req, struct inode *i, struct buf *b, struct fuse_file_info *fi, enum answer how)
{
	if (fi)
		text_reply_open(req, b, fi);
	else
		inode_answer(req, i, 0444, b->len, how);
	buf_fini(b);
}

static void answer_later(void *arg)
{
	struct pending *p = arg;
	struct buf b;
	fuse_req_t req;

	buf_init(&b, TEXT_MAX);
	render(p->i->fs, p->i->which, &b);
	req = op_take(p->op); /* until now it could be interrupted */
	if (req)
		reply(req, p->i, &b, p->open ? &p->fi : NULL, p->how);
	buf_fini(&b);
	inode_put(p->i);
	free(p);
}

static void ask(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct pending *p;
	struct buf b;

	if (i->which != TEXT_ENGINE) {
		buf_init(&b, TEXT_MAX);
		render(i->fs, i->which, &b);
		reply(req, i, &b, fi, how);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*p = (struct pending){.op = op_wait(req), .i = i, .open = fi != NULL, .how = how};
	if (!p->op) {
		free(p);
		return;
	}
	if (fi)
		p->fi = *fi;
	inode_get(i);
	if (registry_defer(i->fs->registry, answer_later, p) < 0) {
		req = op_take(p->op);
		if (req)
			fuse_reply_err(req, ENOMEM);
		inode_put(i);
		free(p);
	}
}

static void text_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ask(req, i, NULL, how);
}

static void text_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		fuse_reply_err(req, EACCES);
	else
		ask(req, i, fi, ANSWER_ATTR);
}

const struct node_ops text_ops = {
	.kind = 't',
	.measure = text_measure,
	.open = text_open,
	.read = text_read,
	.release = text_release,
};
