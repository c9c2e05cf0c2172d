/* SPDX-License-Identifier: MIT */
/* A sandbox's directory: ctl/, workspace/ and the link rootfs; and the small fixed nodes around it.
 */
#include "fs/box.h"

#include "fs/dirlist.h"
#include "fs/op.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool box_is_husk(struct sandbox *sb)
{
	struct sandbox_info info;

	sandbox_numbers(sb, &info);
	return info.removed;
}

static void sandbox_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct itable *t = dir->table;
	bool husk = box_is_husk(dir->sb);

	if (strcmp(name, "ctl") == 0 && !husk)
		inode_reply_fixed(req, inode_fixed(t, &ctl_ops, 0), S_IFDIR | 0700, 0);
	else if (strcmp(name, "workspace") == 0 && husk)
		inode_reply_fixed(req, inode_fixed(t, &empty_ops, EMPTY_HUSK), S_IFDIR | 0700, 0);
	else if (strcmp(name, "workspace") == 0)
		inode_reply_fixed(req, inode_tree(t, TREE_WORKSPACE), S_IFDIR | 0755, 0);
	else if (strcmp(name, "rootfs") == 0)
		inode_reply_fixed(
			req, inode_fixed(t, &fixed_link_ops, LINK_ROOTFS), S_IFLNK | 0777, 0);
	else
		fuse_reply_err(req, ENOENT);
}

static void dir_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0700, 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static void sandbox_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	/* ctl first: whoever deletes in this order removes the sandbox before its files. */
	if (d && !box_is_husk(i->sb)) {
		dirlist_add(d, "ctl", 1, S_IFDIR);
		dirlist_add(d, "rootfs", 1, S_IFLNK);
		dirlist_add(d, "workspace", 1, S_IFDIR);
	}
	dirlist_reply_open(req, d, fi);
}

/* Fixed names cannot go; rm -rf is not to fail on them. */
static void sandbox_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	(void)dir;
	fuse_reply_err(req, strcmp(name, "rootfs") == 0 ? 0 : ENOENT);
}

struct removal {
	struct op *op;
	struct inode *dir;
};

static void removed(void *arg, int r, const struct err *err)
{
	struct removal *rm = arg;
	fuse_req_t req = op_take(rm->op);

	if (r < 0)
		fs_fail(rm->dir->fs, req, rm->dir->sb, "rmdir", "ctl", err);
	else if (req)
		fuse_reply_err(req, 0);
	inode_put(rm->dir);
	free(rm);
}

static void remove_all(fuse_req_t req, struct inode *dir)
{
	struct removal *rm = malloc(sizeof(*rm));

	if (!rm) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	rm->dir = dir;
	rm->op = op_wait(req);
	if (!rm->op) {
		free(rm);
		return;
	}
	inode_get(dir);
	registry_remove(dir->fs->registry, dir->sb, true, removed, rm);
}

static void sandbox_rmdir(fuse_req_t req, struct inode *dir, const char *name)
{
	if (box_is_husk(dir->sb))
		fuse_reply_err(req, strcmp(name, "workspace") == 0 ? 0 : ENOENT);
	else if (strcmp(name, "ctl") != 0)
		fuse_reply_err(req, strcmp(name, "workspace") == 0 ? EBUSY : ENOENT);
	else
		remove_all(req, dir);
}

const struct node_ops sandbox_ops = {
	.kind = 'S',
	.lookup = sandbox_lookup,
	.getattr = dir_getattr,
	.unlink = sandbox_unlink,
	.rmdir = sandbox_rmdir,
	.opendir = sandbox_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};

static void empty_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	(void)dir;
	(void)name;
	fuse_reply_err(req, ENOENT);
}

static void empty_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	dirlist_reply_open(req, dirlist_new(), fi);
}

const struct node_ops empty_ops = {
	.kind = 'e',
	.lookup = empty_lookup,
	.getattr = dir_getattr,
	.opendir = empty_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};

/* rootfs leads to the sandbox's whole tree; in that tree the workspace leads back. */
static int link_text(struct inode *i, char *text, size_t size)
{
	struct sandbox_info info;
	size_t at = 0;

	if (sandbox_info(i->sb, &info) < 0)
		return -ENOMEM;
	if (i->which == LINK_ROOTFS) {
		at = (size_t)snprintf(text, size, "../.sandboxfs/rootfs/%s", info.name);
	} else {
		/* It stands in the directory above the workspace: so many names deep, and three. */
		for (const char *p = info.workspace; *p && at + 3 < size; p++)
			if (p[0] == '/' && p[1] && p[1] != '/')
				at += (size_t)snprintf(text + at, size - at, "../");
		at += (size_t)snprintf(text + at, size - at, "../../%s/workspace", info.name);
	}
	sandbox_info_fini(&info);
	return at < size ? 0 : -ENAMETOOLONG;
}

static void link_readlink(fuse_req_t req, struct inode *i)
{
	char text[PATH_MAX];
	int r = link_text(i, text, sizeof(text));

	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_readlink(req, text);
}

static void link_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	char text[PATH_MAX] = "";
	struct stat st;

	(void)fi;
	link_text(i, text, sizeof(text));
	inode_fixed_stat(i, S_IFLNK | 0777, strlen(text), &st);
	fuse_reply_attr(req, &st, 0);
}

const struct node_ops fixed_link_ops = {
	.kind = 'l',
	.getattr = link_getattr,
	.readlink = link_readlink,
};
