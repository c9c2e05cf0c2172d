/* SPDX-License-Identifier: MIT */
/* The kernel's requests, each handed to its node's kind. What a kind does not do fails here. FUSE
 * workers run all of this; nothing in it blocks. */
#include "fs/fs.h"

#include "fs/forget.h"
#include "fs/scratch.h"
#include "fs/shown.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

void fs_fail(struct fs *fs, fuse_req_t req, struct sandbox *sb, const char *op, const char *path,
	const struct err *err)
{
	uint32_t uid = req ? fuse_req_ctx(req)->uid : fs->mounter_uid;

	if (sb)
		sandbox_error(sb, op, path, err);
	else
		report_add(registry_report(fs->registry), uid, op, path, err);
	if (req)
		fuse_reply_err(req, err->code);
}

static void ll_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;

	/* One stuck sandbox must not use up the requests that the kernel allows in all. */
	conn->max_background = UINT16_MAX;
	conn->congestion_threshold = UINT16_MAX;
	conn->max_write = PROTO_MAX_DATA;
	conn->max_readahead = PROTO_MAX_DATA;
	/* The sandbox changes files behind the kernel's back: sizes and times come from the agent.
	 */
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_EXPLICIT_INVAL_DATA);
	/* Always with attributes: they are what comes next, and a name's number is made of them. */
	conn->want &= ~(unsigned)FUSE_CAP_READDIRPLUS_AUTO;
	/* A cached link text would be used at another depth than the one it was made for. */
	conn->want &= ~(unsigned)FUSE_CAP_CACHE_SYMLINKS;
	/* The kernel takes a file that an open has truncated as empty before it has checked all: a
	 * program that runs from it would lose its pages. So it truncates by itself, after. */
	conn->want &= ~(unsigned)FUSE_CAP_ATOMIC_O_TRUNC;
	conn->want |= conn->capable & (FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_PARALLEL_DIROPS |
					      FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
	/* Whether the umask counts only the agent sees: a directory may have a default list. */
	conn->want |= conn->capable & FUSE_CAP_DONT_MASK;
	/* Where the kernel decides, and by the container's own ids and modes, lists count too. */
	if (shown_lists(fs))
		conn->want |= conn->capable & FUSE_CAP_POSIX_ACL;
}

#define NODE(req, ino) inode_of(req, ino)

/* Calls the node's own operation, or fails. */
#define TO(req, i, op, errnum, ...)                                \
	do {                                                       \
		struct inode *node_ = (i);                         \
		if (node_->ops->op)                                \
			node_->ops->op(req, node_, ##__VA_ARGS__); \
		else                                               \
			fuse_reply_err(req, errnum);               \
	} while (0)

/* The same for what names an entry: a name too long for any file system is that first. */
#define TO_NAME(req, i, name, op, errnum, ...)                       \
	do {                                                         \
		if (strlen(name) > PROTO_NAME_MAX)                   \
			fuse_reply_err(req, ENAMETOOLONG);           \
		else                                                 \
			TO(req, i, op, errnum, name, ##__VA_ARGS__); \
	} while (0)

static void ll_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct inode *dir = NODE(req, parent);

	if (dir->ops->control && scratch_is_vacant(req, dir, name)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	TO_NAME(req, NODE(req, parent), name, lookup, ENOTDIR);
}

static void ll_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	inode_forget(NODE(req, ino), n);
	fuse_reply_none(req);
}

static void ll_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct forget f;

	f.n = 0;
	for (size_t k = 0; k < count; k++)
		inode_forget_some(NODE(req, forgets[k].ino), forgets[k].nlookup, &f);
	forget_send(&f);
	fuse_reply_none(req);
}

static void ll_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct inode *i = NODE(req, ino);

	if (i->ops->measure)
		i->ops->measure(req, i, fi, ANSWER_ATTR);
	else
		TO(req, i, getattr, EIO, fi);
}

static void ll_setattr(
	fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set, struct fuse_file_info *fi)
{
	/* Set-id bits are cleared where the file is: nobody need be told to. */
	to_set &= ~FUSE_SET_ATTR_KILL_SUID;
	TO(req, NODE(req, ino), setattr, EPERM, st, to_set, fi);
}

static void ll_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	TO(req, NODE(req, ino), access, 0, mask);
}

static void ll_readlink(fuse_req_t req, fuse_ino_t ino)
{
	TO(req, NODE(req, ino), readlink, EINVAL);
}

static void ll_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	(void)rdev;
	TO_NAME(req, NODE(req, parent), name, mknod, EPERM, mode);
}

static void ll_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	TO_NAME(req, NODE(req, parent), name, mkdir, EPERM, mode);
}

static void ll_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct inode *dir = NODE(req, parent);

	if (dir->ops->control)
		scratch_note_unlink(req, dir, name);
	TO_NAME(req, NODE(req, parent), name, unlink, EPERM);
}

static void ll_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	TO_NAME(req, NODE(req, parent), name, rmdir, EPERM);
}

static void ll_symlink(fuse_req_t req, const char *text, fuse_ino_t parent, const char *name)
{
	TO_NAME(req, NODE(req, parent), name, symlink, EPERM, text);
}

static void ll_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
	const char *new_name, unsigned flags)
{
	if (strlen(new_name) > PROTO_NAME_MAX)
		fuse_reply_err(req, ENAMETOOLONG);
	else
		TO_NAME(req, NODE(req, parent), name, rename, EPERM, NODE(req, to), new_name,
			flags);
}

static void ll_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t to, const char *name)
{
	if (strlen(name) > PROTO_NAME_MAX)
		fuse_reply_err(req, ENAMETOOLONG);
	else
		TO(req, NODE(req, ino), link, EPERM, NODE(req, to), name);
}

static void ll_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), open, EACCES, fi);
}

static void ll_create(
	fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	TO_NAME(req, NODE(req, parent), name, create, EPERM, mode, fi);
}

static void ll_read(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), read, EINVAL, size, off, fi);
}

static void ll_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), write, EPERM, data, size, off, fi);
}

/* Without poll() of its own a file is as ready as any on a disk. */
static void ll_poll(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
	struct inode *i = NODE(req, ino);

	if (i->ops->poll) {
		i->ops->poll(req, i, fi, ph);
		return;
	}
	if (ph)
		fuse_pollhandle_destroy(ph);
	fuse_reply_poll(req, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}

static void ll_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), flush, 0, fi);
}

static void ll_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), release, 0, fi);
}

static void ll_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), fsync, 0, data_only, fi);
}

/* Locks are all ours once any are, so the kernel keeps none for nodes that do not. To say that
 * there are none is better than to grant one to everybody. */
static void ll_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
	TO(req, NODE(req, ino), getlk, ENOLCK, fi, lock);
}

static void ll_setlk(
	fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait)
{
	TO(req, NODE(req, ino), setlk, lock->l_type == F_UNLCK ? 0 : ENOLCK, fi, lock, wait);
}

static void ll_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
	TO(req, NODE(req, ino), flock, op & LOCK_UN ? 0 : ENOLCK, fi, op);
}

static void ll_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), opendir, ENOTDIR, fi);
}

static void ll_readdir(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), readdir, ENOTDIR, size, off, fi, false);
}

static void ll_readdirplus(
	fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), readdir, ENOTDIR, size, off, fi, true);
}

static void ll_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), releasedir, 0, fi);
}

static void ll_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct inode *i = NODE(req, ino);
	struct statvfs sv = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = PROTO_NAME_MAX};

	if (i->ops->statfs)
		i->ops->statfs(req, i);
	else
		fuse_reply_statfs(req, &sv);
}

/* The kernel asks before each write whether there are capabilities to drop: answered here, in the
 * negative. Setting them fails as on a file system that has none, which tools that copy attributes
 * expect (EPERM they would report). */
static bool is_capability(const char *name)
{
	return strcmp(name, XATTR_CAPABILITY) == 0;
}

static void ll_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	if (is_capability(name))
		fuse_reply_err(req, ENODATA);
	else
		TO(req, NODE(req, ino), getxattr, ENODATA, name, size);
}

static void ll_setxattr(
	fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	if (is_capability(name))
		fuse_reply_err(req, EOPNOTSUPP);
	else
		TO(req, NODE(req, ino), setxattr, EOPNOTSUPP, name, value, size, flags);
}

static void ll_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct inode *i = NODE(req, ino);

	if (i->ops->listxattr)
		i->ops->listxattr(req, i, size);
	else if (size)
		fuse_reply_buf(req, NULL, 0);
	else
		fuse_reply_xattr(req, 0);
}

static void ll_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	if (is_capability(name))
		fuse_reply_err(req, ENODATA);
	else
		TO(req, NODE(req, ino), removexattr, EOPNOTSUPP, name);
}

static void ll_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t length,
	struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), fallocate, EOPNOTSUPP, mode, off, length, fi);
}

/* EINVAL: such a file knows of no holes, and callers read it from end to end. */
static void ll_lseek(
	fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	TO(req, NODE(req, ino), lseek, EINVAL, off, whence, fi);
}

static void ll_copy_file_range(fuse_req_t req, fuse_ino_t ino, off_t off, struct fuse_file_info *fi,
	fuse_ino_t to, off_t off_to, struct fuse_file_info *fi_to, size_t length, int flags)
{
	(void)flags; /* there are none */
	TO(req, NODE(req, ino), copy, EXDEV, off, fi, NODE(req, to), off_to, fi_to, length);
}

const struct fuse_lowlevel_ops fs_lowlevel_ops = {
	.init = ll_init,
	.lookup = ll_lookup,
	.forget = ll_forget,
	.forget_multi = ll_forget_multi,
	.getattr = ll_getattr,
	.setattr = ll_setattr,
	.access = ll_access,
	.readlink = ll_readlink,
	.mknod = ll_mknod,
	.mkdir = ll_mkdir,
	.unlink = ll_unlink,
	.rmdir = ll_rmdir,
	.symlink = ll_symlink,
	.rename = ll_rename,
	.link = ll_link,
	.open = ll_open,
	.create = ll_create,
	.read = ll_read,
	.write = ll_write,
	.poll = ll_poll,
	.flush = ll_flush,
	.release = ll_release,
	.fsync = ll_fsync,
	.getlk = ll_getlk,
	.setlk = ll_setlk,
	.flock = ll_flock,
	.opendir = ll_opendir,
	.readdir = ll_readdir,
	.readdirplus = ll_readdirplus,
	.releasedir = ll_releasedir,
	.fsyncdir = ll_fsync,
	.statfs = ll_statfs,
	.getxattr = ll_getxattr,
	.setxattr = ll_setxattr,
	.listxattr = ll_listxattr,
	.removexattr = ll_removexattr,
	.fallocate = ll_fallocate,
	.lseek = ll_lseek,
	.copy_file_range = ll_copy_file_range,
};
