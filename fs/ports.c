/* SPDX-License-Identifier: MIT */
/*
 * ctl/ports/: a file for each TCP port inside, by its number; listed are those that have an address
 * here. The first open of one opens the listener; what the engine publishes itself is shown as
 * that, so where it is not known yet the engine is asked first, in a thread that may wait.
 */
#include "fs/dirlist.h"
#include "fs/op.h"
#include "fs/later.h"
#include "fs/text.h"
#include "sandbox/facts.h"
#include "sandbox/forward.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A number in plain form, or 0. */
static unsigned port_of(const char *name)
{
	size_t len = strspn(name, "0123456789");
	unsigned long port = len && len <= 5 && *name != '0' ? strtoul(name, NULL, 10) : 0;

	return name[len] || port > 65535 ? 0 : (unsigned)port;
}

static void reply_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	char address[ENGINE_ADDRESS_MAX], path[32];
	struct err err = {0};
	struct buf b;

	if (forward_open(i->sb, (uint16_t)i->which, address, &err) < 0) {
		snprintf(path, sizeof(path), "ctl/ports/%u", i->which);
		fs_fail(i->fs, req, i->sb, "open", path, &err);
		return;
	}
	buf_init(&b, ENGINE_ADDRESS_MAX + 1);
	buf_printf(&b, "%s\n", address);
	text_reply_open(req, &b, fi);
}

static void reply(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	char address[ENGINE_ADDRESS_MAX];
	bool there;

	if (fi) {
		reply_open(req, i, fi);
		return;
	}
	there = forward_find(i->sb, (uint16_t)i->which, address);
	inode_answer(req, i, 0400, (there ? strlen(address) : FORWARD_ADDRESS_LEN) + 1, how);
}

/* An engine that cannot be asked is no reason not to forward. */
static void asked(void *arg, int r, const struct err *err)
{
	struct later *l = arg;
	fuse_req_t req = later_take(l);

	(void)r;
	(void)err;
	if (req)
		reply(req, l->i, l->fi, l->how);
	later_free(l);
}

static void ask(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	char address[ENGINE_ADDRESS_MAX];
	struct later *l;

	if (facts_ports_known(i->sb) || forward_find(i->sb, (uint16_t)i->which, address)) {
		reply(req, i, fi, how);
		return;
	}
	l = later_new(req, i, fi, how);
	if (l)
		facts_ask(i->sb, asked, l);
}

static void port_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ask(req, i, NULL, how);
}

static void port_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	char path[32];
	struct err err;

	if ((fi->flags & O_ACCMODE) == O_RDONLY) {
		ask(req, i, fi, ANSWER_ATTR);
		return;
	}
	snprintf(path, sizeof(path), "ctl/ports/%u", i->which);
	err_set(&err, EACCES, "a port cannot be written");
	fs_fail(i->fs, req, i->sb, "ports", path, &err);
}

const struct node_ops port_ops = {
	.kind = 'p',
	.measure = port_measure,
	.open = port_open,
	.read = text_read,
	.release = text_release,
};

static void ports_lookup(fuse_req_t req, struct inode *dir, const char *name)
{
	unsigned port = port_of(name);

	if (port)
		inode_reply_file(req, inode_fixed(dir->table, &port_ops, port));
	else
		fuse_reply_err(req, ENOENT);
}

static void ports_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | 0700, 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static void ports_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct dirlist *d = dirlist_new();
	uint16_t *ports = NULL;
	size_t n = 0;
	char name[8];

	if (forward_list(i->sb, &ports, &n) == 0)
		qsort(ports, n, sizeof(*ports), by_number);
	for (size_t k = 0; d && k < n; k++) {
		snprintf(name, sizeof(name), "%u", ports[k]);
		if (!k || ports[k] != ports[k - 1])
			dirlist_add(d, name, 1, S_IFREG);
	}
	free(ports);
	dirlist_reply_open(req, d, fi);
}

/* They go with the sandbox; rm -rf is not to fail on them. */
static void ports_unlink(fuse_req_t req, struct inode *dir, const char *name)
{
	(void)dir;
	fuse_reply_err(req, port_of(name) ? 0 : ENOENT);
}

const struct node_ops ports_ops = {
	.kind = 'P',
	.lookup = ports_lookup,
	.getattr = ports_getattr,
	.unlink = ports_unlink,
	.opendir = ports_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
