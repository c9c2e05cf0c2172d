/* SPDX-License-Identifier: MIT */
/* .sandboxfs: what the mount says of itself, and rootfs/, where each sandbox's whole file system
 * is. */
#include "fs/scratch.h"
#include "fs/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void dir_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0755, 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

/* Files that are no plain texts. */
static const struct {
	const char *name;
	const struct node_ops *ops;
} files[] = {{"events", &events_ops}, {"do", &do_ops}};

#define FILES (sizeof(files) / sizeof(files[0]))

static struct inode *dot_control(struct inode *dir, const char *name)
{
	for (unsigned k = TEXT_README + 1; k < TEXTS; k++)
		if (strcmp(name, text_name(k)) == 0)
			return inode_fixed(dir->fs->table, &text_ops, k);
	for (unsigned k = 0; k < FILES; k++)
		if (strcmp(name, files[k].name) == 0)
			return inode_fixed(dir->fs->table, files[k].ops, 0);
	return NULL;
}

static void dot_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct inode *control = dot_control(dir, name);

	if (control)
		inode_reply_file(req, control);
	else if (strcmp(name, "templates") == 0)
		inode_reply_fixed(
			req, inode_fixed(dir->fs->table, &templates_ops, 0), S_IFDIR | 0755, 0);
	else if (strcmp(name, "rootfs") == 0)
		inode_reply_fixed(
			req, inode_fixed(dir->fs->table, &dot_rootfs_ops, 0), S_IFDIR | 0755, 0);
	else
		scratch_lookup(req, dir, name);
}

/* Names that are always there cannot go. */
static void dot_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	struct inode *control = dot_control(dir, name);

	if (control) {
		inode_forget(control, 1);
		fuse_reply_err(req, EPERM);
	} else {
		scratch_unlink(req, dir, name);
	}
}

static void dot_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	for (unsigned k = TEXT_README + 1; d && k < TEXTS; k++)
		dirlist_add(d, text_name(k), 1, S_IFREG);
	for (unsigned k = 0; d && k < FILES; k++)
		dirlist_add(d, files[k].name, 1, S_IFREG);
	if (d) {
		dirlist_add(d, "rootfs", 1, S_IFDIR);
		dirlist_add(d, "templates", 1, S_IFDIR);
		scratch_list(i, d);
	}
	dirlist_reply_open(req, d, fi);
}

const struct node_ops dot_ops = {
	.kind = 'D',
	.lookup = dot_lookup,
	.control = dot_control,
	.mknod = scratch_mknod,
	.create = scratch_create,
	.unlink = dot_unlink,
	.rename = scratch_rename,
	.getattr = dir_getattr,
	.opendir = dot_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};

static void rootfs_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct sandbox *sb = registry_find(dir->fs->registry, name);
	struct itable *t = sb ? itable_of(dir->fs, sb) : NULL;

	if (!sb)
		fuse_reply_err(req, ENOENT);
	else
		inode_reply_fixed(req, t ? inode_tree(t, TREE_ROOTFS) : NULL, S_IFDIR | 0755, 0);
	if (sb)
		sandbox_put(sb);
}

static void list_one(void *arg, const char *name, struct sandbox *sb)
{
	(void)sb;
	dirlist_add(arg, name, 1, S_IFDIR);
}

static void rootfs_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	if (d)
		registry_each(i->fs->registry, list_one, d);
	dirlist_reply_open(req, d, fi);
}

const struct node_ops dot_rootfs_ops = {
	.kind = 'F',
	.lookup = rootfs_lookup,
	.getattr = dir_getattr,
	.opendir = rootfs_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
