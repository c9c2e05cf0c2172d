/*
 * See pick.h. One process, no locks.
 */
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "pick.h"
#include "sys.h"

/* How often each is tried, in relation to the others. */
static const int weights[OP_KINDS] = {
	[OP_STAT] = 60,
	[OP_READ] = 60,
	[OP_LIST] = 30,
	[OP_READLINK] = 8,
	[OP_GETX] = 8,
	[OP_LISTX] = 4,
	[OP_HREAD] = 12,
	[OP_HMAP] = 12,
	[OP_HSTAT] = 12,
	[OP_CREATE] = 30,
	[OP_WRITE] = 60,
	[OP_MSTORE] = 15,
	[OP_TRUNC] = 15,
	[OP_RENAME] = 40,
	[OP_LINK] = 15,
	[OP_UNLINK] = 18,
	[OP_ORPHAN] = 4,
	[OP_MKDIR] = 12,
	[OP_RMDIR] = 8,
	[OP_SYMLINK] = 8,
	[OP_CHMOD] = 12,
	[OP_UTIMENS] = 12,
	[OP_SETX] = 10,
	[OP_REMX] = 4,
	[OP_FALLOC] = 12,
	[OP_COPY] = 8,
	[OP_HWRITE] = 12,
	[OP_HOLD] = 10,
	[OP_DROP] = 8,
};

enum want { ANY, FILE_THERE, DIR_THERE, LINK_THERE, THERE, ABSENT };

/* What each kind needs at its path to do anything. */
static const enum want wants[OP_KINDS] = {
	[OP_READ] = FILE_THERE,
	[OP_LIST] = DIR_THERE,
	[OP_READLINK] = LINK_THERE,
	[OP_GETX] = THERE,
	[OP_LISTX] = THERE,
	[OP_CREATE] = ABSENT,
	[OP_WRITE] = FILE_THERE,
	[OP_MSTORE] = FILE_THERE,
	[OP_TRUNC] = FILE_THERE,
	[OP_RENAME] = THERE,
	[OP_LINK] = THERE,
	[OP_UNLINK] = THERE,
	[OP_ORPHAN] = FILE_THERE,
	[OP_MKDIR] = ABSENT,
	[OP_RMDIR] = DIR_THERE,
	[OP_SYMLINK] = ABSENT,
	[OP_CHMOD] = THERE,
	[OP_UTIMENS] = THERE,
	[OP_SETX] = THERE,
	[OP_REMX] = THERE,
	[OP_FALLOC] = FILE_THERE,
	[OP_COPY] = FILE_THERE,
	[OP_HOLD] = FILE_THERE,
};

static int suits(enum want want, const struct node *node)
{
	switch (want) {
	case FILE_THERE:
		return node && node->type == 'f';
	case DIR_THERE:
		return node && node->type == 'd';
	case LINK_THERE:
		return node && node->type == 'l';
	case THERE:
		return node != NULL;
	case ABSENT:
		return !node;
	default:
		return 1;
	}
}

static int random_child(struct pick *pick, const struct node *dir)
{
	int nth;

	if (!dir->children || rnd_once_in(&pick->rnd, 4))
		return (int)rnd_below(&pick->rnd, (unsigned)pick->names);
	nth = (int)rnd_below(&pick->rnd, (unsigned)dir->children);
	for (int i = 0; i < OP_NAMES; i++)
		if (dir->child[i] && nth-- == 0)
			return i;
	return 0;
}

/* Some path beneath one of the trees. */
static void walk(struct pick *pick, const struct tree *tree, int trees, char *path)
{
	const struct node *node;
	int top, used = 1;

	do
		top = (int)rnd_below(&pick->rnd, 3);
	while (!(trees & 1 << top));
	node = tree->top[top];
	path[0] = "abh"[top];
	for (int depth = 1; depth <= pick->depth; depth++) {
		int i = node && node->type == 'd'
				? random_child(pick, node)
				: (int)rnd_below(&pick->rnd, (unsigned)pick->names);

		used += snprintf(path + used, (size_t)(OP_PATH - used), "/%d", i);
		node = node && node->type == 'd' ? node->child[i] : NULL;
		if (node && node->type == 'd' ? rnd_once_in(&pick->rnd, 3)
					      : !rnd_once_in(&pick->rnd, 40))
			break;
	}
}

/* Where the other side acts at once, what it can reach too is left alone. */
static int usable(const struct scope *scope, const struct node *node)
{
	return !scope->at_once || !node || !(node->in & ~scope->trees);
}

/* 0 if none was found */
static int pick_path(struct pick *pick, const struct tree *tree, const struct scope *scope,
	enum want want, char *path)
{
	int particular = !rnd_once_in(&pick->rnd, 12);

	for (int tries = 0; tries < 60; tries++) {
		struct place place;
		int err;

		walk(pick, tree, scope->trees, path);
		err = tree_find(tree, path, &place);
		if (err ? !particular
			: usable(scope, place.node) && (!particular || suits(want, place.node)))
			return 1;
	}
	return 0;
}

static int64_t pick_length(struct pick *pick, int64_t most)
{
	static const int64_t sizes[] = {64, 64, 400, 5000, 5000, 20000, 70000};
	int64_t size = sizes[rnd_below(&pick->rnd, 7)];

	if (size > most)
		size = most;
	return size > 0 ? rnd_below(&pick->rnd, (unsigned)size + 1) : 0;
}

/* At the start, the end, a page's border, anywhere, or beyond the end. */
static int64_t pick_offset(struct pick *pick, const struct node *node)
{
	int64_t size = node ? node->size : 0, off = 0;

	switch (rnd_below(&pick->rnd, 6)) {
	case 0:
		break;
	case 1:
		off = size;
		break;
	case 2:
		off = size + pick_length(pick, 20000);
		break;
	case 3:
		off = rnd_below(&pick->rnd, (unsigned)(size / 4096 + 1)) * 4096;
		break;
	default:
		off = rnd_below(&pick->rnd, (unsigned)size + 1);
	}
	return off > pick->size ? pick->size : off;
}

static void pick_write(struct pick *pick, const struct node *node, struct op *op)
{
	op->seed = (uint32_t)rnd_next(&pick->rnd);
	op->off = pick_offset(pick, node);
	op->len = pick_length(pick, pick->size - op->off);
	if (op->kind == OP_MSTORE) {
		op->flags = rnd_once_in(&pick->rnd, 2) ? W_SYNC : 0;
		return;
	}
	if (op->kind != OP_WRITE)
		return;
	/* the same length again: what only a new time or the bytes themselves give away */
	if (node && node->size && rnd_once_in(&pick->rnd, 4)) {
		op->off = 0;
		op->len = node->size;
	}
	switch (rnd_below(&pick->rnd, 8)) {
	case 0:
	case 1:
		if (node && node->size + op->len <= pick->size) {
			op->flags = W_APPEND;
			op->off = node->size;
			break;
		}
		/* fall through */
	case 2:
	case 3:
		op->flags = W_TRUNC;
		op->off = 0;
		break;
	case 4:
		op->flags = W_SYNC;
		break;
	case 5:
		op->flags = W_DIRECT;
		op->off = op->off / 4096 * 4096;
		op->len = op->len / 4096 * 4096;
		break;
	default:
		break;
	}
}

static void pick_read(struct pick *pick, const struct node *node, struct op *op)
{
	op->len = pick->size;
	if (op->kind == OP_READ)
		op->flags = (int)rnd_below(&pick->rnd, R_METHODS);
	if (rnd_once_in(&pick->rnd, 2))
		return;
	op->off = pick_offset(pick, node);
	op->len = pick_length(pick, pick->size);
	if (op->flags == R_DIRECT) {
		op->off = op->off / 4096 * 4096;
		op->len = (op->len + 4095) / 4096 * 4096;
	}
}

static void pick_falloc(struct pick *pick, const struct node *node, struct op *op)
{
	static const int modes[] = {0, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE,
		FALLOC_ZERO_RANGE, FALLOC_ZERO_RANGE | FALLOC_KEEP_SIZE};

	op->flags = modes[rnd_below(&pick->rnd, 5)];
	op->off = pick_offset(pick, node);
	op->len = pick_length(pick, pick->size - op->off - 1) + 1;
	if (op->off + op->len > pick->size)
		op->off = 0;
}

/* 0 for a file onto itself: the loop that copies would meet what it has written */
static int pick_copy(struct pick *pick, const struct tree *tree, struct op *op)
{
	struct place from = {0}, to = {0};

	op->len = pick_length(pick, pick->size / 2);
	if (!tree_find(tree, op->path, &from))
		op->off = pick_offset(pick, from.node);
	if (!tree_find(tree, op->path2, &to))
		op->off2 = pick_offset(pick, to.node);
	if (op->off2 + op->len > pick->size)
		op->off2 = 0;
	return !from.node || from.node != to.node;
}

static int height(const struct node *node)
{
	int most = 0;

	for (int i = 0; i < OP_NAMES; i++)
		if (node->child[i]) {
			int h = height(node->child[i]);

			most = h > most ? h : most;
		}
	return most + 1;
}

static int levels(const char *path)
{
	int n = 0;

	while ((path = strchr(path, '/'))) {
		path++;
		n++;
	}
	return n;
}

/* Would what is at FROM be too deep at TO? */
static int too_deep(
	const struct pick *pick, const struct tree *tree, const char *from, const char *to)
{
	struct place place;

	return !tree_find(tree, from, &place) && place.node &&
	       levels(to) + height(place.node) - 1 > pick->depth;
}

static void pick_rename(struct pick *pick, struct op *op)
{
	switch (rnd_below(&pick->rnd, 8)) {
	case 0:
		op->flags = RENAME_NOREPLACE;
		break;
	case 1:
		op->flags = RENAME_EXCHANGE;
		break;
	default:
		break;
	}
}

/* The numbers that the kind needs. */
static void pick_numbers(struct pick *pick, const struct node *node, struct op *op)
{
	struct rnd *r = &pick->rnd;

	switch (op->kind) {
	case OP_READ:
	case OP_HREAD:
	case OP_HMAP:
		pick_read(pick, node, op);
		break;
	case OP_WRITE:
	case OP_HWRITE:
	case OP_MSTORE:
	case OP_ORPHAN:
		pick_write(pick, node, op);
		break;
	case OP_TRUNC:
		op->flags = (int)rnd_below(r, 2);
		op->len = rnd_once_in(r, 3) ? 0 : pick_offset(pick, node);
		break;
	case OP_RENAME:
		pick_rename(pick, op);
		break;
	case OP_CREATE:
	case OP_MKDIR:
	case OP_CHMOD:
		op->mode = (int)rnd_below(r, 01000);
		break;
	case OP_SYMLINK:
		op->seed = rnd_below(r, 100000);
		break;
	case OP_UTIMENS:
		op->off = (int64_t)rnd_below(r, 2000000000) * 1000000000 + rnd_below(r, 1000000000);
		break;
	case OP_SETX:
		op->seed = (uint32_t)rnd_next(r);
		op->len = rnd_below(r, 200);
		op->flags = rnd_once_in(r, 3)	? XATTR_CREATE
			    : rnd_once_in(r, 3) ? XATTR_REPLACE
						: 0;
		/* fall through */
	case OP_GETX:
	case OP_REMX:
		op->slot = (int)rnd_below(r, OP_XATTRS);
		break;
	case OP_FALLOC:
		pick_falloc(pick, node, op);
		break;
	default:
		break;
	}
}

static enum op_kind pick_kind(struct pick *pick, const struct tree *tree)
{
	int sum = 0, at;
	enum op_kind kind = 0;

	for (int i = 0; i < OP_KINDS; i++)
		sum += weights[i];
	at = (int)rnd_below(&pick->rnd, (unsigned)sum);
	while (at >= weights[kind])
		at -= weights[kind++];
	if (tree->nodes < pick->nodes)
		return kind;
	switch (kind) { /* enough: take something away instead */
	case OP_CREATE:
	case OP_SYMLINK:
	case OP_LINK:
		return OP_UNLINK;
	case OP_MKDIR:
		return OP_RMDIR;
	default:
		return kind;
	}
}

static int is_held_kind(enum op_kind kind)
{
	return kind == OP_HREAD || kind == OP_HMAP || kind == OP_HSTAT || kind == OP_HWRITE ||
	       kind == OP_DROP;
}

static int pick_held(
	struct pick *pick, const struct tree *tree, const struct scope *scope, struct op *op)
{
	const struct node *node;

	op->slot = (int)rnd_below(&pick->rnd, OP_SLOTS);
	node = tree->held[op->slot];
	if (!scope->host || !node || !usable(scope, node))
		return 0;
	pick_numbers(pick, node, op);
	if (op->kind == OP_HMAP && op->off >= node->size)
		op->off = 0;
	return 1;
}

static int pick_hold(
	struct pick *pick, const struct tree *tree, const struct scope *scope, struct op *op)
{
	op->slot = (int)rnd_below(&pick->rnd, OP_SLOTS);
	return scope->host && !tree->held[op->slot];
}

static int try(struct pick *pick, const struct tree *tree, const struct scope *scope, struct op *op)
{
	enum op_kind kind = pick_kind(pick, tree);
	struct place place;

	op_init(op, kind, "");
	if (pick->without & 1U << kind)
		return 0;
	if (is_held_kind(kind))
		return pick_held(pick, tree, scope, op);
	if (kind == OP_HOLD && !pick_hold(pick, tree, scope, op))
		return 0;
	if (!pick_path(pick, tree, scope, wants[kind], op->path))
		return 0;
	if ((kind == OP_RENAME || kind == OP_LINK || kind == OP_COPY) &&
		!pick_path(pick, tree, scope,
			kind == OP_COPY	  ? FILE_THERE
			: kind == OP_LINK ? ABSENT
					  : ANY,
			op->path2))
		return 0;
	if (kind == OP_COPY)
		return pick_copy(pick, tree, op);
	if (kind == OP_RENAME && (too_deep(pick, tree, op->path, op->path2) ||
					 too_deep(pick, tree, op->path2, op->path)))
		return 0;
	pick_numbers(pick, tree_find(tree, op->path, &place) ? NULL : place.node, op);
	return 1;
}

void pick_op(struct pick *pick, const struct tree *tree, const struct scope *scope, struct op *op)
{
	while (!try(pick, tree, scope, op))
		;
}

uint32_t pick_kinds(const char *list)
{
	uint32_t bits = 0;
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((word = strsep(&rest, ","))) {
		int kind = 0;

		while (kind < OP_KINDS && strcmp(op_kind_name((enum op_kind)kind), word) != 0)
			kind++;
		if (kind == OP_KINDS) {
			fprintf(stderr, "no operation is called %s\n", word);
			return 0;
		}
		bits |= 1U << kind;
	}
	return bits;
}
