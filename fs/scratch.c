/* SPDX-License-Identifier: MIT */
/*
 * Nodes and directories of scratch files; scratch_store.c has names and bytes. A node is fixed, by
 * the file's number. A rename onto a control file is a write of it: the text is handed to the
 * control file's put(), which answers, and the scratch file is gone whatever the answer is; the
 * kernel looks the name up anew, because no entry here is kept. A control file that was removed and
 * is made anew (vacant.h) is a file out of sight, which is handed over when it is closed.
 */
#include "fs/scratch.h"

#include "common/cleanup.h"
#include "fs/caller.h"
#include "fs/ctl.h"
#include "fs/vacant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Never that of a control file: an editor that finds that it cannot make a file with the mode of
 * the one it saves writes that one in place, rather than move it away. */
#define MODE 0644

#define NO_REPLACE   1u	  /* RENAME_NOREPLACE */
#define OUT_OF_SIGHT 0x80 /* a kind of place that no directory has */

struct opened {
	struct scratch_file *f; /* a reference */
	struct inode *dir;	/* a reference: to be handed over there, as `name`; or NULL */
	char name[PROTO_NAME_MAX + 1];
	_Atomic bool handed;
};

static struct scratch_place place_of(const struct inode *dir)
{
	return (struct scratch_place){.owner = dir->table, .job = dir->job, .kind = dir->ops->kind};
}

static struct opened *opened_of(const struct fuse_file_info *fi)
{
	return (struct opened *)(uintptr_t)fi->fh;
}

/* Takes the reference; NULL: no memory. */
static struct opened *opened_new(struct scratch_file *f)
{
	struct opened *o = calloc(1, sizeof(*o));

	if (o)
		o->f = f;
	else
		scratch_put(f);
	return o;
}

/* A new reference. */
static struct scratch_file *file_get(const struct inode *i)
{
	return scratch_find_number(i->fs->scratch, i->which);
}

static void fail(
	fuse_req_t req, struct inode *i, const char *op, const char *name, const struct err *err)
{
	struct fs *fs = i->fs;

	if (err->code == EFBIG || err->code == EDQUOT || err->code == ENOSPC)
		fs_fail(fs, req, i->sb, op, name, err);
	else
		fuse_reply_err(req, err->code);
}

static void file_stat(const struct inode *i, struct scratch_file *f, struct stat *st)
{
	struct timespec changed;
	size_t size = scratch_size(f, &changed);

	inode_fixed_stat(i, S_IFREG | MODE, size, st);
	if (scratch_is_in(f, templates_ops.kind)) { /* it may become one: of who mounted, too */
		st->st_uid = i->fs->mounter_uid;
		st->st_gid = i->fs->mounter_gid;
	}
	st->st_mtim = st->st_ctim = st->st_atim = changed;
}

/* The node, with a lookup count, and what the kernel hears of it. NULL: no memory. */
static struct inode *node_of(struct inode *dir, struct scratch_file *f, struct fuse_entry_param *e)
{
	struct inode *i = inode_fixed(dir->table, &scratch_ops, scratch_number(f));

	if (!i)
		return NULL;
	*e = inode_entry(i, 0);
	file_stat(i, f, &e->attr);
	return i;
}

static void reply_entry(fuse_req_t req, struct inode *dir, struct scratch_file *f)
{
	struct fuse_entry_param e;
	struct inode *i = node_of(dir, f, &e);

	if (!i)
		fuse_reply_err(req, ENOMEM);
	else if (fuse_reply_entry(req, &e) < 0)
		inode_forget(i, 1);
}

void scratch_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct scratch_place at = place_of(dir);
	struct scratch_file *f = scratch_find(dir->fs->scratch, &at, name);

	if (f)
		reply_entry(req, dir, f);
	else
		fuse_reply_err(req, ENOENT);
	scratch_put(f);
}

void scratch_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	struct scratch_place at = place_of(dir);

	fuse_reply_err(req, -scratch_remove(dir->fs->scratch, &at, name));
}

static bool is_control(struct inode *dir, const char *name)
{
	struct inode *i = dir->ops->control(dir, name);

	if (i)
		inode_forget(i, 1);
	return i;
}

/* NULL after it has answered. */
static struct scratch_file *make(fuse_req_t req, struct inode *dir, const struct scratch_place *at,
	const char *name, const char *op)
{
	struct scratch_file *f;
	struct err err = {0};

	if (scratch_make(dir->fs->scratch, at, name, &f, &err) == 0)
		return f;
	fail(req, dir, op, name, &err);
	return NULL;
}

void scratch_mknod(fuse_req_t req, struct inode *dir, const char *name, mode_t mode)
{
	struct scratch_place at = place_of(dir);
	struct scratch_file *f;

	if (!S_ISREG(mode) || is_control(dir, name)) {
		fuse_reply_err(req, S_ISREG(mode) ? EEXIST : EPERM);
		return;
	}
	f = make(req, dir, &at, name, "mknod");
	if (f)
		reply_entry(req, dir, f);
	scratch_put(f);
}

/* Answers with f, opened, whose reference it takes; as a new `name` of dir to be handed over, if
 * that is not NULL. */
static void reply_create(fuse_req_t req, struct inode *dir, struct scratch_file *f,
	const char *name, struct fuse_file_info *fi)
{
	struct opened *o = opened_new(f);
	struct fuse_entry_param e;
	struct inode *i = o ? node_of(dir, f, &e) : NULL;

	if (!i) {
		if (o)
			scratch_put(f);
		free(o);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (name) {
		o->dir = dir;
		inode_get(dir);
		snprintf(o->name, sizeof(o->name), "%s", name);
	}
	fi->fh = (uint64_t)(uintptr_t)o;
	if (fuse_reply_create(req, &e, fi) < 0) {
		inode_forget(i, 1);
		if (name)
			inode_put(dir);
		scratch_put(f);
		free(o);
	}
}

void scratch_create(
	fuse_req_t req, struct inode *dir, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	int pid = fuse_req_ctx(req)->pid;
	struct scratch_place at = place_of(dir);
	bool anew = is_control(dir, name);
	char hidden[PROTO_NAME_MAX + 32];
	struct scratch_file *f;

	(void)mode;
	if (anew && !vacant_take(dir->fs->vacant, &at, name, pid)) {
		fuse_reply_err(req, EEXIST);
		return;
	}
	snprintf(hidden, sizeof(hidden), "%s", name);
	if (anew) {
		at.kind |= OUT_OF_SIGHT;
		snprintf(hidden, sizeof(hidden), "%s %d", name, pid);
	}
	f = make(req, dir, &at, hidden, "create");
	if (!f)
		return;
	if (anew) /* only who has it open has it */
		scratch_remove(dir->fs->scratch, &at, hidden);
	reply_create(req, dir, f, anew ? name : NULL, fi);
}

static void list_one(void *arg, const char *name)
{
	dirlist_add(arg, name, 1, S_IFREG);
}

void scratch_list(struct inode *dir, struct dirlist *d)
{
	struct scratch_place at = place_of(dir);

	scratch_each(dir->fs->scratch, &at, list_one, d);
}

void scratch_drop_table(struct fs *fs, struct itable *t, uint64_t job)
{
	if (fs->scratch)
		scratch_drop(fs->scratch, t, job);
}

/* All of it is written to the control file, as it is now. */
static void hand_over(fuse_req_t req, struct scratch_file *f, struct inode *control)
{
	struct timespec changed;
	size_t size = scratch_size(f, &changed);
	cleanup_free char *text = malloc(size + 1);

	if (!text) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	size = scratch_read(f, 0, text, size);
	text[size] = 0;
	control->ops->put(req, control, text, size);
}

/* The name goes first: the answer may let others look for it. */
static void hand_over_name(
	fuse_req_t req, struct inode *dir, const char *name, struct inode *control)
{
	struct scratch_place at = place_of(dir);
	struct scratch_file *f = scratch_find(dir->fs->scratch, &at, name);

	if (f && scratch_remove(dir->fs->scratch, &at, name) == 0)
		hand_over(req, f, control);
	else
		fuse_reply_err(req, ENOENT);
	scratch_put(f);
}

void scratch_rename(fuse_req_t req, struct inode *dir, const char *name, struct inode *to,
	const char *new_name, unsigned flags)
{
	struct scratch_place at = place_of(dir), there = place_of(to);
	struct inode *control;

	if (!to->ops->control || to->table != dir->table) {
		fuse_reply_err(req, is_control(dir, name) ? EPERM : EXDEV);
		return;
	}
	if (is_control(dir, name)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (flags & ~NO_REPLACE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	control = to->ops->control(to, new_name);
	if (!control)
		fuse_reply_err(req, -scratch_move(dir->fs->scratch, &at, name, &there, new_name,
					    flags & NO_REPLACE));
	else if (flags & NO_REPLACE)
		fuse_reply_err(req, EEXIST);
	else if (!control->ops->put && control->sb)
		ctl_read_only(req, control);
	else if (!control->ops->put)
		fuse_reply_err(req, EACCES);
	else
		hand_over_name(req, dir, name, control);
	if (control)
		inode_forget(control, 1);
}

static void file_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct scratch_file *f = file_get(i);
	struct stat st;

	(void)fi;
	if (f) {
		file_stat(i, f, &st);
		fuse_reply_attr(req, &st, 0);
	} else {
		fuse_reply_err(req, ENOENT);
	}
	scratch_put(f);
}

/* Modes and owners are as they are: to change them succeeds, as tools that copy them expect. */
static int set(struct scratch_file *f, const struct stat *st, int to_set, struct err *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		scratch_touch(f, &now);
	else if (to_set & FUSE_SET_ATTR_MTIME)
		scratch_touch(f, &st->st_mtim);
	if (!(to_set & FUSE_SET_ATTR_SIZE))
		return 0;
	return scratch_resize(f, (uint64_t)st->st_size, err);
}

static void file_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	struct scratch_file *f = file_get(i);
	struct err err = {0};

	if (!f)
		fuse_reply_err(req, ENOENT);
	else if (set(f, st, to_set, &err) < 0)
		fail(req, i, "truncate", "a scratch file", &err);
	else
		file_getattr(req, i, fi);
	scratch_put(f);
}

static void file_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct scratch_file *f = file_get(i);
	struct opened *o = f ? opened_new(f) : NULL;

	if (!o) {
		fuse_reply_err(req, f ? ENOMEM : ENOENT);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)o;
	if (fuse_reply_open(req, fi) < 0) {
		scratch_put(f);
		free(o);
	}
}

static void file_read(
	fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi)
{
	cleanup_free char *part = malloc(size ? size : 1);

	(void)i;
	if (!part)
		fuse_reply_err(req, ENOMEM);
	else
		fuse_reply_buf(req, part,
			off < 0 ? 0 : scratch_read(opened_of(fi)->f, (uint64_t)off, part, size));
}

static void file_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	struct err err = {0};

	if (scratch_write(opened_of(fi)->f, (uint64_t)off, data, size, &err) < 0)
		fail(req, i, "write", "a scratch file", &err);
	else
		fuse_reply_write(req, size);
}

/* A control file that was made anew is written when it is closed; not if who wrote was killed. */
static void file_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct opened *o = opened_of(fi);
	struct inode *control;

	(void)i;
	if (!o->dir || caller_killed(fuse_req_ctx(req)->pid) || atomic_exchange(&o->handed, true)) {
		fuse_reply_err(req, 0);
		return;
	}
	control = o->dir->ops->control(o->dir, o->name);
	if (!control) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	hand_over(req, o->f, control);
	inode_forget(control, 1);
}

static void file_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct opened *o = opened_of(fi);

	(void)i;
	scratch_put(o->f);
	if (o->dir)
		inode_put(o->dir);
	free(o);
	fuse_reply_err(req, 0);
}

/* The name of a control file that can be written is free for who has removed it. */
void scratch_note_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	struct inode *control = dir->ops->control(dir, name);
	struct scratch_place at = place_of(dir);

	if (!control)
		return;
	/* To remove stdin is to close it. */
	if (control->ops->put && control->ops != &stdin_ops)
		vacant_note(dir->fs->vacant, &at, name, fuse_req_ctx(req)->pid);
	inode_forget(control, 1);
}

bool scratch_is_vacant(fuse_req_t req, struct inode *dir, const char *name)
{
	struct scratch_place at = place_of(dir);

	return vacant_is(dir->fs->vacant, &at, name, fuse_req_ctx(req)->pid);
}

const struct node_ops scratch_ops = {
	.kind = 'z',
	.getattr = file_getattr,
	.setattr = file_setattr,
	.open = file_open,
	.read = file_read,
	.write = file_write,
	.flush = file_flush,
	.release = file_release,
};
