/*
 * The model of the tree. One process, no locks. The order in which errors are looked for is the
 * kernel's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "data.h"
#include "sys.h"
#include "tree.h"

static void *must(void *p)
{
	if (!p) {
		perror("memory");
		exit(2);
	}
	return p;
}

static struct node *node_new(struct tree *tree, char type, int mode)
{
	struct node *node = must(calloc(1, sizeof(*node)));

	node->type = type;
	node->mode = mode;
	node->mtime = node->ctime = -1;
	memset(node->xattr_len, -1, sizeof(node->xattr_len));
	tree->nodes++;
	return node;
}

static void node_put(struct tree *tree, struct node *node)
{
	if (node->nlink || node->held)
		return;
	tree->nodes--;
	free(node->data);
	free(node);
}

static void node_changed(struct node *node)
{
	node->mtime = node->ctime = -1;
}

static void node_resize(struct node *node, int64_t size)
{
	if (size > node->size) {
		node->data = must(realloc(node->data, (size_t)size));
		memset(node->data + node->size, 0, (size_t)(size - node->size));
	}
	node->size = size;
}

static void dir_put(struct node *dir, int index, struct node *node)
{
	dir->child[index] = node;
	dir->children++;
	node->nlink++;
	node->ctime = -1;
	node_changed(dir);
}

static void dir_take(struct node *dir, int index)
{
	dir->child[index]->nlink--;
	dir->child[index]->ctime = -1;
	dir->child[index] = NULL;
	dir->children--;
	node_changed(dir);
}

void tree_init(struct tree *tree)
{
	memset(tree, 0, sizeof(*tree));
	for (int i = 0; i < 3; i++) {
		tree->top[i] = node_new(tree, 'd', 0755);
		tree->top[i]->nlink = 1;
	}
}

int tree_find(const struct tree *tree, const char *path, struct place *place)
{
	struct node *node = tree->top[path[0] == 'a' ? 0 : path[0] == 'b' ? 1 : 2];

	place->dir = NULL;
	place->index = 0;
	path++;
	while (*path == '/') {
		char *end;

		if (!node || node->type == 'l') /* symlinks lead nowhere */
			return ENOENT;
		if (node->type != 'd')
			return ENOTDIR;
		place->dir = node;
		place->index = (int)strtol(path + 1, &end, 10);
		node = node->child[place->index];
		path = end;
	}
	place->node = node;
	return 0;
}

void tree_target(uint32_t number, char *text, int len)
{
	snprintf(text, (size_t)len, "nowhere-%0*u", (int)(number % 40), number);
}

static void mark(struct node *node, int bit)
{
	node->in |= bit;
	for (int i = 0; i < OP_NAMES; i++)
		if (node->child[i])
			mark(node->child[i], bit);
}

static void unmark(struct node *node)
{
	node->in = 0;
	for (int i = 0; i < OP_NAMES; i++)
		if (node->child[i])
			unmark(node->child[i]);
}

void tree_mark(struct tree *tree)
{
	for (int i = 0; i < OP_SLOTS; i++)
		if (tree->held[i])
			tree->held[i]->in = 0;
	for (int i = 0; i < 3; i++)
		unmark(tree->top[i]);
	for (int i = 0; i < 3; i++)
		mark(tree->top[i], 1 << i);
}

/* --- what each operation does ------------------------------------------------------------------
 */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What all that open(O_NOFOLLOW) a file say of what they find. */
static int open_error(const struct place *p)
{
	if (!p->node)
		return ENOENT;
	if (p->node->type == 'l')
		return ELOOP;
	return p->node->type == 'd' ? EISDIR : 0;
}

static void expect_bytes(struct op *op, const struct node *node)
{
	int64_t start = least(op->off, node->size);

	op->count = least(op->len, node->size - start);
	op->hash = data_hash(node->data + start, (size_t)op->count);
}

static void expect_attrs(struct op *op, const struct node *node)
{
	op->type = node->type;
	op->mtime = node->mtime;
	op->ctime = node->ctime;
	op->ino = node->ino;
	op->mode = node->type == 'l' ? 0777 : node->mode;
	if (node->type == 'f')
		op->count = node->size;
	/* A directory's count of links is the file system's own matter. */
	op->nlink = node->type == 'd' ? 0 : node->nlink;
}

static void put_bytes(struct node *node, int64_t off, int64_t len, uint32_t seed)
{
	if (len == 0)
		return;
	if (off + len > node->size)
		node_resize(node, off + len);
	data_fill(node->data + off, (size_t)len, seed, (uint64_t)off);
	node_changed(node);
}

static void apply_write(struct op *op, struct node *node)
{
	if (op->flags & W_TRUNC) {
		node_resize(node, 0);
		node_changed(node);
	}
	if (op->flags & W_APPEND)
		op->off = node->size;
	put_bytes(node, op->off, op->len, op->seed);
	op->count = op->len;
}

static void apply_list(struct op *op, const struct place *p)
{
	if (!p->node)
		op->err = ENOENT;
	else if (p->node->type != 'd')
		op->err = ENOTDIR;
	if (op->err)
		return;
	for (int i = 0; i < OP_NAMES; i++) {
		op->list[i] = p->node->child[i] ? p->node->child[i]->type : '-';
		op->inos[i] = p->node->child[i] ? p->node->child[i]->ino : 0;
	}
}

static int is_above(const struct node *above, const struct node *node)
{
	if (above == node)
		return 1;
	for (int i = 0; i < OP_NAMES; i++)
		if (above->child[i] && is_above(above->child[i], node))
			return 1;
	return 0;
}

static int rename_error(const struct op *op, const struct place *from, const struct place *to)
{
	int exchange = op->flags & RENAME_EXCHANGE;

	if (!from->node)
		return ENOENT;
	if ((op->flags & RENAME_NOREPLACE) && to->node)
		return EEXIST;
	if (exchange && !to->node)
		return ENOENT;
	if (is_above(from->node, to->dir))
		return EINVAL;
	if (to->node && is_above(to->node, from->dir))
		return exchange ? EINVAL : ENOTEMPTY;
	if (!to->node || exchange || from->node == to->node)
		return 0;
	if (from->node->type == 'd')
		return to->node->type != 'd' ? ENOTDIR : to->node->children ? ENOTEMPTY : 0;
	return to->node->type == 'd' ? EISDIR : 0;
}

static void apply_rename(struct tree *tree, struct op *op, const struct place *from)
{
	struct node *moved = from->node, *old;
	struct place to;

	op->err = tree_find(tree, op->path2, &to);
	if (!op->err)
		op->err = rename_error(op, from, &to);
	old = to.node;
	if (op->err || moved == old) /* two names of one file: nothing happens, says POSIX */
		return;
	dir_take(from->dir, from->index);
	if (old)
		dir_take(to.dir, to.index);
	dir_put(to.dir, to.index, moved);
	if (op->flags & RENAME_EXCHANGE)
		dir_put(from->dir, from->index, old);
	else if (old)
		node_put(tree, old);
}

static void apply_link(struct tree *tree, struct op *op, const struct place *from)
{
	struct place to;

	if (!from->node) {
		op->err = ENOENT;
		return;
	}
	op->err = tree_find(tree, op->path2, &to);
	if (!op->err && to.node)
		op->err = EEXIST;
	else if (!op->err && from->node->type == 'd')
		op->err = EPERM;
	if (!op->err)
		dir_put(to.dir, to.index, from->node);
}

static void apply_remove(struct tree *tree, struct op *op, const struct place *p)
{
	if (!p->node)
		op->err = ENOENT;
	else if (op->kind == OP_RMDIR)
		op->err = p->node->type != 'd' ? ENOTDIR : p->node->children ? ENOTEMPTY : 0;
	else
		op->err = p->node->type == 'd' ? EISDIR : 0;
	if (op->err)
		return;
	dir_take(p->dir, p->index);
	node_put(tree, p->node);
}

/* Opens a file, removes its name, reads and writes what has no name any more. */
static void apply_orphan(struct tree *tree, struct op *op, const struct place *p)
{
	op->err = open_error(p);
	if (op->err)
		return;
	p->node->held++;
	dir_take(p->dir, p->index);
	put_bytes(p->node, op->off, op->len, op->seed);
	op->count = p->node->size;
	op->hash = data_hash(p->node->data, (size_t)p->node->size);
	op->nlink = p->node->nlink;
	p->node->held--;
	node_put(tree, p->node);
}

static void apply_new(struct tree *tree, struct op *op, const struct place *p)
{
	static const char types[OP_KINDS] = {
		[OP_CREATE] = 'f', [OP_MKDIR] = 'd', [OP_SYMLINK] = 'l'};
	struct node *node;

	if (p->node) {
		op->err = EEXIST;
		return;
	}
	node = node_new(tree, types[op->kind], op->mode);
	node->target = op->seed;
	dir_put(p->dir, p->index, node);
}

static void apply_attr(struct op *op, const struct place *p)
{
	/* chmod follows links, and they lead nowhere */
	if (!p->node || (op->kind == OP_CHMOD && p->node->type == 'l')) {
		op->err = ENOENT;
		return;
	}
	p->node->ctime = -1;
	if (op->kind == OP_CHMOD)
		p->node->mode = op->mode;
	else
		p->node->mtime = op->off;
}

static void apply_xattr(struct op *op, const struct place *p)
{
	int i = op->slot, set = op->kind == OP_SETX;
	struct node *node = p->node;

	if (!node) {
		op->err = ENOENT;
	} else if (op->kind == OP_LISTX) {
		for (int k = 0; k < OP_XATTRS; k++)
			op->mode |= (node->xattr_len[k] >= 0) << k;
	} else if (node->type == 'l') {
		op->err = op->kind == OP_GETX ? ENODATA : EPERM;
	} else if (node->xattr_len[i] < 0 && (!set || op->flags & XATTR_REPLACE)) {
		op->err = ENODATA;
	} else if (op->kind == OP_GETX) {
		op->count = node->xattr_len[i];
		op->seed = node->xattr_seed[i];
	} else if (set && node->xattr_len[i] >= 0 && op->flags & XATTR_CREATE) {
		op->err = EEXIST;
	} else {
		node->xattr_len[i] = set ? (int)op->len : -1;
		node->xattr_seed[i] = op->seed;
		node->ctime = -1;
	}
}

static void apply_falloc(struct op *op, struct node *node)
{
	int64_t end = op->off + op->len;

	if (!(op->flags & FALLOC_KEEP_SIZE) && end > node->size)
		node_resize(node, end);
	if (op->flags & (FALLOC_PUNCH_HOLE | FALLOC_ZERO_RANGE) && op->off < node->size)
		memset(node->data + op->off, 0, (size_t)(least(end, node->size) - op->off));
	node_changed(node);
}

static void apply_copy(struct tree *tree, struct op *op, const struct place *from)
{
	struct place to;
	int64_t count;

	op->err = open_error(from);
	if (!op->err)
		op->err = tree_find(tree, op->path2, &to);
	if (!op->err)
		op->err = open_error(&to);
	if (op->err)
		return;
	count = op->off >= from->node->size ? 0 : least(op->len, from->node->size - op->off);
	op->count = count;
	if (!count)
		return;
	if (op->off2 + count > to.node->size)
		node_resize(to.node, op->off2 + count);
	memcpy(to.node->data + op->off2, from->node->data + op->off, (size_t)count);
	node_changed(to.node);
}

/* The operations by a kept descriptor; the caller knows which are free. */
static void apply_held(struct tree *tree, struct op *op)
{
	struct node *node = tree->held[op->slot];

	switch (op->kind) {
	case OP_HREAD:
	case OP_HMAP:
		expect_bytes(op, node);
		break;
	case OP_HSTAT:
		expect_attrs(op, node);
		break;
	case OP_HWRITE:
		apply_write(op, node);
		break;
	default: /* OP_DROP */
		tree->held[op->slot] = NULL;
		node->held--;
		node_put(tree, node);
	}
}

/* Those that need a file at their path. */
static void apply_file(struct tree *tree, struct op *op, const struct place *p)
{
	op->err = open_error(p);
	if (op->err)
		return;
	switch (op->kind) {
	case OP_READ:
		expect_bytes(op, p->node);
		break;
	case OP_WRITE:
		apply_write(op, p->node);
		break;
	case OP_MSTORE: /* only what is there can be mapped */
		op->off = least(op->off, p->node->size);
		op->len = least(op->len, p->node->size - op->off);
		put_bytes(p->node, op->off, op->len, op->seed);
		break;
	case OP_FALLOC:
		apply_falloc(op, p->node);
		break;
	default: /* OP_HOLD */
		tree->held[op->slot] = p->node;
		p->node->held++;
	}
}

static void apply_at(struct tree *tree, struct op *op, const struct place *p)
{
	switch (op->kind) {
	case OP_STAT:
		if (p->node)
			expect_attrs(op, p->node);
		else
			op->err = ENOENT;
		break;
	case OP_LIST:
		apply_list(op, p);
		break;
	case OP_READLINK:
		op->err = !p->node ? ENOENT : p->node->type != 'l' ? EINVAL : 0;
		op->seed = op->err ? 0 : p->node->target;
		break;
	case OP_CREATE:
	case OP_MKDIR:
	case OP_SYMLINK:
		apply_new(tree, op, p);
		break;
	case OP_TRUNC: /* by path: follows links, and they lead nowhere */
		op->err = !p->node || p->node->type == 'l' ? ENOENT
			  : p->node->type == 'd'	   ? EISDIR
							   : 0;
		if (!op->err) {
			node_resize(p->node, op->len);
			node_changed(p->node);
		}
		break;
	case OP_UNLINK:
	case OP_RMDIR:
		apply_remove(tree, op, p);
		break;
	case OP_ORPHAN:
		apply_orphan(tree, op, p);
		break;
	case OP_CHMOD:
	case OP_UTIMENS:
		apply_attr(op, p);
		break;
	case OP_GETX:
	case OP_SETX:
	case OP_REMX:
	case OP_LISTX:
		apply_xattr(op, p);
		break;
	default:
		apply_file(tree, op, p);
	}
}

void tree_apply(struct tree *tree, struct op *op)
{
	struct place p;
	int two = op->kind == OP_RENAME || op->kind == OP_LINK || op->kind == OP_COPY;

	if (op->kind == OP_SNAP)
		return;
	if (!op->path[0]) {
		apply_held(tree, op);
		return;
	}
	op->err = tree_find(tree, op->path, &p);
	if (op->err)
		return;
	if (!two)
		apply_at(tree, op, &p);
	else if (op->kind == OP_RENAME)
		apply_rename(tree, op, &p);
	else if (op->kind == OP_LINK)
		apply_link(tree, op, &p);
	else
		apply_copy(tree, op, &p);
}
