/* SPDX-License-Identifier: MIT */
/*
 * The tables of nodes: one a sandbox and one for the mount itself; each table's lock guards it.
 * A directory or symlink is found again by (parent node, name), never by its inode, which can
 * appear at two depths: READLINK knows only the node, and the depth decides what a link may say.
 * Other files are found by device, inode and birth time, so that hard links are one node.
 */
#include "fs/siphash.h"

/* Device, inode, birth time and names are the sandbox's: it must not choose keys that collide. */
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)siphash(key, len))

#include "fs/inode.h"

#include "fs/box.h"
#include "fs/changes.h"
#include "fs/ctl.h"
#include "fs/forget.h"
#include "fs/itable.h"
#include "fs/scratch.h"
#include "fs/seen.h"
#include "fs/trail.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#define TRIM_AFTER 8192 /* nodes */
#define TRIM_MS	   1000

static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	return h ^ (h >> 31);
}

struct itable *itable_new(struct fs *fs, struct sandbox *sb)
{
	struct itable *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->fs = fs;
	t->sb = sb;
	pthread_mutex_init(&t->lock, NULL);
	if (sb) {
		t->changes = changes_new(fs, t, sb);
		t->seen = t->changes ? seen_new() : NULL;
		if (!t->seen) {
			if (t->changes)
				changes_free(t->changes);
			pthread_mutex_destroy(&t->lock);
			free(t);
			return NULL;
		}
	}
	pthread_mutex_lock(&fs->tables_lock);
	DL_APPEND(fs->tables, t);
	pthread_mutex_unlock(&fs->tables_lock);
	return t;
}

void itable_free(struct itable *t)
{
	pthread_mutex_lock(&t->fs->tables_lock);
	DL_DELETE(t->fs->tables, t);
	pthread_mutex_unlock(&t->fs->tables_lock);
	scratch_drop_table(t->fs, t, 0);
	pthread_mutex_destroy(&t->lock);
	seen_free(t->seen);
	changes_free(t->changes);
	free(t);
}

struct changes *itable_changes(struct itable *t)
{
	return t->changes;
}

struct seen *itable_seen(struct itable *t)
{
	return t->seen;
}

struct itable *itable_next(struct fs *fs, struct itable *t)
{
	struct itable *next;

	pthread_mutex_lock(&fs->tables_lock);
	next = t ? t->next : fs->tables;
	pthread_mutex_unlock(&fs->tables_lock);
	return next;
}

void itable_unkey(struct inode *i)
{
	if (!i->key)
		return;
	HASH_DEL(i->table->nodes, i);
	free(i->key);
	i->key = NULL;
}

/* With the lock held: the kernel knows it under that number, or (node 0) no more. */
static void renumber(struct inode *i, uint64_t node)
{
	struct itable *t = i->table;
	struct inode *other;

	if (i->by_node.tbl)
		HASH_DELETE(by_node, t->numbers, i);
	i->by_node.tbl = NULL;
	if (!node)
		return;
	i->node = node;
	HASH_FIND(by_node, t->numbers, &node, sizeof(node), other);
	if (!other)
		HASH_ADD(by_node, t->numbers, node, sizeof(node), i);
}

void itable_clear(struct itable *t)
{
	struct inode *i, *tmp, *list = NULL;

	/* Nodes hold references on the sandbox that holds the table: collect, then let go. */
	pthread_mutex_lock(&t->lock);
	HASH_ITER (hh, t->nodes, i, tmp) {
		itable_unkey(i);
		renumber(i, 0);
		i->hh.next = list;
		list = i;
	}
	HASH_ITER (by_node, t->numbers, i, tmp) { /* those that have lost their name */
		renumber(i, 0);
		i->hh.next = list;
		list = i;
	}
	pthread_mutex_unlock(&t->lock);
	while ((i = list)) {
		list = i->hh.next;
		if (i->lookups) {
			i->lookups = 0;
			inode_put(i);
		}
	}
}

static void *make_table(struct sandbox *sb, void *arg)
{
	return itable_new(arg, sb);
}

static void drop_table(void *view)
{
	itable_free(view);
}

static void table_up(void *view)
{
	struct itable *t = view;

	changes_up(t->changes);
	ctl_up(t, t->sb);
	trail_up(t->fs, t, t->sb, !atomic_exchange(&t->was_up, true));
}

struct itable *itable_of(struct fs *fs, struct sandbox *sb)
{
	static const struct view_ops ops = {.make = make_table, .drop = drop_table, .up = table_up};
	struct itable *t = sandbox_view(sb, &ops, fs);

	if (t)
		changes_up(t->changes); /* it may be up for long */
	return t;
}

struct inode *inode_of(fuse_req_t req, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? fs_of(req)->root : (struct inode *)(uintptr_t)ino;
}

void inode_get(struct inode *i)
{
	i->refs++;
}

static void put(struct inode *i, struct forget *f)
{
	while (i && --i->refs == 0) {
		struct inode *parent = i->parent;

		if (i->epoch)
			forget_add(f, i->sb, i->epoch, i->node);
		free(i->name);
		if (i->sb)
			sandbox_put(i->sb);
		free(i);
		i = parent; /* not recursion: a path may be deep */
	}
}

void inode_put(struct inode *i)
{
	struct forget f;

	f.n = 0;
	put(i, &f);
	forget_send(&f);
}

/* Again until little was freed since the time before: the kernel forgets a big tree for a while. */
static void trim(void *arg)
{
	struct fs *fs = arg;
	uint64_t freed = fs->freed;

	malloc_trim(0);
	if (freed - atomic_exchange(&fs->trimmed, freed) >= TRIM_AFTER / 16)
		registry_after(fs->registry, TRIM_MS, trim, fs);
	else
		fs->trimming = false;
}

/* After a walk of very many files the memory goes back to the machine. */
static void note_freed(struct fs *fs)
{
	if (++fs->freed - fs->trimmed >= TRIM_AFTER && !atomic_exchange(&fs->trimming, true))
		registry_after(fs->registry, TRIM_MS, trim, fs);
}

bool inode_remember(struct inode *i)
{
	bool known;

	pthread_mutex_lock(&i->table->lock);
	known = i->lookups > 0;
	i->lookups += known;
	pthread_mutex_unlock(&i->table->lock);
	return known;
}

void inode_forget_some(struct inode *i, uint64_t n, struct forget *f)
{
	struct itable *t = i->table;
	bool last;

	if (i == i->fs->root)
		return;
	pthread_mutex_lock(&t->lock);
	i->lookups = i->lookups > n ? i->lookups - n : 0;
	last = i->lookups == 0;
	if (last) {
		itable_unkey(i);
		renumber(i, 0);
	}
	pthread_mutex_unlock(&t->lock);
	if (last) {
		struct fs *fs = i->fs;

		put(i, f); /* the kernel's reference */
		note_freed(fs);
	}
}

void inode_forget(struct inode *i, uint64_t n)
{
	struct forget f;

	f.n = 0;
	inode_forget_some(i, n, &f);
	forget_send(&f);
}

static struct inode *node_new(struct itable *t, const struct node_ops *ops)
{
	struct inode *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->refs = 1;
	i->ops = ops;
	i->fs = t->fs;
	i->table = t;
	i->generation = ++t->fs->generation;
	i->sb = t->sb;
	if (i->sb)
		sandbox_get(i->sb);
	return i;
}

struct inode *itable_find(struct itable *t, const uint8_t *key, size_t n)
{
	struct inode *i;

	HASH_FIND(hh, t->nodes, key, n, i);
	return i;
}

bool itable_enter(struct inode *i, const uint8_t *key, size_t n)
{
	i->key = malloc(n);
	if (!i->key)
		return false;
	memcpy(i->key, key, n);
	HASH_ADD_KEYPTR(hh, i->table->nodes, i->key, n, i);
	return true;
}

static size_t key_u64(uint8_t *key, size_t at, uint64_t v)
{
	memcpy(key + at, &v, sizeof(v));
	return at + sizeof(v);
}

static uint64_t table_seed(struct itable *t)
{
	if (!t->seed)
		t->seed = t->sb ? sandbox_seed(t->sb) : 1;
	return t->seed ? t->seed : 7; /* no container yet: only fixed nodes are asked for */
}

/* What is left of a removed sandbox's workspace is another node, whose names the kernel does not
 * know, but it is the same directory: who compares what it was shown with what it opened (python's
 * rmtree) is not to find a difference. */
uint64_t inode_fixed_ino(struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job)
{
	uint64_t ino;

	if (ops == &empty_ops && which == EMPTY_HUSK) {
		ops = &tree_ops;
		which = TREE_WORKSPACE;
	}
	ino = mix(mix(table_seed(t), 1), ((uint64_t)ops->kind << 32) + which);
	return job ? mix(ino, job) : ino;
}

static size_t fixed_key(uint8_t *key, const struct node_ops *ops, unsigned which, uint64_t job)
{
	key[0] = 'f';
	key[1] = ops->kind;
	return key_u64(key, key_u64(key, 2, which), job);
}

static struct inode *fixed(
	struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job, enum tree tree)
{
	uint8_t key[ITABLE_KEY_MAX];
	size_t n = fixed_key(key, ops, which, job);
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = itable_find(t, key, n);
	if (i) {
		i->lookups++;
	} else if ((i = node_new(t, ops))) {
		i->which = which;
		i->job = job;
		i->tree = tree;
		i->node = tree == TREE_ROOTFS ? PROTO_NODE_ROOT : PROTO_NODE_WORKSPACE;
		i->type = S_IFDIR;
		i->lookups = 1;
		if (tree != TREE_NONE)
			renumber(i, i->node);
		i->ino = inode_fixed_ino(t, ops, which, job);
		if (!itable_enter(i, key, n)) {
			renumber(i, 0);
			pthread_mutex_unlock(&t->lock);
			inode_put(i);
			return NULL;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return i;
}

struct inode *inode_fixed_known(struct itable *t, const struct node_ops *ops, unsigned which)
{
	uint8_t key[ITABLE_KEY_MAX];
	size_t n = fixed_key(key, ops, which, 0);
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = itable_find(t, key, n);
	if (i)
		inode_get(i);
	pthread_mutex_unlock(&t->lock);
	return i;
}

void inode_fixed_renew(struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job)
{
	uint8_t key[ITABLE_KEY_MAX];
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = itable_find(t, key, fixed_key(key, ops, which, job));
	if (i)
		itable_unkey(i);
	pthread_mutex_unlock(&t->lock);
}

struct inode *inode_by_node(struct itable *t, uint64_t node)
{
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	HASH_FIND(by_node, t->numbers, &node, sizeof(node), i);
	if (i)
		inode_get(i);
	pthread_mutex_unlock(&t->lock);
	return i;
}

int inode_all(struct itable *t, struct inode ***all, size_t *n)
{
	struct inode *i, *tmp, **list;
	size_t k = 0;

	pthread_mutex_lock(&t->lock);
	list = calloc(HASH_CNT(by_node, t->numbers) + 1, sizeof(struct inode *));
	HASH_ITER (by_node, t->numbers, i, tmp) {
		if (!list)
			break;
		inode_get(i);
		list[k++] = i;
	}
	pthread_mutex_unlock(&t->lock);
	if (!list)
		return -ENOMEM;
	*all = list;
	*n = k;
	return 0;
}

bool inode_is_known(struct inode *i)
{
	bool known;

	pthread_mutex_lock(&i->table->lock);
	known = i->lookups > 0;
	pthread_mutex_unlock(&i->table->lock);
	return known;
}

struct inode *inode_fixed(struct itable *t, const struct node_ops *ops, unsigned which)
{
	return fixed(t, ops, which, 0, TREE_NONE);
}

struct inode *inode_fixed_job(
	struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job)
{
	return fixed(t, ops, which, job, TREE_NONE);
}

struct inode *inode_tree(struct itable *t, enum tree tree)
{
	return fixed(t, &tree_ops, tree, 0, tree);
}

size_t itable_name_key(uint8_t *key, const struct inode *dir, const char *name)
{
	size_t len = strnlen(name, PROTO_NAME_MAX), n;

	/* The trees' roots have small numbers of their own, so every parent has one. */
	key[0] = 'n';
	n = key_u64(key, 1, dir->node);
	memcpy(key + n, name, len);
	return n + len;
}

static size_t ino_key(uint8_t *key, const struct proto_attr *a)
{
	size_t n;

	key[0] = 'i';
	n = key_u64(key, 1, a->dev);
	n = key_u64(key, n, a->ino);
	n = key_u64(key, n, (uint64_t)a->btime.sec);
	return key_u64(key, n, a->btime.nsec);
}

static bool same_file(const struct inode *i, uint32_t epoch, const struct proto_attr *a)
{
	return i->epoch == epoch && i->dev == a->dev && i->real_ino == a->ino &&
	       i->type == (a->mode & S_IFMT) && i->btime.sec == a->btime.sec &&
	       i->btime.nsec == a->btime.nsec;
}

static uint64_t place_hash(const struct inode *dir, const char *name)
{
	uint64_t h = dir->node;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	return mix(h, 0);
}

/* st_ino: containers of one image have the same devices and inodes. */
static uint64_t number(struct itable *t, uint64_t dev, uint64_t ino)
{
	return mix(mix(table_seed(t), dev), ino);
}

uint64_t inode_listed_ino(struct inode *dir, uint64_t ino)
{
	uint64_t n;

	pthread_mutex_lock(&dir->table->lock);
	n = number(dir->table, dir->dev, ino);
	pthread_mutex_unlock(&dir->table->lock);
	return n;
}

struct inode *inode_found(struct inode *dir, const char *name, uint64_t node, uint32_t epoch,
	const struct proto_attr *a, struct forget *f)
{
	struct itable *t = dir->table;
	bool by_name = S_ISDIR(a->mode) || S_ISLNK(a->mode);
	uint8_t key[ITABLE_KEY_MAX];
	size_t n = by_name ? itable_name_key(key, dir, name) : ino_key(key, a);
	uint64_t at = place_hash(dir, name);
	struct inode *i, *old;

	pthread_mutex_lock(&t->lock);
	old = itable_find(t, key, n);
	if (old && same_file(old, epoch, a)) {
		old->lookups++;
		/* The agent knows a number by its place: one that was found elsewhere (renamed
		 * inside, another link) goes on under the number of the place where it is now. A
		 * directory is where it was, and what is in it is known, and watched, by its
		 * number. */
		if (!by_name && old->at != at) {
			uint64_t was = old->node;

			old->at = at;
			renumber(old, node);
			node = was;
		}
		pthread_mutex_unlock(&t->lock);
		forget_add(f, dir->sb, epoch, node);
		return old;
	}
	if (old)
		itable_unkey(old); /* another file has that name, or number, now */
	i = node_new(t, &tree_ops);
	if (i) {
		i->tree = dir->tree;
		i->node = node;
		i->epoch = epoch;
		i->type = a->mode & S_IFMT;
		i->dev = a->dev;
		i->real_ino = a->ino;
		i->btime = a->btime;
		i->at = at;
		i->ino = number(t, a->dev, a->ino);
		i->lookups = 1;
		i->name = by_name ? strdup(name) : NULL;
		if (by_name) {
			i->parent = dir;
			inode_get(dir);
		}
		if ((by_name && !i->name) || !itable_enter(i, key, n)) {
			pthread_mutex_unlock(&t->lock);
			inode_put(i);
			return NULL;
		}
		renumber(i, node);
	}
	pthread_mutex_unlock(&t->lock);
	if (!i)
		forget_add(f, dir->sb, epoch, node);
	return i;
}
