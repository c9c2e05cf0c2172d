/* SPDX-License-Identifier: MIT */
/* The directory ctl/ and what its files share. Reading here never waits and never wakes a sandbox.
 */
#include "fs/ctl.h"

#include "fs/dirlist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	const struct node_ops *ops;
	mode_t mode;
} files[CTL_FILES] = {
	[CTL_EXEC] = {"exec", &exec_ops, 0600},
	[CTL_ARGV] = {"argv", &exec_ops, 0600},
	[CTL_STDOUT] = {"stdout", &ctl_stream_ops, 0400},
	[CTL_STDERR] = {"stderr", &ctl_stream_ops, 0400},
	[CTL_OUTPUT] = {"output", &ctl_stream_ops, 0400},
	[CTL_EXIT_CODE] = {"exit_code", &ctl_text_ops, 0400},
	[CTL_RESULT] = {"result", &ctl_text_ops, 0400},
	[CTL_SUMMARY] = {"summary", &ctl_text_ops, 0400},
	[CTL_STATE] = {"state", &ctl_text_ops, 0600},
	[CTL_ERROR] = {"error", &ctl_text_ops, 0400},
	[CTL_CONFIG] = {"config.json", &ctl_text_ops, 0400},
};

const char *ctl_name(unsigned which)
{
	return files[which].name;
}

mode_t ctl_mode(unsigned which)
{
	return files[which].mode;
}

void ctl_answer(fuse_req_t req, struct inode *i, uint64_t size, enum answer how)
{
	inode_answer(req, i, ctl_mode(i->which), size, how);
}

struct op *ctl_ask_job(fuse_req_t req, struct inode *i, uint64_t job,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body),
	enum op_outcome (*failed)(struct op *op, fuse_req_t req, int r))
{
	struct op *op = op_new(req, i, PROTO_JOB_INFO, reply);

	if (op) {
		op->failed = failed;
		op->barrier = true;
		op->call.repeat = true;
		wire_u64(&op->call.frame, job);
	}
	return op;
}

static enum op_outcome read_failed(struct op *op, fuse_req_t req, int r)
{
	(void)op;
	if (req)
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

void ctl_read(fuse_req_t req, struct inode *i, uint64_t job, uint8_t stream, size_t size, off_t off)
{
	struct op *op;

	if (!job) {
		fuse_reply_buf(req, NULL, 0);
		return;
	}
	op = op_new(req, i, PROTO_JOB_READ, op_reply_data);
	if (!op)
		return;
	op->failed = read_failed;
	op->size = size < PROTO_MAX_DATA ? size : PROTO_MAX_DATA;
	op->call.repeat = true;
	wire_u64(&op->call.frame, job);
	wire_u8(&op->call.frame, stream);
	wire_u64(&op->call.frame, (uint64_t)off);
	wire_u32(&op->call.frame, (uint32_t)op->size);
	op_send_now(op);
}

static bool told(struct call *c, int r, struct wire_in *body)
{
	(void)r;
	(void)body;
	call_fini(c);
	free(c);
	return true;
}

void ctl_tell(struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	call_begin(c, type, 0, 0);
	c->as_user = true;
	c->done = told;
	wire_u64(&c->frame, job);
	if (extra)
		buf_append(&c->frame, extra->data, extra->len);
	if (sandbox_call_linked(sb, c) < 0)
		told(c, -EAGAIN, NULL);
}

bool ctl_no_job_yet(struct sandbox *sb)
{
	enum sandbox_state s = sandbox_state(sb);

	return s == SANDBOX_CREATING || s == SANDBOX_STARTING;
}

static void ctl_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	for (unsigned k = 0; k < CTL_FILES; k++) {
		if (strcmp(name, files[k].name) == 0) {
			inode_reply_file(req, inode_fixed(dir->table, files[k].ops, k));
			return;
		}
	}
	fuse_reply_err(req, ENOENT);
}

static void ctl_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0700, 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static void ctl_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	(void)i;
	for (unsigned k = 0; d && k < CTL_FILES; k++)
		dirlist_add(d, files[k].name, 1, S_IFREG);
	dirlist_reply_open(req, d, fi);
}

/* Fixed names cannot go; rm -rf is not to fail on them. */
static void ctl_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	(void)dir;
	for (unsigned k = 0; k < CTL_FILES; k++) {
		if (strcmp(name, files[k].name) == 0) {
			fuse_reply_err(req, 0);
			return;
		}
	}
	fuse_reply_err(req, ENOENT);
}

const struct node_ops ctl_ops = {
	.kind = 'C',
	.lookup = ctl_lookup,
	.getattr = ctl_getattr,
	.unlink = ctl_unlink,
	.opendir = ctl_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
