/* SPDX-License-Identifier: MIT */
/*
 * A template's file. What is written is kept until it is whole: when who opened the file closes it
 * (or syncs it, or at the last close) it is checked and put on the disk, or refused, and the old
 * one stays. A close error nobody sees, so a write that makes the text whole is checked at once:
 * braces that match end a JSON object, and nothing can follow it.
 */
#include "fs/templates.h"

#include "common/cleanup.h"
#include "fs/caller.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct template_handle {
	bool writer, append;
	pid_t opener;
	mode_t mode;
	struct inode *i;
	struct template_handle *next; /* of the writers; protected by their lock */
	pthread_mutex_t lock;
	/* Protected by lock. */
	struct buf text;
	bool dirty;   /* written since it was last saved or refused */
	bool emptied; /* and nothing was written since */
	bool killed;  /* the last who closed was being killed: the text may be half of what it meant
		       */
};

static struct template_handle *handle_of(const struct fuse_file_info *fi)
{
	return fi ? (struct template_handle *)(uintptr_t)fi->fh : NULL;
}

static struct template_handle *handle_new(
	struct inode *i, const struct fuse_file_info *fi, pid_t tid, mode_t mode)
{
	struct template_names *n = i->fs->templates;
	struct template_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->writer = (fi->flags & O_ACCMODE) != O_RDONLY;
	h->append = fi->flags & O_APPEND;
	h->opener = caller_process(tid);
	h->mode = mode;
	pthread_mutex_init(&h->lock, NULL);
	buf_init(&h->text, TEMPLATE_FILE_MAX + 32768);
	h->i = i; /* the kernel knows it as long as it is open */
	if (h->writer) {
		pthread_mutex_lock(&n->lock);
		h->next = n->writers;
		n->writers = h;
		pthread_mutex_unlock(&n->lock);
	}
	return h;
}

static void handle_free(struct template_handle *h)
{
	struct template_names *n = h->i->fs->templates;
	struct template_handle **at = &n->writers;

	pthread_mutex_lock(&n->lock);
	while (*at && *at != h)
		at = &(*at)->next;
	if (*at)
		*at = h->next;
	pthread_mutex_unlock(&n->lock);
	buf_fini(&h->text);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void template_stat_of(
	const struct inode *i, const struct template_stat *ts, size_t size, struct stat *st)
{
	mode_t mode = (ts->mode & 0666) | 0400;

	inode_fixed_stat(i, S_IFREG | (i->fs->options->locked ? mode & 0444 : mode), size, st);
	if (!ts->builtin)
		st->st_mtim = st->st_ctim = st->st_atim = ts->changed;
}

static void answer_measure(struct template_task *t, fuse_req_t req, int r)
{
	struct stat st;

	if (!req)
		return;
	if (r < 0) {
		fuse_reply_err(req, t->err.code);
		return;
	}
	template_stat_of(t->i, &t->st, t->got.len, &st);
	fuse_reply_attr(req, &st, 0);
}

/* The directory's lookup answers entries itself, so this is about attributes only. One who writes
 * sees what it has written. */
static void file_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	struct template_task *t;

	if (h && h->writer) {
		struct template_stat ts = {.mode = h->mode};
		struct stat st;

		clock_gettime(CLOCK_REALTIME, &ts.changed);
		pthread_mutex_lock(&h->lock);
		template_stat_of(i, &ts, h->text.len, &st);
		pthread_mutex_unlock(&h->lock);
		fuse_reply_attr(req, &st, 0);
		return;
	}
	t = template_task_new(req, i, template_node_name(i), template_run_read, answer_measure);
	if (t)
		template_task_start(t);
}

static void reply_open(struct template_task *t, fuse_req_t req, struct template_handle *h)
{
	t->fi.fh = (uint64_t)(uintptr_t)h;
	t->fi.direct_io = 1;
	if (fuse_reply_open(req, &t->fi) < 0)
		handle_free(h);
}

static void answer_open(struct template_task *t, fuse_req_t req, int r)
{
	struct template_handle *h = t->handle;

	if (req && r == 0) {
		h->mode = t->st.mode;
		buf_append(&h->text, t->got.data, t->got.len);
		reply_open(t, req, h);
		return;
	}
	handle_free(h);
	if (req)
		fuse_reply_err(req, t->err.code);
}

static void file_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	const char *name = template_node_name(i);
	struct template_handle *h;
	struct template_task *t;

	if ((fi->flags & O_ACCMODE) != O_RDONLY && template_locked(req, i, "open", name))
		return;
	h = handle_new(i, fi, fuse_req_ctx(req)->pid, 0);
	if (!h) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	t = template_task_new(req, i, name, template_run_read, answer_open);
	if (!t) {
		handle_free(h);
		return;
	}
	t->handle = h;
	t->fi = *fi;
	template_task_start(t);
}

void template_create(fuse_req_t req, struct inode *dir, const char *name, struct fuse_file_info *fi)
{
	struct inode *i = template_node(dir->fs, name);
	struct template_handle *h = i ? handle_new(i, fi, fuse_req_ctx(req)->pid, 0600) : NULL;
	struct template_stat ts = {.mode = 0600};
	struct fuse_entry_param e;

	if (!h) {
		if (i)
			inode_forget(i, 1);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	h->emptied = true;
	clock_gettime(CLOCK_REALTIME, &ts.changed);
	e = inode_entry(i, 0);
	template_stat_of(i, &ts, 0, &e.attr);
	fi->fh = (uint64_t)(uintptr_t)h;
	fi->direct_io = 1;
	if (fuse_reply_create(req, &e, fi) < 0) {
		handle_free(h);
		inode_forget(i, 1);
	}
}

static void file_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	cleanup_free char *part = malloc(size ? size : 1);
	size_t n = 0;

	(void)i;
	if (!part) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_lock(&h->lock);
	if (off >= 0 && (size_t)off < h->text.len) {
		n = h->text.len - (size_t)off < size ? h->text.len - (size_t)off : size;
		memcpy(part, h->text.data + off, n);
	}
	pthread_mutex_unlock(&h->lock);
	fuse_reply_buf(req, part, n);
}

/* Whether nothing can follow: the braces match, or it has never been an object. */
static bool is_whole(const char *s, size_t n)
{
	bool string = false, escaped = false;
	unsigned depth = 0;
	size_t i = 0;

	while (i < n && isspace((unsigned char)s[i]))
		i++;
	if (i < n && s[i] != '{')
		return true;
	for (; i < n; i++) {
		if (escaped)
			escaped = false;
		else if (string && s[i] == '\\')
			escaped = true;
		else if (s[i] == '"')
			string = !string;
		else if (!string && (s[i] == '{' || s[i] == '['))
			depth++;
		else if (!string && (s[i] == '}' || s[i] == ']') && --depth == 0)
			return true;
	}
	return false;
}

static int run_check(struct template_task *t)
{
	struct spec spec;
	int r = template_parse(
		t->name, t->text, t->size, registry_rules(t->i->fs->registry), &spec, &t->err);

	if (r == 0)
		spec_fini(&spec);
	return r;
}

/* What was refused is not tried again at the close. */
static void answer_check(struct template_task *t, fuse_req_t req, int r)
{
	struct template_handle *h = t->handle;

	if (r == 0) {
		if (req)
			fuse_reply_write(req, t->flags);
		return;
	}
	if (req) { /* else the handle may be gone by now */
		pthread_mutex_lock(&h->lock);
		buf_reset(&h->text);
		h->dirty = false;
		pthread_mutex_unlock(&h->lock);
	}
	template_fail(t, req);
}

/* With the lock held. */
static int put_text(struct template_handle *h, const char *data, size_t size, uint64_t off)
{
	if (h->append)
		off = h->text.len;
	if (off > h->text.len)
		return -EINVAL; /* a hole is no JSON */
	if (off + size > TEMPLATE_FILE_MAX)
		return -EFBIG;
	if (off + size > h->text.len) {
		if (!buf_reserve(&h->text, (size_t)off + size - h->text.len + 1))
			return -ENOMEM;
		h->text.len = (size_t)off + size;
		h->text.data[h->text.len] = 0;
	}
	memcpy(h->text.data + off, data, size);
	h->dirty = true;
	h->emptied = false;
	return 0;
}

static void file_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	struct template_task *t;
	char *whole = NULL;
	size_t len = 0;
	int r;

	pthread_mutex_lock(&h->lock);
	r = put_text(h, data, size, (uint64_t)off);
	if (r == 0 && is_whole((char *)h->text.data, h->text.len)) {
		len = h->text.len;
		whole = strndup((char *)h->text.data, len);
		r = whole ? 0 : -ENOMEM;
	}
	pthread_mutex_unlock(&h->lock);
	if (r < 0) {
		fuse_reply_err(req, -r);
	} else if (!whole) {
		fuse_reply_write(req, size);
	} else if ((t = template_task_new(
			    req, i, template_node_name(i), run_check, answer_check))) {
		t->handle = h;
		t->text = whole;
		t->size = len;
		t->flags = (unsigned)size;
		template_task_start(t);
	} else {
		free(whole);
	}
}

static int resize(struct template_handle *h, uint64_t size)
{
	int r = 0;

	pthread_mutex_lock(&h->lock);
	if (size <= h->text.len)
		h->text.len = (size_t)size;
	else
		r = -EINVAL;
	h->emptied = h->text.len == 0;
	h->dirty = h->dirty && !h->emptied;
	pthread_mutex_unlock(&h->lock);
	return r;
}

/* The kernel does not say for which open it empties a file: the newest of the caller's. */
static int empty_newest(struct inode *i, pid_t process)
{
	struct template_names *n = i->fs->templates;
	struct template_handle *h;

	pthread_mutex_lock(&n->lock);
	for (h = n->writers; h && (h->i != i || h->opener != process);)
		h = h->next;
	if (h)
		resize(h, 0);
	pthread_mutex_unlock(&n->lock);
	return h ? 0 : -EPERM;
}

/* Modes and times are the file's own on the disk; tools that set them are not to fail. */
static void file_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	int r = 0;

	if (template_locked(req, i, "setattr", template_node_name(i)))
		return;
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		r = -EPERM;
	else if ((to_set & FUSE_SET_ATTR_SIZE) && h)
		r = h->writer ? resize(h, (uint64_t)st->st_size) : -EPERM;
	else if (to_set & FUSE_SET_ATTR_SIZE)
		r = st->st_size ? -EPERM : empty_newest(i, caller_process(fuse_req_ctx(req)->pid));
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		file_getattr(req, i, fi);
}

/* A copy of what is to be saved now; NULL: nothing. */
static char *take_text(struct template_handle *h, size_t *size)
{
	char *text = NULL;

	pthread_mutex_lock(&h->lock);
	if (h->dirty) {
		*size = h->text.len;
		text = malloc(h->text.len + 1);
		if (text)
			memcpy(text, h->text.data, h->text.len);
		h->dirty = false;
	}
	pthread_mutex_unlock(&h->lock);
	return text;
}

/* Takes text; req NULL: nobody waits. */
static void save(fuse_req_t req, struct inode *i, char *text, size_t size)
{
	struct template_task *t = template_task_new(
		req, i, template_node_name(i), template_run_save, template_answer);

	if (!t) {
		free(text);
		return;
	}
	t->text = text;
	t->size = size;
	template_task_start(t);
}

static void save_now(fuse_req_t req, struct inode *i, struct template_handle *h)
{
	size_t size = 0;
	char *text = take_text(h, &size);

	if (text)
		save(req, i, text, size);
	else
		fuse_reply_err(req, 0);
}

static void file_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	pid_t tid = fuse_req_ctx(req)->pid;
	bool killed = caller_killed(tid), opener = h->opener && caller_process(tid) == h->opener;

	pthread_mutex_lock(&h->lock);
	h->killed = killed;
	pthread_mutex_unlock(&h->lock);
	if (h->writer && opener && !killed)
		save_now(req, i, h);
	else
		fuse_reply_err(req, 0);
}

static void file_fsync(fuse_req_t req, struct inode *i, int data_only, struct fuse_file_info *fi)
{
	(void)data_only;
	save_now(req, i, handle_of(fi));
}

static void file_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct template_handle *h = handle_of(fi);
	bool ours, emptied;
	size_t size = 0;
	char *text;

	pthread_mutex_lock(&h->lock);
	ours = h->writer && !h->killed;
	emptied = h->emptied;
	pthread_mutex_unlock(&h->lock);
	text = ours ? take_text(h, &size) : NULL;
	if (!text && ours && emptied)
		text = calloc(1, 1); /* an empty one is refused, in words */
	handle_free(h);
	if (text)
		save(NULL, i, text, size);
	fuse_reply_err(req, 0); /* the node may be gone after this */
}

static void file_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	char *text;

	if (template_locked(req, i, "write", template_node_name(i)))
		return;
	text = malloc(size + 1);
	if (!text) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	memcpy(text, data, size);
	save(req, i, text, size);
}

const struct node_ops template_file_ops = {
	.kind = 'm',
	.mounters = true,
	.getattr = file_getattr,
	.setattr = file_setattr,
	.open = file_open,
	.read = file_read,
	.write = file_write,
	.put = file_put,
	.flush = file_flush,
	.fsync = file_fsync,
	.release = file_release,
};
