/* SPDX-License-Identifier: MIT */
/*
 * Directories in a sandbox's tree. The agent's entries have offsets of its own file system's; `.`
 * and
 * `..` come first, at two offsets that no file system uses.
 */
#include "fs/tree.h"

#include "common/cleanup.h"
#include "fs/box.h"
#include "fs/forget.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OFF_AFTER_DOT	 INT64_C(0x7ffffffffffffffc)
#define OFF_AFTER_DOTDOT INT64_C(0x7ffffffffffffffd)
#define ENTRY_PLUS_MIN                                                            \
	160 /* bytes of the kernel's that an entry with attributes takes at least \
	     */
#define DIR_BODY_MAX (256u << 10)

/* In a tree that shows the sandbox's root: is this name one that we answer ourselves? Which one. */
static int special(struct inode *dir, const char *name, size_t len)
{
	static const char *const empty[] = {"proc", "sys", "dev"};
	struct sandbox_info info;
	struct place at;
	int found = -1;

	if (dir->tree != TREE_ROOTFS)
		return -1;
	for (int k = 0; dir->node == PROTO_NODE_ROOT && k < 3; k++)
		if (strlen(empty[k]) == len && memcmp(empty[k], name, len) == 0)
			return k;
	if (sandbox_info(dir->sb, &info) < 0)
		return -1;
	/* Cheap first: most names are not the workspace's last part. */
	const char *last = strrchr(info.workspace, '/');

	if (last && last[1] && strlen(last + 1) == len && memcmp(last + 1, name, len) == 0 &&
		inode_place(dir, &at) == 0 && strlen(at.path) == (size_t)(last - info.workspace) &&
		memcmp(at.path, info.workspace, strlen(at.path)) == 0)
		found = EMPTY_HUSK;
	sandbox_info_fini(&info);
	return found;
}

bool tree_is_special(struct inode *dir, const char *name, size_t len)
{
	return special(dir, name, len) >= 0;
}

/* The fixed node that is shown for it. */
struct shown {
	const struct node_ops *ops;
	unsigned which;
	mode_t mode;
};

static struct shown shown_for(int special)
{
	if (special == EMPTY_HUSK)
		return (struct shown){&fixed_link_ops, LINK_WORKSPACE, S_IFLNK | 0777};
	return (struct shown){&empty_ops, (unsigned)special, S_IFDIR | 0700};
}

bool tree_special(fuse_req_t req, struct inode *dir, const char *name)
{
	int which = special(dir, name, strlen(name));
	struct shown s;

	if (which < 0)
		return false;
	s = shown_for(which);
	inode_reply_fixed(req, inode_fixed(dir->table, s.ops, s.which), s.mode, 0);
	return true;
}

static void open_husk(fuse_req_t req, struct fuse_file_info *fi)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	h->local = true;
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) < 0)
		free(h);
}

void tree_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	if (box_is_husk(i->sb))
		open_husk(req, fi);
	else
		tree_open_as(req, i, fi, PROTO_OPENDIR);
}

/* A page of entries for the kernel. */
struct page {
	fuse_req_t req;
	char *data;
	size_t used, size;
	bool plus;
	fuse_ino_t *told; /* nodes in it: the kernel's once it has the page */
	uint32_t n_told;
};

static bool page_add(struct page *p, const char *name, const struct fuse_entry_param *e, off_t next)
{
	size_t room = p->size - p->used;
	size_t n =
		p->plus ? fuse_add_direntry_plus(p->req, p->data + p->used, room, name, e, next)
			: fuse_add_direntry(p->req, p->data + p->used, room, name, &e->attr, next);

	if (n > room)
		return false;
	p->used += n;
	return true;
}

/* `.` and `..`, as far as off has not passed them; returns the agent's offset to continue at. */
static uint64_t page_dots(struct page *p, struct inode *dir, off_t off)
{
	struct fuse_entry_param e = {.attr = {.st_ino = dir->ino, .st_mode = S_IFDIR}};
	struct inode *up;

	if (off == 0)
		page_add(p, ".", &e, OFF_AFTER_DOT);
	if (off == 0 || off == OFF_AFTER_DOT) {
		up = inode_parent(dir);
		if (up)
			e.attr.st_ino = up->ino;
		inode_put(up);
		page_add(p, "..", &e, OFF_AFTER_DOTDOT);
	}
	return off == 0 || off == OFF_AFTER_DOT || off == OFF_AFTER_DOTDOT ? 0 : (uint64_t)off;
}

/* The k-th entry into the page; if its number is not needed that goes to surplus. 1: added, 0: no
 * room, -EIO: it cannot be. */
static int page_entry(struct op *op, struct page *p, const struct proto_dirent *d, uint32_t k,
	struct forget *surplus)
{
	struct fuse_entry_param e = {0};
	struct inode *i = NULL;
	char name[PROTO_NAME_MAX + 1];
	int which;

	memcpy(name, d->name, d->name_len);
	name[d->name_len] = 0;
	which = special(op->ino, name, d->name_len);
	e.attr.st_ino = inode_listed_ino(op->ino, d->ino); /* it may not be looked at */
	e.attr.st_mode = d->type & S_IFMT;
	if (which >= 0) {
		struct shown s = shown_for(which);

		e.attr.st_ino = inode_fixed_ino(op->ino->table, s.ops, s.which, 0);
		e.attr.st_mode = s.mode;
	}
	if (d->has_attr && (!p->plus || which >= 0)) {
		forget_add(surplus, op->sb, sandbox_epoch(op->sb), op->node + k);
	} else if (d->has_attr) {
		i = inode_found(
			op->ino, name, op->node + k, sandbox_epoch(op->sb), &d->attr, surplus);
		if (i)
			e = inode_entry(i, d->attr.cache);
		if (!i || inode_stat(i, &d->attr, &e.attr) < 0) {
			if (i)
				inode_forget(i, 1);
			return -EIO;
		}
	}
	if (page_add(p, name, &e, (off_t)d->next)) {
		if (i)
			p->told[p->n_told++] = e.ino;
		return 1;
	}
	if (i)
		inode_forget(i, 1);
	return 0;
}

static void page_untell(struct page *p)
{
	while (p->n_told)
		inode_forget((struct inode *)(uintptr_t)p->told[--p->n_told], 1);
}

static bool possible(const struct proto_attr *a)
{
	mode_t t = a->mode & S_IFMT;

	return t == S_IFREG || t == S_IFDIR || t == S_IFLNK || t == S_IFIFO || t == S_IFSOCK ||
	       t == S_IFCHR || t == S_IFBLK;
}

/* All entries into the page, as far as there is room; what does not fit, or nobody waits for
 * (full), is given back. False: the agent's answer makes no sense. */
static bool page_fill(
	struct op *op, struct page *p, struct wire_in *body, bool full, struct forget *surplus)
{
	for (uint32_t k = 0; body->p < body->end; k++) {
		struct proto_dirent d;
		int r;

		proto_get_dirent(body, &d);
		if (body->bad || d.next > INT64_MAX ||
			(d.has_attr && (k >= op->n || !possible(&d.attr))))
			return false;
		if (!full) {
			r = page_entry(op, p, &d, k, surplus);
			if (r < 0)
				return false;
			full = r == 0;
		} else if (d.has_attr) {
			forget_add(surplus, op->sb, sandbox_epoch(op->sb), op->node + k);
		}
	}
	return true;
}

static enum op_outcome reply_readdir(struct op *op, fuse_req_t req, struct wire_in *body)
{
	struct page *p = op->data;
	struct forget surplus;
	bool good;

	p->req = req;
	surplus.n = 0;
	good = page_fill(op, p, body, !req, &surplus);
	forget_send(&surplus);
	if (!good || (req && fuse_reply_buf(req, p->data, p->used) < 0))
		page_untell(p);
	return good ? OP_DONE : OP_BAD;
}

static void page_free(struct page *p)
{
	free(p->data);
	free(p->told);
	free(p);
}

static void page_fini(struct op *op)
{
	page_free(op->data);
}

static struct page *page_new(fuse_req_t req, size_t size, bool plus)
{
	struct page *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct page){.req = req, .data = malloc(size), .size = size, .plus = plus};
	p->told = calloc(size / ENTRY_PLUS_MIN + 1, sizeof(*p->told));
	if (p->data && p->told)
		return p;
	page_free(p);
	return NULL;
}

void tree_readdir(fuse_req_t req, struct inode *i, size_t size, off_t off,
	struct fuse_file_info *fi, bool plus)
{
	struct handle *h = handle_of(fi);
	struct page *p = page_new(req, size, plus);
	uint64_t from;
	struct op *op;

	if (!p) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	from = page_dots(p, i, off);
	if (h->local) {
		fuse_reply_buf(req, p->data, p->used);
		page_free(p);
		return;
	}
	op = op_new(req, i, PROTO_READDIR, reply_readdir);
	if (!op) {
		page_free(p);
		return;
	}
	op->data = p;
	op->fini = page_fini;
	op->call.epoch = op->epoch = h->epoch;
	op->n = plus ? (uint32_t)((size - p->used) / ENTRY_PLUS_MIN) : 0;
	if (plus && !op->n)
		op->n = 1;
	op->node = atomic_fetch_add(&op->fs->next_id, op->n);
	op->call.repeat = true;
	wire_u64(&op->call.frame, h->fh);
	wire_u64(&op->call.frame, from);
	wire_u32(&op->call.frame, size < DIR_BODY_MAX ? (uint32_t)size : DIR_BODY_MAX);
	wire_u64(&op->call.frame, op->node);
	wire_u32(&op->call.frame, op->n);
	op_send(op);
}
