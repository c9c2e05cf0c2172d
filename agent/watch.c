/* SPDX-License-Identifier: MIT */
/*
 * Events are read on the loop's thread only. What a node was told lies in the node, under its
 * session's lock. Order: a session's lock, then that of the watches, then the list of sessions'.
 */
#include "agent/watch.h"

#include "agent/brief.h"
#include "agent/changes.h"
#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/handles.h"
#include "agent/loop.h"
#include "agent/pipe.h"
#include "agent/told.h"
#include "agent/watches.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define NAMES	     (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define EVENTS	     (NAMES | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_EXCL_UNLINK | IN_ONLYDIR)
#define BUFFER	     (32u << 10)
#define CLOSED_MAX   4096 /* files closed after writing, kept until the next barrier */
#define WHO_MAX	     72	  /* numbers for one file that an event is looked at for */
#define EXPECTED_MAX 512  /* own operations whose events have not been read */
#define SEEN_MAX     4

struct expected {
	int wd;
	uint32_t mask;
	char name[PROTO_NAME_MAX + 1];
};

static struct source source = {.fd = -1}; /* the inotify descriptor; constant after watch_init() */
static struct expected expected[EXPECTED_MAX]; /* the loop's, as the next */
static unsigned n_expected;

/* --- the watches --------------------------------------------------------------------------------
 */

/* Where inotify says all: file systems that only this kernel changes. */
static bool is_local(int fd)
{
	static const uint32_t known[] = {0xef53 /* ext */, 0x58465342 /* xfs */,
		0x9123683e /* btrfs */, 0x794c7630 /* overlay */, 0x01021994 /* tmpfs */,
		0xf2f52010 /* f2fs */, 0x2fc12fc1 /* zfs */, 0xca451a4e /* bcachefs */,
		0x858458f6 /* ramfs */};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((uint32_t)fs.f_type == known[i])
			return true;
	return false;
}

bool watch_sees(const struct pin *dir)
{
	bool sees;

	pthread_mutex_lock(&dir->s->lock);
	sees = dir->node->wd != 0;
	pthread_mutex_unlock(&dir->s->lock);
	return sees;
}

void watch_dir(const struct pin *dir)
{
	struct session *s = dir->s;
	uint64_t num = dir->node->num;
	int wd;

	creds_own();
	if (watch_sees(dir) || source.fd < 0 || !is_local(dir->fd))
		return;
	wd = watches_add(dir->fd, "", EVENTS, s, num);
	if (!wd && watch_make_room(s)) /* nothing in it can be kept without its watch */
		wd = watches_add(dir->fd, "", EVENTS, s, num);
	if (!wd)
		return;
	pthread_mutex_lock(&s->lock);
	if (dir->node->wd || !dir->node->known) /* somebody was quicker; or forgotten */
		watches_leave(wd, s, num);
	else
		dir->node->wd = wd;
	pthread_mutex_unlock(&s->lock);
}

/* --- events -------------------------------------------------------------------------------------
 */

static void expect(int wd, uint32_t mask, const char *name)
{
	struct expected *e = &expected[n_expected];

	if (!wd || n_expected == EXPECTED_MAX)
		return; /* then it is told: no harm */
	e->wd = wd;
	e->mask = mask;
	snprintf(e->name, sizeof(e->name), "%s", name);
	n_expected++;
}

void watch_expect_removed(const struct pin *dir, const char *name, bool moved)
{
	int wd;

	pthread_mutex_lock(&dir->s->lock);
	wd = dir->node->wd;
	pthread_mutex_unlock(&dir->s->lock);
	expect(wd, moved ? IN_MOVED_FROM : IN_DELETE, name);
}

void watch_expect_closed(struct session *s, struct node *n)
{
	pthread_mutex_lock(&s->lock);
	if (n->parent)
		expect(n->parent->wd, IN_CLOSE_WRITE, n->name);
	if (n->wd)
		expect(n->wd, IN_CLOSE_WRITE, "");
	pthread_mutex_unlock(&s->lock);
}

static bool was_expected(int wd, uint32_t mask, const char *name)
{
	for (unsigned i = 0; i < n_expected; i++) {
		struct expected *e = &expected[i];

		if (e->wd == wd && e->mask & mask && strcmp(e->name, name) == 0) {
			e->mask = 0;
			return true;
		}
	}
	return false;
}

struct happened {
	struct session *s;
	struct pin dir;
	const char *name;
	uint32_t mask;
	bool echo;  /* of an operation by the daemon of some session: of this one, or it may be */
	bool there; /* stx is of what has that name now */
	struct sys_statx stx;
};

/* A file that others closed after writing; s->lock is held. */
static void note_closed(struct session *s, struct node *n)
{
	uint64_t *more;

	n->foreign_ms = clock_ms();
	n->own_data = 0;
	if (n->closed)
		return;
	if (s->n_closed == CLOSED_MAX) {
		s->closed_all = true;
		return;
	}
	if (s->n_closed % 64 == 0) {
		more = realloc(s->closed, (s->n_closed + 64) * sizeof(*more));
		if (!more) {
			s->closed_all = true;
			return;
		}
		s->closed = more;
	}
	s->closed[s->n_closed++] = n->num;
	n->closed = true;
}

/* Something was done to the file of that name: all nodes that are this file. s->lock is held. */
static void file_event(struct happened *h)
{
	uint64_t dev = sys_dev(&h->stx);
	struct node *n;

	if (!h->there)
		return; /* it has been removed since, and that is an event too */
	for (n = node_by_ino(h->s, dev, h->stx.ino, NULL); n;
		n = node_by_ino(h->s, dev, h->stx.ino, n)) {
		if (n->writing || !n->known)
			continue; /* the end of our own write looks */
		if (h->mask & IN_CLOSE_WRITE && !h->echo)
			note_closed(h->s, n);
		if (h->mask & IN_MODIFY)
			told_written(h->s, n, &h->stx);
		else
			told_compare(h->s, n, &h->stx);
	}
}

/* It was changed, and cannot be looked at: it has another name now. s->lock is held. */
static void file_elsewhere(const struct happened *h, const struct node *of)
{
	struct node *n = NULL;

	while ((n = node_by_ino(h->s, of->dev, of->ino, n))) {
		if (!n->known)
			continue;
		if (h->mask & IN_CLOSE_WRITE && !h->echo)
			note_closed(h->s, n);
		if (n->told_data)
			told_data_changed(h->s, n);
	}
}

static bool is_file(const struct node *n, const struct sys_statx *stx)
{
	return n->ino == stx->ino && n->dev == sys_dev(stx) && n->born.sec == stx->btime.sec &&
	       n->born.nsec == stx->btime.nsec;
}

/* A name came or went. s->lock is held. */
static void name_event(struct happened *h)
{
	struct node *dir = h->dir.node, *n = node_by_name(h->s, dir, h->name, NULL);
	bool known = false;

	if (h->there)
		file_event(h); /* one link more, perhaps */
	for (; n; n = node_by_name(h->s, dir, h->name, n)) {
		if (h->there && !n->hidden && is_file(n, &h->stx))
			known = true; /* the daemon knows what is there */
		else if (n->told && !h->echo) {
			n->told = 0; /* one link less */
			changes_add(h->s, PROTO_CHANGE_ATTR, n->num, NULL);
		}
	}
	if (!known && !h->echo)
		changes_add(h->s, PROTO_CHANGE_NAME, dir->num, h->name);
	if (!known)
		told_hide(h->s, dir, h->name);
}

static void self_event(struct happened *h)
{
	struct sys_statx stx;

	if (sys_statx(h->dir.fd, "", &stx) < 0)
		return;
	pthread_mutex_lock(&h->s->lock);
	told_compare(h->s, h->dir.node, &stx);
	pthread_mutex_unlock(&h->s->lock);
}

/* A watch has ended by itself: the file is gone, or its file system. */
static void forget_watch(struct session *s, uint64_t num, int wd)
{
	struct node *n;

	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (n && n->wd == wd) {
		watch_lost(s, n);
		told_lost(s, n);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Something was done to a file that is watched by itself, by whatever name. */
static void event_of_file(struct happened *e, const struct pin *of)
{
	struct session *s = e->s;
	struct node *n = of->node;
	auto_handle struct handle *h = handle_of(s, n);
	auto_unpin struct pin parent = PIN_NONE;
	char name[PROTO_NAME_MAX + 1] = "";

	if (!h) {
		pthread_mutex_lock(&s->lock);
		snprintf(name, sizeof(name), "%s", n->name);
		pthread_mutex_unlock(&s->lock);
	}
	e->there = (h || pin_parent(of, &parent) == 0) &&
		   sys_statx(h ? h->fd : parent.fd, name, &e->stx) == 0 && e->stx.ino == n->ino &&
		   sys_dev(&e->stx) == n->dev;
	pthread_mutex_lock(&s->lock);
	if (e->there)
		file_event(e);
	else
		file_elsewhere(e, n);
	pthread_mutex_unlock(&s->lock);
}

static void tell_session(struct session *s, uint64_t num, const struct inotify_event *ev, bool echo)
{
	struct happened h = {.s = s,
		.dir = PIN_NONE,
		.name = ev->len ? ev->name : "",
		.mask = ev->mask,
		.echo = echo};

	creds_own();
	if (ev->mask & IN_IGNORED) {
		forget_watch(s, num, ev->wd);
		return;
	}
	if (pin_node(s, num, &h.dir) < 0)
		return;
	if (!S_ISDIR(h.dir.node->type)) {
		event_of_file(&h, &h.dir);
		unpin(&h.dir);
		return;
	}
	unpin(&h.dir);
	if (pin_open(s, num, &h.dir) < 0) {
		unpin(&h.dir);
		return;
	}
	if (*h.name) {
		h.there = sys_statx(h.dir.fd, h.name, &h.stx) == 0;
		pthread_mutex_lock(&s->lock);
		if (ev->mask & NAMES)
			name_event(&h);
		else
			file_event(&h);
		pthread_mutex_unlock(&s->lock);
	}
	if (!*h.name || ev->mask & NAMES)
		self_event(&h);
	unpin(&h.dir);
}

static void all_sessions(struct session *s, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&s->lock);
	changes_add(s, PROTO_CHANGE_ALL, 0, NULL);
	nodes_untell(s);
	pthread_mutex_unlock(&s->lock);
}

static void one_event(const struct inotify_event *ev)
{
	struct watcher who[WHO_MAX];
	bool echo, more;
	unsigned n = watches_who(ev->wd, ev->mask & IN_IGNORED, who, WHO_MAX, &more);

	/* With several daemons it is not known whose operation it was: the others must hear. */
	echo = was_expected(ev->wd, ev->mask, ev->len ? ev->name : "") && n == 1;
	for (unsigned i = 0; i < n; i++) {
		tell_session(who[i].s, who[i].num, ev, echo);
		session_put(who[i].s);
	}
	if (more || ev->mask & IN_Q_OVERFLOW) /* who else there is hears it so */
		sessions_each(all_sessions, NULL);
}

static void flush_session(struct session *s, void *arg)
{
	(void)arg;
	changes_flush(s);
}

/* Was the same file changed before, among the events of one read? All of them had happened when it
 * returned, and it was looked at since. Not across a name that came or went. */
static bool is_again(const struct inotify_event *ev, struct expected seen[SEEN_MAX], unsigned *n)
{
	const char *name = ev->len ? ev->name : "";
	struct expected *e = &seen[*n % SEEN_MAX];

	if (ev->mask != IN_MODIFY) {
		if (ev->mask != IN_CLOSE_WRITE)
			*n = 0;
		return false;
	}
	for (unsigned i = 0; i < *n && i < SEEN_MAX; i++)
		if (seen[i].wd == ev->wd && strcmp(seen[i].name, name) == 0)
			return true;
	e->wd = ev->wd;
	snprintf(e->name, sizeof(e->name), "%s", name);
	++*n;
	return false;
}

static void drain(void)
{
	static struct expected seen[SEEN_MAX]; /* the loop's */
	unsigned n_seen = 0;
	_Alignas(struct inotify_event) char data[BUFFER];
	const struct inotify_event *ev;
	size_t left = pipe_waiting(source.fd);
	ssize_t n;

	/* What is there now, and no more: a busy writer makes events as fast as they are read. */
	while (left && (n = read(source.fd, data, sizeof(data))) > 0) {
		left -= (size_t)n < left ? (size_t)n : left;
		n_seen = 0; /* what was looked at may have been changed since: before this read */
		for (char *p = data; p < data + n; p += sizeof(*ev) + ev->len) {
			ev = (const void *)p;
			if (!is_again(ev, seen, &n_seen))
				one_event(ev);
		}
	}
	n_expected = 0; /* an operation's event is there when the operation returns */
}

void watch_drain(void)
{
	if (source.fd < 0)
		return;
	drain();
	sessions_each(flush_session, NULL);
}

static void report_closed(struct session *s, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->n_closed; i++) {
		struct node *n = node_by_num(s, s->closed[i]);

		if (!n)
			continue;
		n->closed = false;
		told_data_changed(s, n);
	}
	if (s->closed_all)
		changes_add(s, PROTO_CHANGE_ALL, 0, NULL);
	free(s->closed);
	s->closed = NULL;
	s->n_closed = 0;
	s->closed_all = false;
	pthread_mutex_unlock(&s->lock);
}

void watch_barrier(void)
{
	if (source.fd >= 0)
		drain();
	sessions_each(report_closed, NULL);
	sessions_each(brief_end, NULL);
	sessions_each(flush_session, NULL);
}

static void on_events(struct source *src, uint32_t events)
{
	(void)src;
	(void)events;
	watch_drain();
}

void watch_init(void)
{
	told_init();
	source.fd = watches_init();
	source.ready = on_events;
	if (source.fd >= 0 && loop_add(&source, EPOLLIN) == 0)
		return;
	log_warn("no inotify: nothing is cached on the host (%s)", strerror(errno));
	if (source.fd >= 0)
		watches_fini();
	source.fd = -1;
}
