/* SPDX-License-Identifier: MIT */
/*
 * Names and attributes in a sandbox's tree. Each operation is a message to the agent and its
 * answer: the worker sends and goes back to its loop; the I/O thread that gets the answer replies
 * to the kernel.
 */
#include "fs/tree.h"

#include "fs/box.h"
#include "fs/changes.h"
#include "fs/forget.h"
#include "fs/shown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* none: mode 0 will do, for a name that is not there. */
static bool read_attr(struct wire_in *body, struct proto_attr *a, bool none)
{
	proto_get_attr(body, a);
	if (!a->mode && none)
		return wire_end(body);
	switch (a->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
	case S_IFCHR:
	case S_IFBLK:
		return wire_end(body);
	default:
		return false;
	}
}

bool tree_get_attr(struct wire_in *body, struct proto_attr *a)
{
	return read_attr(body, a, false);
}

/* The root of a rootfs tree is guarded like the sandbox's directory: only its owner may enter. */
static void guard(const struct inode *i, struct stat *st)
{
	struct sandbox_info info;

	if (i->tree != TREE_ROOTFS || i->epoch || !i->fs->options->allow_other)
		return;
	sandbox_numbers(i->sb, &info);
	st->st_mode = S_IFDIR | 0700;
	st->st_uid = info.owner;
	shown_ids(i->fs, st);
}

static enum op_outcome reply_attr(struct op *op, fuse_req_t req, struct wire_in *body)
{
	bool set = op->call.type == PROTO_SETATTR;
	struct proto_attr a;
	struct stat st;

	if (!tree_get_attr(body, &a) || inode_stat(op->ino, &a, &st) < 0)
		return OP_BAD;
	guard(op->ino, &st);
	/* After SETATTR the kernel takes them even if it has been told meanwhile that they are old:
	 * so it must not keep them. */
	if (req)
		fuse_reply_attr(req, &st, set ? 0 : inode_attr_timeout(op->ino, a.cache));
	else if (set)
		changes_tell_attr(op->ino);
	return OP_DONE;
}

struct op *tree_new_node(fuse_req_t req, struct inode *dir, const char *name, uint16_t type)
{
	struct op *op = op_new(req, dir, type, NULL);

	if (!op)
		return NULL;
	op->name = strdup(name);
	op->node = atomic_fetch_add(&op->fs->next_id, 1);
	wire_u64(&op->call.frame, dir->node);
	wire_str(&op->call.frame, name);
	wire_u64(&op->call.frame, op->node);
	return op;
}

uint32_t tree_mode(fuse_req_t req, mode_t mode)
{
	mode_t mask = fuse_req_ctx(req)->umask & 0777;

	return (mode & ~mask) | (mode & mask) << PROTO_MODE_MASKED;
}

struct inode *tree_found(struct op *op, const struct proto_attr *a, struct stat *st)
{
	uint32_t epoch = sandbox_epoch(op->sb);
	struct inode *i = NULL;
	struct forget f;

	f.n = 0;
	if (op->name)
		i = inode_found(op->ino, op->name, op->node, epoch, a, &f);
	forget_send(&f);
	if (i && inode_stat(i, a, st) < 0) {
		inode_forget(i, 1);
		i = NULL;
	}
	return i;
}

/* There is no such name: the kernel may remember that too. */
static void reply_none(struct op *op, fuse_req_t req, uint32_t cache)
{
	struct fuse_entry_param e = {.entry_timeout = inode_name_timeout(op->ino, cache)};

	if (e.entry_timeout > 0)
		fuse_reply_entry(req, &e);
	else
		fuse_reply_err(req, ENOENT);
}

/* The kernel may know that there is no such name, and the agent takes what was made for known. */
void tree_made_unseen(struct op *op)
{
	if (op->call.type != PROTO_LOOKUP)
		changes_tell_name(op->ino, op->name);
}

enum op_outcome tree_reply_entry(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_attr a;
	struct inode *i;
	struct stat st;

	if (!read_attr(body, &a, op->call.type == PROTO_LOOKUP))
		return OP_BAD;
	if (!a.mode) {
		if (req)
			reply_none(op, req, a.cache);
		return OP_DONE;
	}
	if (!req) {
		forget_now(op->sb, sandbox_epoch(op->sb), op->node, 1);
		tree_made_unseen(op);
		return OP_DONE;
	}
	i = tree_found(op, &a, &st);
	if (i)
		inode_reply_entry(req, i, &st, a.cache);
	else
		fuse_reply_err(req, EIO);
	return OP_DONE;
}

static void tree_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct op *op;

	if (tree_special(req, dir, name))
		return;
	op = tree_new_node(req, dir, name, PROTO_LOOKUP);
	if (op) {
		op->reply = tree_reply_entry;
		op->call.repeat = true;
		op_send(op);
	}
}

static void tree_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct handle *h = fi ? handle_of(fi) : NULL;
	struct op *op;
	struct stat st;

	if (!i->epoch && box_is_husk(i->sb)) {
		inode_fixed_stat(i, S_IFDIR | 0755, 0, &st);
		fuse_reply_attr(req, &st, 0);
		return;
	}
	op = op_new(req, i, PROTO_GETATTR, reply_attr);
	if (!op)
		return;
	wire_u64(&op->call.frame, i->node);
	wire_u64(&op->call.frame, h && !S_ISDIR(i->type) ? h->fh : 0);
	op->call.repeat = true;
	op_send(op);
}

static uint32_t setattr_mask(int to_set)
{
	static const struct {
		int fuse;
		uint32_t proto;
	} bits[] = {
		{FUSE_SET_ATTR_MODE, PROTO_SET_ATTR_MODE},
		{FUSE_SET_ATTR_UID, PROTO_SET_ATTR_UID},
		{FUSE_SET_ATTR_GID, PROTO_SET_ATTR_GID},
		{FUSE_SET_ATTR_SIZE, PROTO_SET_ATTR_SIZE},
		{FUSE_SET_ATTR_ATIME, PROTO_SET_ATTR_ATIME},
		{FUSE_SET_ATTR_MTIME, PROTO_SET_ATTR_MTIME},
		{FUSE_SET_ATTR_ATIME_NOW, PROTO_SET_ATTR_ATIME_NOW},
		{FUSE_SET_ATTR_MTIME_NOW, PROTO_SET_ATTR_MTIME_NOW},
	};
	uint32_t mask = 0;

	for (size_t k = 0; k < sizeof(bits) / sizeof(bits[0]); k++)
		if (to_set & bits[k].fuse)
			mask |= bits[k].proto;
	return mask;
}

static void tree_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi)
{
	struct stat meant = *st;
	int r = shown_chown(i->fs, i->sb, &meant, &to_set);
	struct proto_setattr s = {
		.mask = setattr_mask(to_set),
		.mode = st->st_mode & 07777,
		.uid = meant.st_uid,
		.gid = meant.st_gid,
		.size = (uint64_t)st->st_size,
		.atime = {st->st_atim.tv_sec, (uint32_t)st->st_atim.tv_nsec},
		.mtime = {st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec},
	};
	struct op *op;

	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	op = op_new(req, i, PROTO_SETATTR, reply_attr);
	if (!op)
		return;
	if (s.atime.nsec > 999999999 || !(s.mask & PROTO_SET_ATTR_ATIME))
		s.atime = (struct proto_time){0};
	if (s.mtime.nsec > 999999999 || !(s.mask & PROTO_SET_ATTR_MTIME))
		s.mtime = (struct proto_time){0};
	wire_u64(&op->call.frame, i->node);
	wire_u64(&op->call.frame, fi && !S_ISDIR(i->type) ? handle_of(fi)->fh : 0);
	proto_put_setattr(&op->call.frame, &s);
	op->call.repeat = true;
	op_send(op);
}

static void tree_access(fuse_req_t req, struct inode *i, int mask)
{
	struct op *op;

	if (!i->epoch && box_is_husk(i->sb)) {
		fuse_reply_err(req, 0);
		return;
	}
	op = op_new(req, i, PROTO_ACCESS, op_reply_nothing);
	if (!op)
		return;
	wire_u64(&op->call.frame, i->node);
	wire_u32(&op->call.frame, (uint32_t)mask & 7);
	op->call.repeat = true;
	op_send(op);
}

static void tree_mknod(fuse_req_t req, struct inode *dir, const char *name, mode_t mode)
{
	struct op *op;

	if (S_ISCHR(mode) || S_ISBLK(mode)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op = tree_new_node(req, dir, name, PROTO_MKNOD);
	if (op) {
		op->reply = tree_reply_entry;
		wire_u32(&op->call.frame, tree_mode(req, mode));
		op_send(op);
	}
}

static void tree_mkdir(fuse_req_t req, struct inode *dir, const char *name, mode_t mode)
{
	struct op *op = tree_new_node(req, dir, name, PROTO_MKDIR);

	if (op) {
		op->reply = tree_reply_entry;
		wire_u32(&op->call.frame, tree_mode(req, mode & 07777));
		op_send(op);
	}
}

static enum op_outcome reply_removed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (op->name)
		inode_removed(op->ino, op->name);
	if (!req)
		changes_tell_name(op->ino, op->name);
	return op_reply_nothing(op, req, body);
}

static void remove_name(fuse_req_t req, struct inode *dir, const char *name, uint16_t type)
{
	struct op *op;

	if (tree_is_special(dir, name, strlen(name))) {
		fuse_reply_err(req, EBUSY);
		return;
	}
	op = op_new(req, dir, type, reply_removed);
	if (!op)
		return;
	op->name = strdup(name);
	wire_u64(&op->call.frame, dir->node);
	wire_str(&op->call.frame, name);
	op_send(op);
}

static void tree_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	remove_name(req, dir, name, PROTO_UNLINK);
}

static void tree_rmdir(fuse_req_t req, struct inode *dir, const char *name)
{
	remove_name(req, dir, name, PROTO_RMDIR);
}

/* The kernel moves what it has under that name when it hears of success, and only then. */
static enum op_outcome reply_renamed(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct inode *unsettled[2];

	if (!wire_end(body))
		return OP_BAD;
	if (!req) { /* the caller was told EINTR: for the kernel nothing has moved */
		inode_removed(op->ino, op->name);
		inode_removed(op->ino2, op->name2);
		changes_tell_name(op->ino, op->name);
		changes_tell_name(op->ino2, op->name2);
		return OP_DONE;
	}
	inode_moved(op->ino, op->name, op->ino2, op->name2, op->flags & PROTO_RENAME_EXCHANGE,
		unsettled);
	fuse_reply_err(req, 0);
	for (int k = 0; k < 2; k++)
		if (unsettled[k])
			changes_settle(op->ino, unsettled[k]);
	return OP_DONE;
}

static void tree_rename(fuse_req_t req, struct inode *dir, const char *name, struct inode *to,
	const char *new_name, unsigned flags)
{
	struct op *op;

	if (to->ops != &tree_ops || to->sb != dir->sb) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	if (tree_is_special(dir, name, strlen(name)) ||
		tree_is_special(to, new_name, strlen(new_name))) {
		fuse_reply_err(req, EBUSY);
		return;
	}
	op = op_new(req, dir, PROTO_RENAME, reply_renamed);
	if (!op)
		return;
	op->ino2 = to;
	inode_get(to);
	op->name = strdup(name);
	op->name2 = strdup(new_name);
	op->flags = flags; /* Linux's numbers are the protocol's */
	if (!op->name || !op->name2)
		op->call.frame.error = -ENOMEM; /* sending it says so */
	wire_u64(&op->call.frame, dir->node);
	wire_str(&op->call.frame, name);
	wire_u64(&op->call.frame, to->node);
	wire_str(&op->call.frame, new_name);
	wire_u32(&op->call.frame, flags);
	op_send(op);
}

/* The name is there; which node it is comes by a lookup, because a symlink's node belongs to one
 * place: the same node under a second name would be the same node at a second depth. */
static enum op_outcome reply_linked(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_attr a;
	struct inode *from = op->ino;

	if (!tree_get_attr(body, &a))
		return OP_BAD;
	/* A link is another node, so the kernel does not know that it changed. */
	if (!req || S_ISLNK(from->type))
		changes_tell_attr(from);
	if (!req) {
		changes_tell_name(op->ino2, op->name);
		return OP_DONE;
	}
	op->ino = op->ino2;
	op->ino2 = from;
	op->epoch = op->ino->epoch;
	op->reply = tree_reply_entry;
	op_next(op, PROTO_LOOKUP);
	wire_u64(&op->call.frame, op->ino->node);
	wire_str(&op->call.frame, op->name);
	wire_u64(&op->call.frame, op->node);
	return OP_AGAIN;
}

static void tree_link(fuse_req_t req, struct inode *i, struct inode *to, const char *name)
{
	struct op *op;

	if (to->ops != &tree_ops || to->sb != i->sb) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	op = op_new(req, i, PROTO_LINK, reply_linked);
	if (!op)
		return;
	op->ino2 = to;
	inode_get(to);
	op->name = strdup(name);
	op->node = atomic_fetch_add(&op->fs->next_id, 1);
	if (!op->name)
		op->call.frame.error = -ENOMEM; /* sending it says so */
	wire_u64(&op->call.frame, i->node);
	wire_u64(&op->call.frame, to->node);
	wire_str(&op->call.frame, name);
	op_send(op);
}

static enum op_outcome reply_statfs(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct proto_statfs s;
	struct statvfs sv;

	(void)op;
	proto_get_statfs(body, &s);
	if (!wire_end(body))
		return OP_BAD;
	sv = (struct statvfs){
		.f_bsize = s.bsize,
		.f_frsize = s.frsize,
		.f_blocks = s.blocks,
		.f_bfree = s.bfree,
		.f_bavail = s.bavail,
		.f_files = s.files,
		.f_ffree = s.ffree,
		.f_namemax = s.namelen,
	};
	if (req)
		fuse_reply_statfs(req, &sv);
	return OP_DONE;
}

static void tree_statfs(fuse_req_t req, struct inode *i)
{
	struct op *op = op_new(req, i, PROTO_STATFS, reply_statfs);

	if (!op)
		return;
	wire_u64(&op->call.frame, i->node);
	op->call.repeat = true;
	op_send(op);
}

const struct node_ops tree_ops = {
	.kind = 'T',
	.lookup = tree_lookup,
	.getattr = tree_getattr,
	.setattr = tree_setattr,
	.access = tree_access,
	.readlink = tree_readlink,
	.mknod = tree_mknod,
	.mkdir = tree_mkdir,
	.unlink = tree_unlink,
	.rmdir = tree_rmdir,
	.symlink = tree_symlink,
	.rename = tree_rename,
	.link = tree_link,
	.open = tree_open,
	.create = tree_create,
	.read = tree_read,
	.write = tree_write,
	.flush = tree_flush,
	.release = tree_release,
	.fsync = tree_fsync,
	.getlk = tree_getlk,
	.setlk = tree_setlk,
	.flock = tree_flock,
	.opendir = tree_opendir,
	.readdir = tree_readdir,
	.releasedir = tree_release,
	.statfs = tree_statfs,
	.getxattr = tree_getxattr,
	.setxattr = tree_setxattr,
	.listxattr = tree_listxattr,
	.removexattr = tree_removexattr,
	.fallocate = tree_fallocate,
	.lseek = tree_lseek,
	.copy = tree_copy,
};
