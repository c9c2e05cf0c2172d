/* SPDX-License-Identifier: MIT */
/*
 * ctl/jobs/: a directory a job, and the link `last`. What there is the agent says; while it cannot
 * be asked, what it last said is shown. A job that is removed from a sandbox that does not run is
 * out of sight at once, and the agent hears of it when it is back.
 */
#include "fs/ctl.h"

#include "fs/scratch.h"
#include "fs/seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MAX 4096u /* more than an honest agent keeps */

static struct seen *seen_of(const struct op *op)
{
	return itable_seen(op->ino->table);
}

static bool is_last(const char *name)
{
	return strcmp(name, "last") == 0;
}

static void reply_job(fuse_req_t req, struct inode *dir, uint64_t job)
{
	inode_reply_fixed(req, inode_fixed_job(dir->table, &job_ops, 0, job), S_IFDIR | 0700, 0);
}

static void reply_link(fuse_req_t req, struct inode *dir, size_t size)
{
	inode_reply_fixed(req, inode_fixed(dir->table, &last_ops, 0), S_IFLNK | 0777, size);
}

/* What name means. NULL: ENOMEM has been answered. */
static struct op *ask(fuse_req_t req, struct inode *i, const char *name,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body),
	enum op_outcome (*failed)(struct op *op, fuse_req_t req, int r))
{
	struct op *op = op_new(req, i, PROTO_JOB_FIND, reply);

	if (!op)
		return NULL;
	op->failed = failed;
	op->call.repeat = true;
	op->name = strdup(name); /* without it the answer is not believed */
	wire_bytes(&op->call.frame, name, strlen(name));
	return op;
}

/* Reads what ask() is answered with. False: it is malformed, or not about that name. */
static bool found(struct op *op, struct wire_in *body, struct proto_job *j)
{
	proto_get_job(body, j);
	if (!wire_end(body) || !j->job || !op->name || is_last(j->name) ||
		(!is_last(op->name) && strcmp(op->name, j->name) != 0)) {
		proto_job_fini(j);
		return false;
	}
	seen_job(seen_of(op), j);
	if (is_last(op->name))
		seen_last(seen_of(op), j->name);
	return true;
}

static enum op_outcome reply_lookup(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!found(op, body, &j))
		return OP_BAD;
	if (req && is_last(op->name))
		reply_link(req, op->ino, strlen(j.name));
	else if (req)
		reply_job(req, op->ino, j.job);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome lookup_unknown(struct op *op, fuse_req_t req, int r)
{
	char last[PROTO_NAME_MAX + 1];
	uint64_t job;

	if (!req)
		return OP_DONE;
	if (r != -EAGAIN) {
		fuse_reply_err(req, -r);
	} else if (op->name && is_last(op->name)) {
		seen_get_last(seen_of(op), last, sizeof(last));
		if (*last)
			reply_link(req, op->ino, strlen(last));
		else
			fuse_reply_err(req, ENOENT);
	} else {
		job = op->name ? seen_find(seen_of(op), op->name) : 0;
		if (job)
			reply_job(req, op->ino, job);
		else
			fuse_reply_err(req, ENOENT);
	}
	return OP_DONE;
}

static void jobs_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct op *op = ask(req, dir, name, reply_lookup, lookup_unknown);

	if (op)
		op_send_now(op);
}

static void reply_list(fuse_req_t req, struct op *op)
{
	struct dirlist *d = dirlist_new();
	char last[PROTO_NAME_MAX + 1];
	struct seen_name *names;
	size_t n;

	/* The link first: whoever deletes in this order finds it there, while there is a job. */
	seen_get_last(seen_of(op), last, sizeof(last));
	if (d && *last)
		dirlist_add(d, "last", 1, S_IFLNK);
	names = seen_names(seen_of(op), &n);
	for (size_t k = 0; d && k < n; k++)
		dirlist_add(d, names[k].name, 1, S_IFDIR);
	free(names);
	dirlist_reply_open(req, d, &op->fi);
}

static enum op_outcome reply_listed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct seen_name *names = NULL;
	size_t n = 0, room = 0;

	while (!body->bad && body->p < body->end) {
		uint64_t job = wire_get_u64(body);
		char *name = proto_get_name(body);

		if (n == room) {
			struct seen_name *more;

			room = room ? room * 2 : 64;
			more = room > LIST_MAX ? NULL : realloc(names, room * sizeof(*names));
			if (!more)
				body->bad = true;
			else
				names = more;
		}
		if (name && !body->bad) {
			names[n].job = job;
			memset(names[n].name, 0, sizeof(names[n].name));
			memcpy(names[n].name, name, strlen(name));
			if (!job || is_last(name))
				body->bad = true;
			n++;
		}
		free(name);
	}
	if (wire_end(body))
		seen_listed(seen_of(op), names, n);
	free(names);
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		reply_list(req, op);
	return OP_DONE;
}

static enum op_outcome list_unknown(struct op *op, fuse_req_t req, int r)
{
	if (req && r == -EAGAIN)
		reply_list(req, op);
	else if (req)
		fuse_reply_err(req, -r);
	return OP_DONE;
}

static void jobs_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct op *op = op_new(req, i, PROTO_JOB_LIST, reply_listed);

	if (!op)
		return;
	op->failed = list_unknown;
	op->call.repeat = true;
	op->fi = *fi;
	op_send_now(op);
}

/* The words go where those of a file would. */
static enum op_outcome dir_failed(struct op *op, fuse_req_t req, int r)
{
	const char *words = op->call.words;
	struct err err;

	if (r == -EINTR || r == -ENOENT) {
		if (req)
			fuse_reply_err(req, -r);
		return OP_DONE;
	}
	err_set(&err, -r, "%s: %s", op->name ? op->name : "",
		words && *words ? words : strerror(-r));
	fs_fail(op->fs, req, op->sb, "job", "ctl/jobs", &err);
	return OP_DONE;
}

static enum op_outcome reply_made(struct op *op, fuse_req_t req, struct wire_in *body)
{
	uint64_t job = wire_get_u64(body);

	if (!wire_end(body) || job < PROTO_JOB_NAMED)
		return OP_BAD;
	if (req && op->name)
		seen_last(seen_of(op), op->name);
	if (req)
		reply_job(req, op->ino, job);
	else
		ctl_tell(op->sb, PROTO_JOB_DROP, job, NULL);
	return OP_DONE;
}

static void jobs_mkdir(fuse_req_t req, struct inode *dir, const char *name, mode_t mode)
{
	struct op *op = op_new(req, dir, PROTO_JOB_MAKE, reply_made);

	(void)mode;
	if (!op)
		return;
	op->failed = dir_failed;
	op->name = strdup(name);
	wire_bytes(&op->call.frame, name, strlen(name));
	op_send(op);
}

static void forget(struct inode *dir, uint64_t job)
{
	seen_forget(itable_seen(dir->table), job);
	scratch_drop_table(dir->fs, dir->table, job);
}

/* It does not run, so neither does the job: gone from here now, and there when it is back. */
static void drop_later(struct inode *dir, uint64_t job)
{
	forget(dir, job);
	ctl_tell_surely(dir->table, dir->sb, PROTO_JOB_DROP, job, NULL);
}

static enum op_outcome reply_dropped(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	forget(op->ino, op->fh);
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

static enum op_outcome not_dropped(struct op *op, fuse_req_t req, int r)
{
	uint64_t job = op->fh ? op->fh : op->name ? seen_find(seen_of(op), op->name) : 0;

	if ((r == -ESHUTDOWN && job) || (r == -ENOENT && op->call.losses)) {
		if (r == -ESHUTDOWN)
			drop_later(op->ino, job);
		if (req)
			fuse_reply_err(req, 0);
		return OP_DONE;
	}
	return dir_failed(op, req, r);
}

static enum op_outcome reply_to_drop(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!found(op, body, &j))
		return OP_BAD;
	op->fh = j.job;
	proto_job_fini(&j);
	if (!req)
		return OP_DONE;
	op->reply = reply_dropped;
	op->barrier = true; /* all that it did before it died is seen */
	op_next(op, PROTO_JOB_DROP);
	op->call.repeat = true;
	wire_u64(&op->call.frame, op->fh);
	return OP_AGAIN;
}

static void jobs_rmdir(fuse_req_t req, struct inode *dir, const char *name)
{
	uint64_t job = ctl_is_down(dir->sb) ? seen_find(itable_seen(dir->table), name) : 0;
	struct op *op;

	if (job) {
		drop_later(dir, job);
		fuse_reply_err(req, 0);
		return;
	}
	op = ask(req, dir, name, reply_to_drop, not_dropped);
	if (op)
		op_send(op);
}

/* rm -rf is not to fail on it. */
static void jobs_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	(void)dir;
	fuse_reply_err(req, is_last(name) ? 0 : ENOENT);
}

const struct node_ops jobs_ops = {
	.kind = 'J',
	.lookup = jobs_lookup,
	.getattr = ctl_dir_getattr,
	.mkdir = jobs_mkdir,
	.rmdir = jobs_rmdir,
	.unlink = jobs_unlink,
	.opendir = jobs_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};

static void job_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	int which = ctl_find(name, true);

	if (which >= 0)
		ctl_reply_file(req, dir, (unsigned)which);
	else
		scratch_lookup(req, dir, name);
}

static void job_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	if (d) {
		ctl_list(d, true);
		scratch_list(i, d);
	}
	dirlist_reply_open(req, d, fi);
}

static enum op_outcome reply_closed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	(void)op;
	wire_get_u32(body);
	if (!wire_end(body))
		return OP_BAD;
	if (req)
		fuse_reply_err(req, 0);
	return OP_DONE;
}

/* It had none, or has none any more: that is what was asked for. */
static enum op_outcome not_closed(struct op *op, fuse_req_t req, int r)
{
	(void)op;
	if (req)
		fuse_reply_err(req, r == -EINTR ? EINTR : 0);
	return OP_DONE;
}

/* stdin's end is the end of the input; the other names cannot go, and rm -rf is not to fail on
 * them. */
static void job_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	int which = ctl_find(name, true);
	struct op *op;

	if (which < 0) {
		scratch_unlink(req, dir, name);
		return;
	}
	if (which != CTL_STDIN || ctl_is_down(dir->sb)) {
		fuse_reply_err(req, 0);
		return;
	}
	op = op_new(req, dir, PROTO_JOB_STDIN, reply_closed);
	if (!op)
		return;
	op->failed = not_closed;
	op->call.repeat = true;
	wire_u64(&op->call.frame, dir->job);
	wire_u64(&op->call.frame, 0);
	wire_u8(&op->call.frame, PROTO_STDIN_END);
	wire_bytes(&op->call.frame, NULL, 0);
	op_send(op);
}

const struct node_ops job_ops = {
	.kind = 'j',
	.lookup = job_lookup,
	.control = ctl_control,
	.getattr = ctl_dir_getattr,
	.mknod = scratch_mknod,
	.create = scratch_create,
	.rename = scratch_rename,
	.unlink = job_unlink,
	.opendir = job_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};

/* The link's text, for readlink or, with op->flags, for its size. */
static void reply_text(struct op *op, fuse_req_t req, const char *name)
{
	struct stat st;

	if (!*name) {
		fuse_reply_err(req, ENOENT);
	} else if (op->flags) {
		inode_fixed_stat(op->ino, S_IFLNK | 0777, strlen(name), &st);
		fuse_reply_attr(req, &st, 0);
	} else {
		fuse_reply_readlink(req, name);
	}
}

static enum op_outcome reply_last(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_job j;

	if (!found(op, body, &j))
		return OP_BAD;
	if (req)
		reply_text(op, req, j.name);
	proto_job_fini(&j);
	return OP_DONE;
}

static enum op_outcome last_unknown(struct op *op, fuse_req_t req, int r)
{
	char last[PROTO_NAME_MAX + 1];

	if (req && r == -EAGAIN) {
		seen_get_last(seen_of(op), last, sizeof(last));
		reply_text(op, req, last);
	} else if (req) {
		fuse_reply_err(req, -r);
	}
	return OP_DONE;
}

static void ask_last(fuse_req_t req, struct inode *i, unsigned size)
{
	struct op *op = ask(req, i, "last", reply_last, last_unknown);

	if (op) {
		op->flags = size;
		op_send_now(op);
	}
}

static void last_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)fi;
	ask_last(req, i, 1);
}

static void last_readlink(fuse_req_t req, struct inode *i)
{
	ask_last(req, i, 0);
}

const struct node_ops last_ops = {
	.kind = 'L',
	.getattr = last_getattr,
	.readlink = last_readlink,
};
