/* SPDX-License-Identifier: MIT */
/*
 * Files and links that are watched by themselves; a session's list of them, by age, is under its
 * lock. Directories come first: a file gives its watch up for one. The attributes of others are not
 * to be kept: they may get a name in a directory that is not watched, and be changed through that,
 * unheard. Any thread.
 *
 * A daemon may ask for one file by several numbers, and drop all but one when it has the answer.
 * The watch goes along: to the newest when that is told, and to one of the others when its holder
 * goes.
 */
#include "agent/watch.h"

#include "agent/creds.h"
#include "agent/told.h"
#include "agent/watches.h"

#include <sys/inotify.h>
#include <sys/stat.h>

#define FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE)
#define AGAIN_EVERY 8	/* of those that are asked for again when no watch is left: see may_have */
#define TRIES	    64u /* files that are open and in the way of a new one */

/* --- the list: s->lock is held ------------------------------------------------------------------
 */

static void unlist(struct session *s, struct node *n)
{
	*(n->watched_before ? &n->watched_before->watched_after : &s->watched_first) =
		n->watched_after;
	*(n->watched_after ? &n->watched_after->watched_before : &s->watched_last) =
		n->watched_before;
	n->watched_before = n->watched_after = NULL;
}

static void enlist(struct session *s, struct node *n)
{
	n->watched_before = s->watched_last;
	*(s->watched_last ? &s->watched_last->watched_after : &s->watched_first) = n;
	s->watched_last = n;
}

void watch_lost(struct session *s, struct node *n)
{
	n->wd = 0;
	if (!S_ISDIR(n->type))
		unlist(s, n);
}

static bool same_file(const struct node *a, const struct node *b)
{
	return a->born.sec == b->born.sec && a->born.nsec == b->born.nsec;
}

/* Another node of the same file, with a watch or without. */
static struct node *other(struct session *s, const struct node *n, bool watched)
{
	struct node *m = NULL;

	while ((m = node_by_ino(s, n->dev, n->ino, m)))
		if (m != n && m->known && !m->wd == !watched && same_file(m, n))
			return m;
	return NULL;
}

static void pass_on(struct session *s, struct node *from, struct node *to)
{
	watches_pass(from->wd, s, from->num, to->num);
	to->wd = from->wd;
	watch_lost(s, from);
	enlist(s, to);
}

void watch_forget(struct session *s, struct node *n)
{
	struct node *heir;

	if (!n->wd)
		return;
	heir = S_ISDIR(n->type) ? NULL : other(s, n, false);
	if (heir) {
		pass_on(s, n, heir);
		return;
	}
	watches_leave(n->wd, s, n->num);
	watch_lost(s, n);
}

static bool is_open(struct session *s, const struct node *n)
{
	struct node *m = NULL;

	while ((m = node_by_ino(s, n->dev, n->ino, m)))
		if (m->handles)
			return true;
	return false;
}

/* Takes the watch of the oldest one that is not open: of an open file bytes may be mapped, which
 * nobody asks for again. */
static bool take_one(struct session *s)
{
	for (unsigned i = 0; i < TRIES && s->watched_first; i++) {
		struct node *n = s->watched_first;

		if (is_open(s, n)) {
			unlist(s, n);
			enlist(s, n);
			continue;
		}
		watches_leave(n->wd, s, n->num);
		watch_lost(s, n);
		told_lost(s, n);
		return true;
	}
	return false;
}

static void make_room(struct session *s, void *arg)
{
	bool *made = arg;

	if (*made)
		return;
	pthread_mutex_lock(&s->lock);
	*made = take_one(s);
	pthread_mutex_unlock(&s->lock);
}

bool watch_make_room(struct session *s)
{
	bool made = false;

	make_room(s, &made);
	sessions_each(make_room, &made); /* or another's */
	return made;
}

/* --- a file -------------------------------------------------------------------------------------
 */

/* May it take another's watch, if there is no room? A walk through more files than can be watched
 * would have each take one that is given up again before the walk comes back to it: so what is seen
 * takes none, and what is asked for again only now and then. */
static bool may_have(struct session *s, enum watch_why why)
{
	return !watches_are_out() || why == WATCH_OPENED ||
	       (why == WATCH_AGAIN && s->asked_again++ % AGAIN_EVERY == 0);
}

/* Whether it has one now that was another number's; or is to get one: *wanted. */
static bool has_one(struct session *s, uint64_t num, enum watch_why why, bool *wanted)
{
	struct node *n, *holder = NULL;

	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	*wanted = n && !n->wd && n->parent && n->parent->wd;
	/* Without a time of birth it might be the number of one that is gone. */
	if (*wanted && (n->born.sec || n->born.nsec))
		holder = other(s, n, true);
	if (holder)
		pass_on(s, holder, n);
	else
		*wanted = *wanted && may_have(s, why);
	pthread_mutex_unlock(&s->lock);
	return holder != NULL;
}

static int add(struct session *s, uint64_t num, int dirfd, const char *name, enum watch_why why)
{
	uint32_t events = FILE_EVENTS | (*name ? IN_DONT_FOLLOW : 0);
	int wd;

	creds_own();
	wd = watches_add(dirfd, name, events, s, num);
	if (!wd && why != WATCH_SEEN && watch_make_room(s))
		wd = watches_add(dirfd, name, events, s, num);
	return wd;
}

/* The watch is there; is it the right file's? */
static void keep(struct session *s, uint64_t num, int wd, bool right)
{
	struct node *n;

	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (right && n && !n->wd) {
		n->wd = wd;
		enlist(s, n);
	} else {
		watches_leave(wd, s, num);
	}
	pthread_mutex_unlock(&s->lock);
}

void watch_file(struct session *s, uint64_t num, int dirfd, const char *name, struct sys_statx *stx,
	enum watch_why why)
{
	struct sys_statx now;
	bool wanted, right, had;
	int wd = 0;

	if (S_ISDIR(stx->mode))
		return;
	had = has_one(s, num, why, &wanted);
	if (!had && wanted)
		wd = add(s, num, dirfd, name, why);
	if (!had && !wd)
		return;
	/* From now on nothing is missed. */
	right = sys_statx(dirfd, name, &now) == 0 && now.ino == stx->ino &&
		sys_dev(&now) == sys_dev(stx);
	if (right)
		*stx = now;
	if (wd)
		keep(s, num, wd, right);
}
