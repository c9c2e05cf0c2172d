/* SPDX-License-Identifier: MIT */
/*
 * Where a directory or symlink is for the host's kernel: what decides which texts of links may
 * pass. The table follows the kernel, and where it cannot know whether the kernel is as far, or
 * ever will be, it says so: see "Where a link is" in docs/daemon.md. The table's lock guards all
 * of it.
 */
#include "fs/itable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* With the lock held. A parent chain ends at a tree's root; should one ever lead in a circle, the
 * path is too long in the end. */
static int place_of(const struct inode *i, struct place *p)
{
	size_t at = sizeof(p->path) - 1;
	unsigned n = 0, least = UINT32_MAX;

	p->sure = true;
	p->path[at] = 0;
	for (; i->parent; i = i->parent, n++) {
		size_t len = strlen(i->name);

		if (len + 1 > at)
			return -ENAMETOOLONG;
		at -= len;
		memcpy(p->path + at, i->name, len);
		p->path[--at] = '/';
		if (!i->key) { /* it may be anywhere */
			least = 0;
			p->sure = false;
		} else if (i->unsettled) {
			least = n + i->floor < least ? n + i->floor : least;
			p->sure = false;
		}
	}
	memmove(p->path, p->path + at, sizeof(p->path) - at);
	p->tree = i->tree;
	p->depth = n;
	p->least = n < least ? n : least;
	return 0;
}

int inode_place(struct inode *i, struct place *p)
{
	int r;

	pthread_mutex_lock(&i->table->lock);
	r = place_of(i, p);
	pthread_mutex_unlock(&i->table->lock);
	return r;
}

int inode_link_place(struct inode *link, struct place *p)
{
	int r = -ESTALE;

	pthread_mutex_lock(&link->table->lock);
	if (link->parent)
		r = place_of(link->parent, p);
	if (r == 0 && !link->key) {
		p->least = 0;
		p->sure = false;
	}
	pthread_mutex_unlock(&link->table->lock);
	return r;
}

/* With the lock held. The old parent, whose reference is the caller's now; NULL: nothing moved, and
 * the kernel's node lives on, unfindable; the next lookup makes another. */
static struct inode *rekey(struct inode *i, struct inode *to, const char *new_name)
{
	struct inode *was = i->parent;
	uint8_t key[ITABLE_KEY_MAX];
	char *name;

	itable_unkey(i);
	/* Somebody may be about to follow the link from where it was. */
	if (S_ISLNK(i->type) && was != to)
		return NULL;
	name = strdup(new_name);
	if (!name || !itable_enter(i, key, itable_name_key(key, to, new_name))) {
		free(name);
		return NULL;
	}
	free(i->name);
	i->name = name;
	i->parent = to;
	inode_get(to);
	return was;
}

/* With the lock held: of the depths of before and after, the kernel has the one or the other. True:
 * somebody has to say when it has the second. */
static bool unsettle(struct inode *i, unsigned before)
{
	struct place now;

	if (!S_ISDIR(i->type) || !i->key || place_of(i, &now) < 0 || before >= now.least)
		return false;
	if (!i->unsettled || before < i->floor)
		i->floor = before;
	i->unsettled++;
	inode_get(i);
	return true;
}

static unsigned least_of(const struct inode *i)
{
	struct place p;

	return i && place_of(i, &p) == 0 ? p.least : 0;
}

void inode_moved(struct inode *dir, const char *name, struct inode *to, const char *new_name,
	bool exchange, struct inode *unsettled[2])
{
	struct itable *t = dir->table;
	struct inode *i, *other, *was = NULL, *was_other = NULL;
	uint8_t key[ITABLE_KEY_MAX];
	unsigned before, before_other;

	unsettled[0] = unsettled[1] = NULL;
	pthread_mutex_lock(&t->lock);
	i = itable_find(t, key, itable_name_key(key, dir, name));
	other = itable_find(t, key, itable_name_key(key, to, new_name));
	if (i != other) {
		before = least_of(i);
		before_other = least_of(other);
		if (other)
			itable_unkey(other);
		if (i)
			was = rekey(i, to, new_name);
		if (other && exchange)
			was_other = rekey(other, dir, name);
		if (was && unsettle(i, before))
			unsettled[0] = i;
		if (was_other && unsettle(other, before_other))
			unsettled[1] = other;
	}
	pthread_mutex_unlock(&t->lock);
	inode_put(was);
	inode_put(was_other);
}

void inode_settled(struct inode *i)
{
	pthread_mutex_lock(&i->table->lock);
	if (i->unsettled)
		i->unsettled--;
	pthread_mutex_unlock(&i->table->lock);
}

void inode_removed(struct inode *dir, const char *name)
{
	struct itable *t = dir->table;
	uint8_t key[ITABLE_KEY_MAX];
	struct inode *i;

	pthread_mutex_lock(&t->lock);
	i = itable_find(t, key, itable_name_key(key, dir, name));
	if (i)
		itable_unkey(i);
	pthread_mutex_unlock(&t->lock);
}

struct inode *inode_parent(struct inode *i)
{
	struct inode *parent;

	pthread_mutex_lock(&i->table->lock);
	parent = i->parent;
	if (parent)
		inode_get(parent);
	pthread_mutex_unlock(&i->table->lock);
	return parent;
}
