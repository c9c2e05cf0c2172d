/* SPDX-License-Identifier: MIT */
/* The mount's root: README, .sandboxfs, and a directory for each sandbox. */
#include "fs/dirlist.h"
#include "fs/op.h"
#include "fs/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void reply_sandbox(fuse_req_t req, struct sandbox *sb)
{
	struct itable *t = itable_of(fs_of(req), sb);

	inode_reply_fixed(req, t ? inode_fixed(t, &sandbox_ops, 0) : NULL, S_IFDIR | 0700, 0);
}

static void root_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	struct sandbox *sb;

	if (strcmp(name, text_name(TEXT_README)) == 0) {
		text_lookup(req, TEXT_README);
	} else if (strcmp(name, ".sandboxfs") == 0) {
		inode_reply_fixed(req, inode_fixed(dir->fs->table, &dot_ops, 0), S_IFDIR | 0755, 0);
	} else if ((sb = registry_find(dir->fs->registry, name))) {
		reply_sandbox(req, sb);
		sandbox_put(sb);
	} else {
		fuse_reply_err(req, ENOENT);
	}
}

static void root_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0755, 0, &st);
	if (i->fs->options->allow_other)
		st.st_mode |= 01777; /* anybody may make a sandbox; only its owner may enter it */
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static void list_one(void *arg, const char *name, struct sandbox *sb)
{
	(void)sb;
	dirlist_add(arg, name, 1, S_IFDIR);
}

static void root_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();

	if (d) {
		dirlist_add(d, text_name(TEXT_README), 1, S_IFREG);
		dirlist_add(d, ".sandboxfs", 1, S_IFDIR);
		registry_each(i->fs->registry, list_one, d);
	}
	dirlist_reply_open(req, d, fi);
}

/* A request that the lifecycle answers. */
struct asked {
	struct fs *fs;
	struct op *op;
	const char *verb;
	char *name;
};

static struct asked *ask(fuse_req_t req, const char *verb, const char *name)
{
	struct asked *a = malloc(sizeof(*a));

	if (a)
		*a = (struct asked){.fs = fs_of(req), .verb = verb, .name = strdup(name)};
	if (!a || !a->name) {
		free(a);
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	a->op = op_wait(req);
	if (a->op)
		return a;
	free(a->name);
	free(a);
	return NULL;
}

static void asked_free(struct asked *a)
{
	free(a->name);
	free(a);
}

static void answered(void *arg, int r, const struct err *err)
{
	struct asked *a = arg;
	fuse_req_t req = op_take(a->op);

	if (r < 0)
		fs_fail(a->fs, req, NULL, a->verb, a->name, err);
	else if (req)
		fuse_reply_err(req, 0);
	asked_free(a);
}

static void made(void *arg, int r, const struct err *err)
{
	struct asked *a = arg;
	struct sandbox *sb;
	fuse_req_t req;

	if (r < 0) {
		answered(a, r, err);
		return;
	}
	req = op_take(a->op);
	sb = registry_find(a->fs->registry, a->name);
	if (req && sb)
		reply_sandbox(req, sb);
	else if (req)
		fuse_reply_err(req, ENOENT); /* and gone again */
	if (sb)
		sandbox_put(sb);
	asked_free(a);
}

static void root_mkdir(fuse_req_t req, struct inode *dir, const char *name, mode_t mode)
{
	struct asked *a = ask(req, "mkdir", name);

	(void)mode;
	if (a)
		registry_create(dir->fs->registry, name, fuse_req_ctx(req)->uid, made, a);
}

static void root_rmdir(fuse_req_t req, struct inode *dir, const char *name)
{
	struct sandbox *sb = registry_find(dir->fs->registry, name);
	struct sandbox_info info;
	struct asked *a;

	if (!sb) {
		fuse_reply_err(req, strcmp(name, ".sandboxfs") == 0 ? EBUSY : ENOENT);
		return;
	}
	sandbox_numbers(sb, &info);
	if (info.removed) {
		registry_forget(dir->fs->registry, sb);
		fuse_reply_err(req, 0);
	} else if ((a = ask(req, "rmdir", name))) {
		registry_remove(dir->fs->registry, sb, false, answered, a);
	}
	sandbox_put(sb);
}

static void root_rename(fuse_req_t req, struct inode *dir, const char *name, struct inode *to,
	const char *new_name, unsigned flags)
{
	struct sandbox *sb = registry_find(dir->fs->registry, name);
	struct asked *a;

	/* EPERM, never EXDEV, which would make mv copy and delete. */
	if (!sb)
		fuse_reply_err(req, EPERM);
	else if (to != dir || (flags & ~1u))
		fuse_reply_err(req, EPERM);
	else if ((a = ask(req, "rename", name)))
		registry_rename(dir->fs->registry, sb, new_name, answered, a);
	if (sb)
		sandbox_put(sb);
}

const struct node_ops root_ops = {
	.kind = 'R',
	.lookup = root_lookup,
	.getattr = root_getattr,
	.mkdir = root_mkdir,
	.rmdir = root_rmdir,
	.rename = root_rename,
	.opendir = root_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
