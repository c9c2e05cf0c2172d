/* SPDX-License-Identifier: MIT */
/* README, .sandboxfs/{version,engine,errors}; and what every generated file shares. */
#include "fs/text.h"

#include "fs/later.h"
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
	"    echo 60 > demo/ctl/timeout           seconds; also user, cwd, env, max_wait, shell\n"
	"    mkdir demo/ctl/jobs/build            a job: one of many commands at once\n"
	"    echo make > demo/ctl/jobs/build/exec starts it and returns; then read output, result\n"
	"    cat demo/ctl/jobs/build/wait         blocks until it has ended; prints the exit code\n"
	"    rmdir demo/ctl/jobs/build            forgets it, kills what is left of it\n"
	"    cat demo/ctl/state                   creating starting running paused stopped failed\n"
	"    echo stopped > demo/ctl/state        or running, paused, restart\n"
	"    cat demo/ctl/error                   why the last thing failed\n"
	"    cat .sandboxfs/errors                the last failures of this mount, in words\n"
	"    cat .sandboxfs/events                what happened, as JSON lines; demo/ctl/log of "
	"one sandbox\n"
	"    ls -L demo/rootfs/                   its whole file system\n"
	"\n"
	"Who can only write files writes mkdir demo, rmdir demo, rm P or mv P Q to .sandboxfs/do, "
	"a line\n"
	"each. Any other file name in ctl/ is a scratch file; renamed onto ctl/exec it runs.\n";

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

/* Whose words a reader of `errors` sees: names of sandboxes, and what was written, are not for
 * everybody. */
static uint32_t reader_of(struct fs *fs, fuse_req_t req)
{
	uint32_t uid = fuse_req_ctx(req)->uid;

	return uid == 0 || uid == fs->mounter_uid ? REPORT_ALL : uid;
}

static void render(struct fs *fs, unsigned which, uint32_t reader, struct buf *b)
{
	if (which == TEXT_README)
		buf_puts(b, readme);
	else if (which == TEXT_VERSION)
		buf_puts(b, SANDBOXFS_VERSION "\n");
	else if (which == TEXT_ERRORS)
		report_render(registry_report(fs->registry), reader, b);
	else
		registry_describe(fs->registry, b);
}

static void reply(
	fuse_req_t req, struct inode *i, struct buf *b, struct fuse_file_info *fi, enum answer how)
{
	if (fi)
		text_reply_open(req, b, fi);
	else
		inode_answer(req, i, 0444, b->len, how);
	buf_fini(b);
}

/* The engine's text asks the engine, so it is rendered in a thread that may wait. */
static void answer_later(void *arg)
{
	struct later *l = arg;
	struct buf b;
	fuse_req_t req;

	buf_init(&b, TEXT_MAX);
	render(l->i->fs, l->i->which, REPORT_ALL, &b);
	req = later_take(l); /* until now it could be interrupted */
	if (req)
		reply(req, l->i, &b, l->fi, l->how);
	buf_fini(&b);
	later_free(l);
}

static void ask(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	struct later *l;
	struct buf b;

	if (i->which != TEXT_ENGINE) {
		buf_init(&b, TEXT_MAX);
		render(i->fs, i->which, reader_of(i->fs, req), &b);
		reply(req, i, &b, fi, how);
		return;
	}
	l = later_new(req, i, fi, how);
	if (l)
		later_run(l, answer_later);
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
