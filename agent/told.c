/* SPDX-License-Identifier: MIT */
/*
 * What a daemon was told of each file, kept in its node as hashes of a stat, under the session's
 * lock: whoever finds that a file is otherwise now records a change. Any thread.
 */
#include "agent/told.h"

#include "agent/brief.h"
#include "agent/changes.h"
#include "agent/clock.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <time.h>

#define YOUNG_NS 20000000 /* timestamps closer than this may be the same for two changes */
#define MAPPED_S 60	  /* dirty pages of a mapping are clean by then: stores show again */

static bool
	fine_times; /* the kernel gives each change its own timestamp; constant after told_init() */

void told_init(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	fine_times = uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
		     (major > 6 || (major == 6 && minor >= 13));
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	return h ^ (h >> 27);
}

/* What the bytes go with; never 0. */
static uint64_t data_sign(const struct sys_statx *stx)
{
	uint64_t h = mix(mix(mix(1, stx->size), (uint64_t)stx->mtime.sec), stx->mtime.nsec);

	return h ? h : 1;
}

static uint64_t attr_sign(const struct sys_statx *stx)
{
	uint64_t h = mix(data_sign(stx), (uint64_t)stx->ctime.sec);

	h = mix(h, (uint64_t)stx->ctime.nsec << 32 | stx->nlink);
	h = mix(h, (uint64_t)stx->uid << 32 | stx->gid);
	h = mix(h, stx->mode);
	return h ? h : 1;
}

static int64_t age_ns(const struct sys_time *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (now.tv_sec - t->sec) * 1000000000 + now.tv_nsec - t->nsec;
}

/* Could another change have left the same timestamps? */
static bool is_young(const struct sys_statx *stx)
{
	return !fine_times && age_ns(&stx->ctime) < YOUNG_NS;
}

/* Who may search a directory is asked only when a name in it is looked up: not of names that the
 * kernel has. s->lock is held. */
static void see_rights(struct session *s, struct node *n, const struct sys_statx *stx)
{
	uint64_t rights = mix(mix(mix(1, stx->uid), stx->gid), stx->mode);
	uint64_t before = n->rights;
	struct node *child = NULL;

	if (!S_ISDIR(n->type) || rights == before)
		return;
	n->rights = rights;
	while (before && (child = node_next(s, child)))
		if (child->parent == n)
			changes_add(s, PROTO_CHANGE_SIZE, n->num, child->name);
}

/* The daemon may know the file by several numbers, and keep any of them. s->lock is held. */
static void set_told(
	struct session *s, struct node *n, const struct sys_statx *stx, bool own, bool wrote)
{
	uint64_t told = attr_sign(stx), data = data_sign(stx);
	struct node *same = NULL;

	do { /* first n itself, which may be a root */
		see_rights(s, n, stx);
		n->told = told;
		n->told_data = data;
		n->told_size = stx->size;
		if (own)
			n->own_data = data;
		if (wrote)
			n->echo = data;
		n = same = node_by_ino(s, sys_dev(stx), stx->ino, same);
	} while (n);
}

/* The kernel believes a size at open and mmap that it knows to be old: so it must look the name up
 * again. s->lock is held. */
static void expire_name(struct session *s, const struct node *n)
{
	if (n->parent && S_ISREG(n->type))
		changes_add(s, PROTO_CHANGE_SIZE, n->parent->num, n->name);
}

void told_data_changed(struct session *s, struct node *n)
{
	n->told = n->told_data = 0;
	changes_add(s, PROTO_CHANGE_DATA, n->num, NULL);
	expire_name(s, n);
}

/* If the daemon was told something else than this, it will hear so; s->lock is held. Its kernel may
 * have bytes, in a mapping, though it knows that the attributes are old. */
static void compare(struct session *s, struct node *n, const struct sys_statx *stx, bool data_old)
{
	bool young = is_young(stx);

	if (!n->known)
		return;
	see_rights(s, n, stx);
	if (S_ISREG(n->type) && n->told_data &&
		(data_old || young || n->told_data != data_sign(stx))) {
		told_data_changed(s, n);
	} else if (n->told && (young || n->told != attr_sign(stx))) {
		n->told = 0;
		changes_add(s, PROTO_CHANGE_ATTR, n->num, NULL);
		expire_name(s, n); /* it may have more links now: see told_attr */
	}
}

void told_compare(struct session *s, struct node *n, const struct sys_statx *stx)
{
	compare(s, n, stx, false);
}

void told_written(struct session *s, struct node *n, const struct sys_statx *stx)
{
	bool foreign = n->echo != data_sign(stx);

	if (foreign)
		n->own_data = 0;
	compare(s, n, stx, foreign);
}

void told_lost(struct session *s, struct node *n)
{
	struct node *same = NULL;

	while (n) { /* as set_told() */
		if (n->known && n->told) {
			n->told = 0;
			changes_add(s, PROTO_CHANGE_ATTR, n->num, NULL);
		}
		n = same = node_by_ino(s, n->dev, n->ino, same);
	}
}

void told_own_link(const struct pin *of)
{
	pthread_mutex_lock(&of->s->lock);
	expire_name(of->s, of->node);
	pthread_mutex_unlock(&of->s->lock);
}

void told_own_move(const struct pin *dir, const char *name)
{
	struct session *s = dir->s;
	struct node *n = NULL;

	pthread_mutex_lock(&s->lock);
	while ((n = node_by_name(s, dir->node, name, n))) {
		n->told = 0;
		changes_add(s, PROTO_CHANGE_ATTR, n->num, NULL);
	}
	changes_add(s, PROTO_CHANGE_SIZE, dir->node->num, name);
	pthread_mutex_unlock(&s->lock);
}

void told_hide(struct session *s, const struct node *dir, const char *name)
{
	struct node *n = NULL;

	while ((n = node_by_name(s, dir, name, n)))
		n->hidden = true;
}

void told_none(const struct pin *dir, const char *name)
{
	pthread_mutex_lock(&dir->s->lock);
	told_hide(dir->s, dir->node, name);
	pthread_mutex_unlock(&dir->s->lock);
}

/* The daemon knows that n's name means n's file, by whatever number. s->lock is held. */
static void show(struct session *s, const struct node *n)
{
	struct node *same = NULL;

	while (n->parent && (same = node_by_name(s, n->parent, n->name, same)))
		same->hidden = same->ino != n->ino || same->dev != n->dev;
}

void told_attr(
	struct session *s, uint64_t num, const struct sys_statx *stx, struct proto_attr *attr)
{
	struct node *n;

	attr->cache = 0;
	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (n) {
		bool within = n->parent && n->parent->wd;
		/* The daemon knows a link by its name, so one with two names as two nodes, of which
		 * its kernel changes one at a time. */
		bool alone = S_ISDIR(stx->mode) || stx->nlink == 1;

		set_told(s, n, stx, false, false);
		show(s, n);
		/* Of several names the agent knows one, and could not expire the others. */
		if (within && (!S_ISREG(stx->mode) || stx->nlink == 1))
			attr->cache |= PROTO_CACHE_NAME;
		/* Without a watch of its own a file could be changed by a name that it is given in
		 * a directory without one. */
		if (n->wd && alone && (S_ISDIR(stx->mode) || within))
			attr->cache |= PROTO_CACHE_ATTR;
		else if (alone && brief_may(s, n))
			attr->cache |= PROTO_CACHE_BRIEF;
	}
	pthread_mutex_unlock(&s->lock);
}

void told_read(struct session *s, struct node *n, int fd)
{
	struct sys_statx stx;
	bool known;

	pthread_mutex_lock(&s->lock);
	known = n->told_data != 0;
	pthread_mutex_unlock(&s->lock);
	if (known || sys_statx(fd, "", &stx) < 0)
		return;
	pthread_mutex_lock(&s->lock);
	if (!n->told_data)
		set_told(s, n, &stx, false, false);
	pthread_mutex_unlock(&s->lock);
}

void told_own_begin(struct session *s, struct node *n, const struct sys_statx *stx)
{
	pthread_mutex_lock(&s->lock);
	if (stx && !n->writing)
		told_compare(s, n, stx);
	n->writing++;
	pthread_mutex_unlock(&s->lock);
}

void told_own_end(struct session *s, struct node *n, const struct sys_statx *stx, bool wrote)
{
	bool own;

	pthread_mutex_lock(&s->lock);
	n->writing--;
	/* Times that are set by hand say nothing of whose the bytes are: that stays. */
	own = wrote || (n->own_data && n->own_data == n->told_data);
	if (stx)
		set_told(s, n, stx, own, wrote);
	pthread_mutex_unlock(&s->lock);
}

void told_own_names(const struct pin *dir)
{
	pthread_mutex_lock(&dir->s->lock);
	dir->node->told = 0;
	pthread_mutex_unlock(&dir->s->lock);
}

bool told_size_is_old(struct session *s, struct node *n, int fd)
{
	struct sys_statx stx;
	bool again;

	if (sys_statx(fd, "", &stx) < 0)
		return false;
	pthread_mutex_lock(&s->lock);
	again = !n->reopened && !n->writing && n->told_size != stx.size;
	n->reopened = again;
	pthread_mutex_unlock(&s->lock);
	return again;
}

bool told_keeps(struct session *s, struct node *n, int fd)
{
	struct sys_statx stx;
	struct statfs fs;
	bool keep;

	if (sys_statx(fd, "", &stx) < 0)
		return false;
	pthread_mutex_lock(&s->lock);
	told_compare(s, n, &stx);
	keep = n->own_data == data_sign(&stx);
	if (!keep)
		keep = !n->foreign_ms || clock_ms() - n->foreign_ms > MAPPED_S * 1000;
	else
		fd = -1; /* our own write was the last */
	pthread_mutex_unlock(&s->lock);
	if (!keep || is_young(&stx))
		return false;
	if (fd < 0)
		return true;
	/* A mapping of a tmpfs file never shows in its times. */
	return age_ns(&stx.mtime) > MAPPED_S * INT64_C(1000000000) && fstatfs(fd, &fs) == 0 &&
	       (unsigned long)fs.f_type != 0x01021994ul;
}
