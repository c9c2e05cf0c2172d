/* SPDX-License-Identifier: MIT */
/* The directory ctl/, and what its files and those of jobs share. Reading here never waits and
 * never wakes a sandbox; but for the file wait. */
#include "fs/ctl.h"

#include "fs/poller.h"
#include "fs/scratch.h"
#include "fs/seen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IN_CTL 1u
#define IN_JOB 2u
#define BOTH   (IN_CTL | IN_JOB)

static const struct {
	const char *name;
	const struct node_ops *ops;
	mode_t mode;
	unsigned where;
} files[CTL_FILES] = {
	[CTL_EXEC] = {"exec", &exec_ops, 0600, BOTH},
	[CTL_ARGV] = {"argv", &exec_ops, 0600, BOTH},
	[CTL_STDIN] = {"stdin", &stdin_ops, 0600, BOTH},
	[CTL_STDOUT] = {"stdout", &ctl_stream_ops, 0400, BOTH},
	[CTL_STDERR] = {"stderr", &ctl_stream_ops, 0400, BOTH},
	[CTL_OUTPUT] = {"output", &ctl_stream_ops, 0400, BOTH},
	[CTL_EXIT_CODE] = {"exit_code", &ctl_text_ops, 0400, BOTH},
	[CTL_RESULT] = {"result", &ctl_text_ops, 0400, BOTH},
	[CTL_SUMMARY] = {"summary", &ctl_text_ops, 0400, BOTH},
	[CTL_TIMEOUT] = {"timeout", &settings_ops, 0600, BOTH},
	[CTL_MAX_WAIT] = {"max_wait", &settings_ops, 0600, BOTH},
	[CTL_USER] = {"user", &settings_ops, 0600, BOTH},
	[CTL_CWD] = {"cwd", &settings_ops, 0600, BOTH},
	[CTL_ENV] = {"env", &settings_ops, 0600, BOTH},
	[CTL_SHELL] = {"shell", &settings_ops, 0600, BOTH},
	[CTL_TTY] = {"tty", &settings_ops, 0600, IN_JOB},
	[CTL_WAIT] = {"wait", &wait_ops, 0400, IN_JOB},
	[CTL_SIGNAL] = {"signal", &signal_ops, 0200, IN_JOB},
	[CTL_PID] = {"pid", &ctl_text_ops, 0400, IN_JOB},
	[CTL_STATE] = {"state", &ctl_state_ops, 0600, IN_CTL},
	[CTL_ERROR] = {"error", &ctl_text_ops, 0400, IN_CTL},
	[CTL_CONFIG] = {"config.json", &ctl_text_ops, 0400, IN_CTL},
	[CTL_STATS] = {"stats", &ctl_text_ops, 0400, IN_CTL},
	[CTL_PS] = {"ps", &ctl_text_ops, 0400, IN_CTL},
	[CTL_MEMORY_MAX] = {"memory.max", &limit_ops, 0600, IN_CTL},
	[CTL_CPU_MAX] = {"cpu.max", &limit_ops, 0600, IN_CTL},
	[CTL_PIDS_MAX] = {"pids.max", &limit_ops, 0600, IN_CTL},
	[CTL_LOG] = {"log", &log_ops, 0400, IN_CTL},
};

const char *ctl_name(unsigned which)
{
	return files[which].name;
}

mode_t ctl_mode(unsigned which)
{
	return files[which].mode;
}

int ctl_find(const char *name, bool in_job)
{
	for (unsigned k = 0; k < CTL_FILES; k++)
		if ((files[k].where & (in_job ? IN_JOB : IN_CTL)) &&
			strcmp(name, files[k].name) == 0)
			return (int)k;
	return -1;
}

void ctl_list(struct dirlist *d, bool in_job)
{
	for (unsigned k = 0; k < CTL_FILES; k++)
		if (files[k].where & (in_job ? IN_JOB : IN_CTL))
			dirlist_add(d, files[k].name, 1, S_IFREG);
}

struct inode *ctl_control(struct inode *dir, const char *name)
{
	int which = ctl_find(name, dir->job);

	return which < 0 ? NULL
			 : inode_fixed_job(dir->table, files[which].ops, (unsigned)which, dir->job);
}

void ctl_reply_file(fuse_req_t req, struct inode *dir, unsigned which)
{
	inode_reply_file(req, inode_fixed_job(dir->table, files[which].ops, which, dir->job));
}

void ctl_answer(fuse_req_t req, struct inode *i, uint64_t size, enum answer how)
{
	inode_answer(req, i, ctl_mode(i->which), size, how);
}

void ctl_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	(void)st;
	if (!(ctl_mode(i->which) & 0200) || (to_set & ~FUSE_SET_ATTR_SIZE))
		fuse_reply_err(req, EPERM);
	else
		i->ops->measure(req, i, fi, ANSWER_ATTR);
}

void ctl_fail(fuse_req_t req, struct inode *i, const struct err *err)
{
	const char *op = i->ops == &exec_ops ? "exec" : ctl_name(i->which);
	char path[PROTO_NAME_MAX + 64], name[PROTO_NAME_MAX + 1];

	if (i->job) {
		seen_name(itable_seen(i->table), i->job, name, sizeof(name));
		snprintf(path, sizeof(path), "ctl/jobs/%s/%s", name, ctl_name(i->which));
	} else {
		snprintf(path, sizeof(path), "ctl/%s", ctl_name(i->which));
	}
	fs_fail(i->fs, req, i->sb, op, path, err);
}

void ctl_read_only(fuse_req_t req, struct inode *i)
{
	struct err err;

	err_set(&err, EACCES, "%s cannot be written", ctl_name(i->which));
	ctl_fail(req, i, &err);
}

enum op_outcome ctl_failed(struct op *op, fuse_req_t req, int r)
{
	const char *words = op->call.words;
	struct err err;

	err_set(&err, -r, "%s", words && *words ? words : strerror(-r));
	if (r != -EINTR) /* that was the caller's own wish */
		ctl_fail(req, op->ino, &err);
	else if (req)
		fuse_reply_err(req, EINTR);
	return OP_DONE;
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

bool ctl_get_job(struct op *op, struct wire_in *body, struct proto_job *j)
{
	proto_get_job(body, j);
	if (!wire_end(body) || !j->job || (op->ino->job && j->job != op->ino->job)) {
		proto_job_fini(j);
		return false;
	}
	seen_job(itable_seen(op->ino->table), j);
	return true;
}

static enum op_outcome read_failed(struct op *op, fuse_req_t req, int r)
{
	(void)op;
	if (req)
		fuse_reply_err(req, r == -EAGAIN ? ESHUTDOWN : -r);
	return OP_DONE;
}

static enum op_outcome reply_read(struct op *op, fuse_req_t req, struct wire_in *body)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(body, op->size, &n);

	if (!wire_end(body))
		return OP_BAD;
	if (req && op->data)
		poller_read_to(op->data, op->off + n);
	if (req)
		fuse_reply_buf(req, (const char *)p, n);
	return OP_DONE;
}

void ctl_read(fuse_req_t req, struct inode *i, uint64_t job, uint8_t stream, size_t size, off_t off,
	struct poller *p)
{
	struct op *op;

	if (!job && stream != PROTO_STREAM_STDIN) { /* no command has run */
		fuse_reply_buf(req, NULL, 0);
		return;
	}
	op = op_new(req, i, PROTO_JOB_READ, reply_read);
	if (!op)
		return;
	op->failed = read_failed;
	op->size = size < PROTO_MAX_DATA ? size : PROTO_MAX_DATA;
	op->off = (uint64_t)off;
	op->data = p;
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

bool ctl_tell(struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	call_begin(c, type, 0, 0);
	c->as_user = c->repeat = true; /* each of these said twice is as good as said once */
	c->done = told;
	wire_u64(&c->frame, job);
	if (extra)
		buf_append(&c->frame, extra->data, extra->len);
	if (sandbox_call_linked(sb, c) < 0) {
		told(c, -EAGAIN, NULL);
		return false;
	}
	return true;
}

/* Until there is a connection. */
static void keep(struct itable *t, struct sandbox *sb, const struct seen_errand *e)
{
	seen_later(itable_seen(t), e);
	if (sandbox_answers(sb)) /* it has come up meanwhile */
		ctl_up(t, sb);
}

void ctl_tell_surely(
	struct itable *t, struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra)
{
	struct seen_errand e = {.type = type, .job = job};

	if (ctl_tell(sb, type, job, extra) || (extra && extra->len > sizeof(e.extra)))
		return;
	if (extra && extra->len)
		memcpy(e.extra, extra->data, extra->len);
	e.n = extra ? extra->len : 0;
	keep(t, sb, &e);
}

/* The question whether a job was started. */
struct doubt {
	struct call call;
	struct itable *t;
	struct sandbox *sb; /* a reference: the table goes with it */
	uint64_t job;
};

static void doubt_free(struct doubt *d)
{
	call_fini(&d->call);
	sandbox_put(d->sb);
	free(d);
}

static bool doubt_settled(struct call *c, int r, struct wire_in *body)
{
	struct doubt *d = (struct doubt *)c;
	struct proto_job j = {0};
	bool ok = true;

	if (r == 0) {
		proto_get_job(body, &j);
		ok = wire_end(body) && j.job == d->job;
	}
	if (r == 0 && ok && j.result == PROTO_RESULT_NEW)
		ctl_tell_surely(d->t, d->sb, PROTO_JOB_DROP, d->job, NULL);
	proto_job_fini(&j);
	doubt_free(d);
	return ok;
}

/* False: there is no connection. */
static bool ask_doubt(struct itable *t, struct sandbox *sb, uint64_t job)
{
	struct doubt *d = calloc(1, sizeof(*d));

	if (!d)
		return false;
	d->t = t;
	d->sb = sb;
	sandbox_get(sb);
	d->job = job;
	call_begin(&d->call, PROTO_JOB_INFO, 0, 0);
	d->call.as_user = d->call.repeat = true;
	d->call.done = doubt_settled;
	wire_u64(&d->call.frame, job);
	if (sandbox_call_linked(sb, &d->call) == 0)
		return true;
	doubt_free(d);
	return false;
}

void ctl_drop_new(struct itable *t, struct sandbox *sb, uint64_t job)
{
	struct seen_errand e = {.type = PROTO_JOB_INFO, .job = job};

	if (!ask_doubt(t, sb, job))
		keep(t, sb, &e);
}

static bool do_errand(struct itable *t, struct sandbox *sb, const struct seen_errand *e)
{
	struct buf extra;
	bool told;

	if (e->type == PROTO_JOB_INFO)
		return ask_doubt(t, sb, e->job);
	buf_init(&extra, sizeof(e->extra));
	buf_append(&extra, e->extra, e->n);
	told = ctl_tell(sb, e->type, e->job, &extra);
	buf_fini(&extra);
	return told;
}

void ctl_up(struct itable *t, struct sandbox *sb)
{
	struct seen_errand e;

	while (seen_take_errand(itable_seen(t), &e)) {
		if (!do_errand(t, sb, &e)) { /* lost again: until the next time */
			seen_later(itable_seen(t), &e);
			return;
		}
	}
}

bool ctl_no_job_yet(struct sandbox *sb)
{
	enum sandbox_state s = sandbox_state(sb);

	return s == SANDBOX_CREATING || s == SANDBOX_STARTING;
}

bool ctl_is_down(struct sandbox *sb)
{
	enum sandbox_state s = sandbox_state(sb);

	return s == SANDBOX_STOPPED || s == SANDBOX_FAILED;
}

static void ctl_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	int which = ctl_find(name, false);

	if (which >= 0)
		ctl_reply_file(req, dir, (unsigned)which);
	else if (strcmp(name, "jobs") == 0)
		inode_reply_fixed(req, inode_fixed(dir->table, &jobs_ops, 0), S_IFDIR | 0700, 0);
	else if (strcmp(name, "ports") == 0)
		inode_reply_fixed(req, inode_fixed(dir->table, &ports_ops, 0), S_IFDIR | 0700, 0);
	else
		scratch_lookup(req, dir, name);
}

void ctl_dir_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0700, 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static void ctl_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	if (d) {
		ctl_list(d, false);
		dirlist_add(d, "jobs", 1, S_IFDIR);
		dirlist_add(d, "ports", 1, S_IFDIR);
		scratch_list(i, d);
	}
	dirlist_reply_open(req, d, fi);
}

/* Fixed names cannot go; rm -rf is not to fail on them. */
static void ctl_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	if (ctl_find(name, false) >= 0)
		fuse_reply_err(req, 0);
	else
		scratch_unlink(req, dir, name);
}

/* The same for directories. */
static void ctl_rmdir(fuse_req_t req, struct inode *dir, const char *name)
{
	const struct node_ops *ops = strcmp(name, "jobs") == 0	  ? &jobs_ops
				     : strcmp(name, "ports") == 0 ? &ports_ops
								  : NULL;

	if (ops)
		inode_fixed_renew(dir->table, ops, 0, 0);
	fuse_reply_err(req, ops ? 0 : ENOENT);
}

const struct node_ops ctl_ops = {
	.kind = 'C',
	.lookup = ctl_lookup,
	.control = ctl_control,
	.getattr = ctl_dir_getattr,
	.mknod = scratch_mknod,
	.create = scratch_create,
	.rename = scratch_rename,
	.unlink = ctl_unlink,
	.rmdir = ctl_rmdir,
	.opendir = ctl_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
