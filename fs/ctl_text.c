/* SPDX-License-Identifier: MIT */
/*
 * The small texts of ctl/ and of jobs: result, exit_code, summary, pid, state, error, config.json,
 * ps, stats. What needs the command asks the agent for it, and for the ends of its output; then the
 * text is rendered, once per open.
 */
#include "fs/ctl.h"

#include "fs/changes.h"
#include "fs/seen.h"

#include "common/cleanup.h"
#include "fs/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUMMARY_OUTPUT 16384u

/* What a text is made of. */
struct facts {
	bool open; /* an open is to be answered; else a measure() */
	enum answer how;
	bool have_job;
	struct proto_job job;
	struct buf head, tail; /* of `output`, for the summary */
};

static void render_state(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)f;
	buf_printf(b, "%s\n", sandbox_state_name(sandbox_state(i->sb)));
}

static void render_error(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)f;
	sandbox_error_render(i->sb, b);
}

static void render_config(struct inode *i, const struct facts *f, struct buf *b)
{
	struct sandbox_info info;

	(void)f;
	if (sandbox_info(i->sb, &info) < 0)
		return;
	/* Names, ids and digests are of characters that JSON takes as they are. */
	buf_printf(b,
		"{\n  \"name\": \"%s\",\n  \"container_id\": \"%s\",\n  \"image_id\": \"%s\",\n"
		"  \"template\": \"%s\",\n  \"owner\": %" PRIu32 ",\n  \"created\": %" PRId64
		",\n  \"config\": %s\n}\n",
		info.name, info.id, info.image_id, info.template, info.owner, info.created,
		*info.config ? info.config : "null");
	sandbox_info_fini(&info);
}

static void render_exit_code(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)i;
	if (f->have_job && f->job.exit_code >= 0)
		buf_printf(b, "%d\n", f->job.exit_code);
}

static void render_result(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)i;
	buf_printf(b, "%s\n", proto_result_name(f->have_job ? f->job.result : PROTO_RESULT_NEW));
}

static void render_pid(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)i;
	if (f->have_job && f->job.pid)
		buf_printf(b, "%" PRIu32 "\n", f->job.pid);
}

/* The agent's own text. */
static void render_told(struct inode *i, const struct facts *f, struct buf *b)
{
	(void)i;
	buf_append(b, f->head.data, f->head.len);
	if (f->head.len && f->head.data[f->head.len - 1] != '\n')
		buf_puts(b, "\n");
}

static void put_seconds(struct buf *b, const char *key, uint64_t us)
{
	buf_printf(b, "%s: %" PRIu64 ".%06" PRIu64 "\n", key, us / 1000000, us % 1000000);
}

static void put_output(struct buf *b, const struct facts *f)
{
	uint64_t size = f->job.size[PROTO_STREAM_OUTPUT];

	buf_puts(b, "\n");
	buf_append(b, f->head.data, f->head.len);
	if (f->tail.len) {
		buf_printf(b, "\n[... %" PRIu64 " bytes left out; see output ...]\n",
			size - f->head.len - f->tail.len);
		buf_append(b, f->tail.data, f->tail.len);
	}
	if (b->len && b->data[b->len - 1] != '\n')
		buf_puts(b, "\n");
}

static void render_summary(struct inode *i, const struct facts *f, struct buf *b)
{
	static const char *const stream[PROTO_STREAMS] = {"stdout", "stderr", "output"};
	const struct proto_job *j = &f->job;

	(void)i;
	if (!f->have_job) {
		buf_puts(b, "result: new\n");
		return;
	}
	buf_puts(b, "command: ");
	for (const char *p = j->command; *p && *p != '\n'; p++)
		buf_append(b, p, 1);
	buf_puts(b, strchr(j->command, '\n') && strchr(j->command, '\n')[1] ? " ...\n" : "\n");
	buf_printf(b, "job: %s\nresult: %s\n", j->name, proto_result_name(j->result));
	if (j->exit_code >= 0)
		buf_printf(b, "exit_code: %d\n", j->exit_code);
	if (*j->words)
		buf_printf(b, "message: %s\n", j->words);
	put_seconds(b, "wall_seconds", j->wall_us);
	put_seconds(b, "user_seconds", j->user_us);
	put_seconds(b, "system_seconds", j->system_us);
	buf_printf(b, "peak_memory_bytes: %" PRIu64 "\n", j->peak_kib * 1024);
	for (int k = 0; k < PROTO_STREAMS; k++) {
		buf_printf(b, "%s_bytes: %" PRIu64 "\n", stream[k], j->size[k]);
		if (j->hole_to[k])
			buf_printf(b, "%s_dropped: %" PRIu64 "-%" PRIu64 "\n", stream[k],
				j->hole_from[k], j->hole_to[k]);
	}
	put_output(b, f);
}

static const struct {
	void (*render)(struct inode *i, const struct facts *f, struct buf *b);
	uint16_t ask; /* what the agent is asked first; 0: nothing */
	bool needs_output;
} texts[CTL_FILES] = {
	[CTL_EXIT_CODE] = {render_exit_code, PROTO_JOB_INFO, false},
	[CTL_RESULT] = {render_result, PROTO_JOB_INFO, false},
	[CTL_SUMMARY] = {render_summary, PROTO_JOB_INFO, true},
	[CTL_PID] = {render_pid, PROTO_JOB_INFO, false},
	[CTL_STATE] = {render_state, 0, false},
	[CTL_ERROR] = {render_error, 0, false},
	[CTL_CONFIG] = {render_config, 0, false},
	[CTL_STATS] = {render_told, PROTO_STATS, false},
	[CTL_PS] = {render_told, PROTO_PS, false},
};

static void facts_free(struct facts *f)
{
	proto_job_fini(&f->job);
	buf_fini(&f->head);
	buf_fini(&f->tail);
	free(f);
}

static void op_facts_free(struct op *op)
{
	facts_free(op->data);
}

static void answer(
	fuse_req_t req, struct inode *i, const struct facts *f, struct fuse_file_info *fi)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	texts[i->which].render(i, f, &b);
	if (f->open) {
		text_reply_open(req, &b, fi);
	} else {
		ctl_answer(req, i, b.len, f->how);
		buf_fini(&b);
	}
}

static enum op_outcome finish(struct op *op, fuse_req_t req)
{
	if (req)
		answer(req, op->ino, op->data, &op->fi);
	return OP_DONE;
}

static enum op_outcome reply_output(struct op *op, fuse_req_t req, struct wire_in *body);

/* Asks for a part of `output`: first the head, then, if there is more, the tail. */
static enum op_outcome ask_output(struct op *op, uint64_t off, uint64_t size)
{
	struct facts *f = op->data;

	op->reply = reply_output;
	op->size = (size_t)size;
	op->off = off;
	op_next(op, PROTO_JOB_READ);
	wire_u64(&op->call.frame, f->job.job);
	wire_u8(&op->call.frame, PROTO_STREAM_OUTPUT);
	wire_u64(&op->call.frame, off);
	wire_u32(&op->call.frame, (uint32_t)size);
	return OP_AGAIN;
}

static enum op_outcome reply_output(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct facts *f = op->data;
	uint64_t total = f->job.size[PROTO_STREAM_OUTPUT];
	size_t n;
	const uint8_t *p = wire_get_bytes(body, op->size, &n);

	if (!wire_end(body))
		return OP_BAD;
	buf_append(op->off ? &f->tail : &f->head, p, n);
	if (!op->off && total > SUMMARY_OUTPUT)
		return ask_output(op, total - SUMMARY_OUTPUT / 2, SUMMARY_OUTPUT / 2);
	return finish(op, req);
}

static enum op_outcome reply_job(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct facts *f = op->data;
	uint64_t size;

	if (!ctl_get_job(op, body, &f->job))
		return OP_BAD;
	f->have_job = true;
	size = f->job.size[PROTO_STREAM_OUTPUT];
	if (!texts[op->ino->which].needs_output || !size)
		return finish(op, req);
	return ask_output(op, 0, size > SUMMARY_OUTPUT ? SUMMARY_OUTPUT / 2 : size);
}

static enum op_outcome reply_told(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct facts *f = op->data;
	size_t n;
	const uint8_t *p = wire_get_bytes(body, PROTO_MAX_DATA, &n);

	if (!wire_end(body))
		return OP_BAD;
	f->head.max = PROTO_MAX_DATA;
	buf_append(&f->head, p, n);
	return finish(op, req);
}

/* The last that this daemon saw of a job, as nobody can be asked now. False: nothing, and that
 * there is no job would be a guess. */
static bool recall(struct op *op, struct facts *f)
{
	struct seen *seen = itable_seen(op->ino->table);

	if (!op->ino->job && seen_was_none(seen))
		return true;
	f->have_job = seen_recall(seen, op->ino->job, &f->job);
	return f->have_job || ctl_no_job_yet(op->sb);
}

/* No job, or nobody to ask now: what was last known is the answer; of what is only true now, that
 * is nothing. */
static enum op_outcome job_unknown(struct op *op, fuse_req_t req, int r)
{
	struct facts *f = op->data;
	bool known = true;

	if (r != -EAGAIN && (r != -ENOENT || op->ino->job)) {
		if (req)
			fuse_reply_err(req, -r);
		return OP_DONE;
	}
	if (op->call.type == PROTO_JOB_INFO && r == -ENOENT)
		seen_none(itable_seen(op->ino->table));
	else if (op->call.type == PROTO_JOB_INFO)
		known = recall(op, f);
	if (known)
		return finish(op, req);
	if (req && f->open)
		fuse_reply_err(req, ESHUTDOWN);
	else if (req)
		ctl_answer(req, op->ino, 0, f->how);
	return OP_DONE;
}

static void gather(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, bool open, enum answer how)
{
	struct facts *f = calloc(1, sizeof(*f));
	struct op *op;

	if (!f) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	f->open = open;
	f->how = how;
	buf_init(&f->head, SUMMARY_OUTPUT);
	buf_init(&f->tail, SUMMARY_OUTPUT);
	if (!texts[i->which].ask) {
		answer(req, i, f, fi);
		facts_free(f);
		return;
	}
	op = texts[i->which].ask == PROTO_JOB_INFO
		     ? ctl_ask_job(req, i, i->job, reply_job, job_unknown)
		     : op_new(req, i, texts[i->which].ask, reply_told);
	if (!op) {
		facts_free(f);
		return;
	}
	op->failed = job_unknown;
	op->call.repeat = true;
	op->data = f;
	op->fini = op_facts_free;
	if (open)
		op->fi = *fi;
	op_send_now(op);
}

static void text_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	gather(req, i, NULL, false, how);
}

/* Opened for writing it shows nothing: what is written acts at once. */
static void text_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct buf nothing;

	if ((fi->flags & O_ACCMODE) == O_RDONLY) {
		gather(req, i, fi, true, ANSWER_ATTR);
	} else if (!(ctl_mode(i->which) & 0200)) {
		ctl_read_only(req, i);
	} else {
		buf_init(&nothing, 1);
		text_reply_open(req, &nothing, fi);
	}
}

struct written {
	struct op *op; /* NULL: nobody waits */
	struct inode *i;
	size_t size;
};

static void written_free(struct written *w)
{
	inode_put(w->i);
	free(w);
}

static void state_told(void *arg)
{
	struct written *w = arg;
	fuse_req_t req = w->op ? op_take(w->op) : NULL;

	if (req)
		fuse_reply_write(req, w->size);
	written_free(w);
}

/* What the kernel has kept of the files would hide the new state. */
static void state_set(void *arg, int r, const struct err *err)
{
	struct written *w = arg;

	if (r >= 0) {
		changes_drop_all(itable_changes(w->i->table), state_told, w);
		return;
	}
	fs_fail(w->i->fs, w->op ? op_take(w->op) : NULL, w->i->sb, "state", "ctl/state", err);
	written_free(w);
}

/* The word that was written; false: EINVAL has been answered. */
static bool get_word(
	fuse_req_t req, struct inode *i, const char *data, size_t n, char *word, size_t size)
{
	static const char *const words[] = {"running", "paused", "stopped", "restart"};
	struct err err;

	while (n && isspace((unsigned char)data[n - 1]))
		n--;
	for (size_t k = 0; k < sizeof(words) / sizeof(*words); k++) {
		if (n == strlen(words[k]) && memcmp(data, words[k], n) == 0) {
			snprintf(word, size, "%s", words[k]);
			return true;
		}
	}
	err_set(&err, EINVAL, "ctl/state takes running, paused, stopped or restart");
	fs_fail(i->fs, req, i->sb, "state", "ctl/state", &err);
	return false;
}

/* op: who waits, or NULL. */
static void set_state(struct op *op, struct inode *i, const char *word, size_t size)
{
	struct written *w = malloc(sizeof(*w));
	fuse_req_t req;

	if (!w) {
		req = op ? op_take(op) : NULL;
		if (req)
			fuse_reply_err(req, ENOMEM);
		return;
	}
	*w = (struct written){.op = op, .i = i, .size = size};
	inode_get(i);
	registry_set_state(i->fs->registry, i->sb, word, state_set, w);
}

static void state_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	char word[16];
	struct op *op;

	(void)off;
	(void)fi;
	if (!get_word(req, i, data, size, word, sizeof(word)))
		return;
	op = op_wait(req);
	if (op)
		set_state(op, i, word, size);
}

/* The directory is locked until the answer: it goes on behind. */
static void state_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	char word[16];

	if (!get_word(req, i, data, size, word, sizeof(word)))
		return;
	inode_get(i);
	fuse_reply_err(req, 0);
	set_state(NULL, i, word, size);
	inode_put(i);
}

const struct node_ops ctl_text_ops = {
	.kind = 'x',
	.measure = text_measure,
	.setattr = ctl_setattr,
	.open = text_open,
	.read = text_read,
	.release = text_release,
};

const struct node_ops ctl_state_ops = {
	.kind = 'y',
	.measure = text_measure,
	.setattr = ctl_setattr,
	.open = text_open,
	.read = text_read,
	.write = state_write,
	.put = state_put,
	.release = text_release,
};
