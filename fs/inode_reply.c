/* SPDX-License-Identifier: MIT */
/* What the kernel hears of a node: attributes, how long they hold, answers. Any thread. */
#include "fs/inode.h"

#include "fs/changes.h"
#include "fs/shown.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define LONG_S	86400.0
#define BRIEF_S 0.01 /* for what is not watched: agent/brief.c counts on it */
#define FIXED_S 0.5  /* sandboxes come and go within a second for all */

#define BLOCK	  4096
#define BLOCK_MIN 512
#define BLOCK_MAX (4u << 20) /* programs take buffers of that size */

int inode_stat(const struct inode *i, const struct proto_attr *a, struct stat *st)
{
	uint32_t type = a->mode & S_IFMT;

	if (type != i->type || (a->mode & ~(S_IFMT | 07777u)) || a->size > INT64_MAX ||
		a->blocks > INT64_MAX)
		return -EIO;
	memset(st, 0, sizeof(*st));
	st->st_ino = i->ino;
	st->st_mode = a->mode;
	st->st_nlink = a->nlink;
	st->st_uid = a->uid;
	st->st_gid = a->gid;
	st->st_rdev = makedev(a->rdev_major, a->rdev_minor);
	st->st_size = (off_t)a->size;
	st->st_blocks = (blkcnt_t)a->blocks;
	st->st_blksize =
		a->blksize < BLOCK_MIN || a->blksize > BLOCK_MAX ? BLOCK : (blksize_t)a->blksize;
	st->st_atim = (struct timespec){a->atime.sec, a->atime.nsec};
	st->st_mtim = (struct timespec){a->mtime.sec, a->mtime.nsec};
	st->st_ctim = (struct timespec){a->ctime.sec, a->ctime.nsec};
	shown_attr(i->fs, i->sb, st);
	return 0;
}

void inode_fixed_stat(const struct inode *i, mode_t mode, size_t size, struct stat *st)
{
	struct sandbox_info info;

	memset(st, 0, sizeof(*st));
	st->st_ino = i->ino;
	st->st_mode = mode;
	st->st_nlink = S_ISDIR(mode) ? 2 : 1;
	st->st_size = (off_t)size;
	st->st_blocks = (blkcnt_t)((size + 511) / 512);
	st->st_blksize = BLOCK;
	st->st_uid = i->fs->mounter_uid;
	st->st_gid = i->fs->mounter_gid;
	st->st_mtim = i->fs->mounted;
	if (i->sb) {
		sandbox_numbers(i->sb, &info);
		if (info.owner != st->st_uid)
			st->st_gid = info.owner;
		st->st_uid = info.owner;
		st->st_mtim = (struct timespec){.tv_sec = info.created};
	}
	st->st_atim = st->st_ctim = st->st_mtim;
	if (i->tree == TREE_NONE && !i->ops->mounters)
		shown_ids(i->fs, st);
	else if (i->tree != TREE_NONE)
		shown_attr(i->fs, i->sb, st);
}

/* Only what changes are told of may be kept; everything else is asked for each time. */
static double timeout(const struct inode *i, double may)
{
	return may > 0 && itable_changes(i->table) && changes_are_heard(itable_changes(i->table))
		       ? may
		       : 0;
}

double inode_name_timeout(const struct inode *i, uint32_t cache)
{
	return timeout(i, cache & PROTO_CACHE_NAME ? LONG_S : 0);
}

double inode_attr_timeout(const struct inode *i, uint32_t cache)
{
	return timeout(i, cache & PROTO_CACHE_ATTR    ? LONG_S
			  : cache & PROTO_CACHE_BRIEF ? BRIEF_S
						      : 0);
}

struct fuse_entry_param inode_entry(const struct inode *i, uint32_t cache)
{
	return (struct fuse_entry_param){.ino = (fuse_ino_t)(uintptr_t)i,
		.generation = i->generation,
		.entry_timeout = inode_name_timeout(i, cache),
		.attr_timeout = inode_attr_timeout(i, cache)};
}

void inode_reply_entry(fuse_req_t req, struct inode *i, const struct stat *st, uint32_t cache)
{
	struct fuse_entry_param e = inode_entry(i, cache);

	e.attr = *st;
	if (fuse_reply_entry(req, &e) < 0)
		inode_forget(i, 1);
}

double inode_fixed_timeout(const struct inode *i, mode_t mode)
{
	return S_ISDIR(mode) && i->tree == TREE_NONE ? FIXED_S : 0;
}

void inode_reply_fixed(fuse_req_t req, struct inode *i, mode_t mode, size_t size)
{
	struct fuse_entry_param e;

	if (!i) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	e = inode_entry(i, 0);
	e.entry_timeout = S_ISDIR(mode) ? FIXED_S : 0;
	e.attr_timeout = inode_fixed_timeout(i, mode);
	inode_fixed_stat(i, mode, size, &e.attr);
	if (fuse_reply_entry(req, &e) < 0)
		inode_forget(i, 1);
}

/* The lookup is counted where it is answered: it may fail, or be interrupted. */
void inode_reply_file(fuse_req_t req, struct inode *i)
{
	if (!i) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	i->ops->measure(req, i, NULL, ANSWER_ENTRY);
	inode_forget(i, 1);
}

void inode_answer(fuse_req_t req, struct inode *i, mode_t mode, uint64_t size, enum answer how)
{
	struct stat st;

	inode_fixed_stat(i, S_IFREG | mode, size, &st);
	if (how == ANSWER_ATTR)
		fuse_reply_attr(req, &st, 0);
	else if (inode_remember(i))
		inode_reply_entry(req, i, &st, 0);
	else
		fuse_reply_err(req, ENOENT);
}
