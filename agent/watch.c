/* SPDX-License-Identifier: MIT */
/*
 * One inotify instance for all sessions. Events are read on the loop's thread only. `lock` guards
 * the table of watches; order: a session's lock, then `lock`, then the list of sessions'. What a
 * node was told lies in the node, under its session's lock.
 */
#include "agent/watch.h"

#include "agent/changes.h"
#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/handles.h"
#include "agent/loop.h"
#include "agent/pipe.h"
#include "agent/told.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define NAMES	     (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define EVENTS	     (NAMES | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_EXCL_UNLINK | IN_ONLYDIR)
#define FILE_EVENTS  (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DONT_FOLLOW)
#define FILES_MAX    4096u /* of a session, watched by themselves */
#define BUFFER	     (32u << 10)
#define LIMIT_FILE   "/proc/sys/fs/inotify/max_user_watches"
#define WATCHES_MAX  16384u
#define SHARE	     8	  /* of what the machine allows all its containers together */
#define CLOSED_MAX   4096 /* files closed after writing, kept until the next barrier */
#define WHO_MAX	     72	  /* numbers for one file that an event is looked at for */
#define EXPECTED_MAX 512  /* own operations whose events have not been read */
#define SEEN_MAX     4

/* Who wants to know of a directory. */
struct watcher {
	struct watcher *next;
	struct session *s;
	uint64_t num;
};

struct watched {
	struct link by_wd;
	struct watcher *list;
};

struct expected {
	int wd;
	uint32_t mask;
	char name[PROTO_NAME_MAX + 1];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table watches; /* by wd; protected by lock, as the next */
static unsigned n_watches;
static unsigned max_watches;		       /* constant after watch_init(), as the next */
static struct source source = {.fd = -1};      /* the inotify descriptor */
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

static struct watched *find(int wd)
{
	struct link *l = table_find(&watches, (uint64_t)wd);

	return l ? link_of(l, struct watched, by_wd) : NULL;
}

/* Lock held. */
static void remove_watched(struct watched *w)
{
	table_del(&watches, &w->by_wd);
	n_watches--;
	free(w);
}

/* Adds the watcher to what inotify calls wd; lock held. False: no memory. */
static bool enter(int wd, struct watcher *r)
{
	struct watched *w = find(wd);

	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w || table_add(&watches, &w->by_wd, (uint64_t)wd) < 0) {
			free(w);
			return false;
		}
		n_watches++;
	}
	r->next = w->list;
	w->list = r;
	return true;
}

/* Takes one watcher out, and the watch with the last; lock held. */
static void leave(int wd, struct session *s, uint64_t num)
{
	struct watched *w = find(wd);
	struct watcher **at, *r;

	for (at = w ? &w->list : NULL; at && (r = *at); at = &r->next) {
		if (r->s != s || r->num != num)
			continue;
		*at = r->next;
		free(r);
		break;
	}
	if (w && !w->list) {
		remove_watched(w);
		inotify_rm_watch(source.fd, wd);
	}
}

/* The wd, or 0. Lock held: a watch that is being removed must not be the one that is added. */
static int add_watch(int dirfd, const char *name, uint32_t events, struct watcher *r)
{
	char path[48 + PROTO_NAME_MAX];
	int wd;

	if (n_watches >= max_watches)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d%s%s", dirfd, *name ? "/" : "", name);
	wd = inotify_add_watch(source.fd, path, events);
	if (wd <= 0)
		return 0;
	if (enter(wd, r))
		return wd;
	if (!find(wd))
		inotify_rm_watch(source.fd, wd);
	return 0;
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
	struct watcher *r;
	int wd;

	creds_own();
	pthread_mutex_lock(&s->lock);
	wd = dir->node->wd;
	pthread_mutex_unlock(&s->lock);
	if (wd || source.fd < 0 || !is_local(dir->fd))
		return;
	r = malloc(sizeof(*r));
	if (!r)
		return;
	*r = (struct watcher){.s = s, .num = dir->node->num};
	pthread_mutex_lock(&lock);
	wd = add_watch(dir->fd, "", EVENTS, r);
	pthread_mutex_unlock(&lock);
	if (!wd) {
		free(r);
		return;
	}
	pthread_mutex_lock(&s->lock);
	if (dir->node->wd || !dir->node->known) { /* somebody was quicker; or forgotten */
		pthread_mutex_lock(&lock);
		leave(wd, s, dir->node->num);
		pthread_mutex_unlock(&lock);
	} else {
		dir->node->wd = wd;
	}
	pthread_mutex_unlock(&s->lock);
}

/* Takes a file out of the list of those with a watch; s->lock is held. */
static void unlist(struct session *s, struct node *n)
{
	*(n->watched_before ? &n->watched_before->watched_after : &s->watched_first) =
		n->watched_after;
	*(n->watched_after ? &n->watched_after->watched_before : &s->watched_last) =
		n->watched_before;
	n->watched_before = n->watched_after = NULL;
	s->n_watched--;
}

/* The watch is gone, or goes now; s->lock is held. */
static void unwatch(struct session *s, struct node *n, bool gone)
{
	if (!n->wd)
		return;
	if (!gone) {
		pthread_mutex_lock(&lock);
		leave(n->wd, s, n->num);
		pthread_mutex_unlock(&lock);
	}
	n->wd = 0;
	if (!S_ISDIR(n->type))
		unlist(s, n);
}

void watch_forget(struct session *s, struct node *n)
{
	unwatch(s, n, false);
}

/* s->lock is held, n has none. */
static void list_file(struct session *s, struct node *n, int wd)
{
	n->wd = wd;
	n->watched_before = s->watched_last;
	*(s->watched_last ? &s->watched_last->watched_after : &s->watched_first) = n;
	s->watched_last = n;
	if (++s->n_watched > FILES_MAX)
		unwatch(s, s->watched_first, false);
}

void watch_file(struct session *s, uint64_t num, int dirfd, const char *name, struct sys_statx *stx)
{
	struct sys_statx now;
	struct watcher *r;
	struct node *n;
	bool wanted, same;
	int wd;

	if (source.fd < 0 || !(S_ISREG(stx->mode) || S_ISLNK(stx->mode)))
		return;
	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	wanted = n && !n->wd && n->parent && n->parent->wd;
	pthread_mutex_unlock(&s->lock);
	r = wanted ? malloc(sizeof(*r)) : NULL;
	if (!r)
		return;
	*r = (struct watcher){.s = s, .num = num};
	creds_own();
	pthread_mutex_lock(&lock);
	wd = add_watch(dirfd, name, FILE_EVENTS, r);
	pthread_mutex_unlock(&lock);
	if (!wd) {
		free(r);
		return;
	}
	/* From now on nothing is missed; if it is the right one. */
	same = sys_statx(dirfd, name, &now) == 0 && now.ino == stx->ino &&
	       sys_dev(&now) == sys_dev(stx);
	if (same)
		*stx = now;
	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (same && n && !n->wd) {
		list_file(s, n, wd);
	} else {
		pthread_mutex_lock(&lock);
		leave(wd, s, num);
		pthread_mutex_unlock(&lock);
	}
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
		told_compare(h->s, n, &h->stx);
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
		unwatch(s, n, true);
		n->told = 0;
		changes_add(s, PROTO_CHANGE_ATTR, num, NULL);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Something was done to a file that is watched by itself, by whatever name. */
static void event_of_file(struct session *s, const struct pin *of, bool closed)
{
	struct node *n = of->node;
	auto_handle struct handle *h = handle_of(s, n);
	auto_unpin struct pin parent = PIN_NONE;
	char name[PROTO_NAME_MAX + 1] = "";
	struct sys_statx stx;
	bool there;

	if (!h) {
		pthread_mutex_lock(&s->lock);
		snprintf(name, sizeof(name), "%s", n->name);
		pthread_mutex_unlock(&s->lock);
	}
	there = (h || pin_parent(of, &parent) == 0) &&
		sys_statx(h ? h->fd : parent.fd, name, &stx) == 0 && stx.ino == n->ino &&
		sys_dev(&stx) == n->dev;
	pthread_mutex_lock(&s->lock);
	if (closed && n->known)
		note_closed(s, n);
	if (there && !n->writing) {
		told_compare(s, n, &stx);
	} else if (!there && n->told_data) { /* it is elsewhere now */
		told_data_changed(s, n);
	}
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
		event_of_file(s, &h.dir, ev->mask & IN_CLOSE_WRITE && !echo);
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
	struct watcher who[WHO_MAX], *r;
	struct watched *w;
	unsigned n = 0;
	bool echo, overflow = ev->mask & IN_Q_OVERFLOW;

	pthread_mutex_lock(&lock);
	w = find(ev->wd);
	for (r = w ? w->list : NULL; r && n < WHO_MAX; r = r->next)
		if (session_try_get(r->s))
			who[n++] = *r;
	if (r) /* who else there is hears it so */
		overflow = true;
	if (w && ev->mask & IN_IGNORED) {
		while ((r = w->list)) {
			w->list = r->next;
			free(r);
		}
		remove_watched(w);
	}
	pthread_mutex_unlock(&lock);
	/* With several daemons it is not known whose operation it was: the others must hear. */
	echo = was_expected(ev->wd, ev->mask, ev->len ? ev->name : "") && n == 1;
	for (unsigned i = 0; i < n; i++) {
		tell_session(who[i].s, who[i].num, ev, echo);
		session_put(who[i].s);
	}
	if (overflow)
		sessions_each(all_sessions, NULL);
}

static void flush_session(struct session *s, void *arg)
{
	(void)arg;
	changes_flush(s);
}

/* Was the same file changed before, among the events of one drain? All of them had happened when it
 * began, and it was looked at since. Not across a name that came or went. */
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
	if (source.fd < 0)
		return;
	drain();
	sessions_each(report_closed, NULL);
	sessions_each(flush_session, NULL);
}

static void on_events(struct source *src, uint32_t events)
{
	(void)src;
	(void)events;
	watch_drain();
}

static unsigned read_limit(void)
{
	cleanup_close int fd = open(LIMIT_FILE, O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long most;

	if (n <= 0)
		return 1024;
	text[n] = 0;
	most = strtoul(text, NULL, 10) / SHARE;
	return most < WATCHES_MAX ? (unsigned)most : WATCHES_MAX;
}

void watch_init(void)
{
	told_init();
	max_watches = read_limit();
	source.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	source.ready = on_events;
	if (source.fd >= 0 && loop_add(&source, EPOLLIN) == 0)
		return;
	log_warn("no inotify: nothing is cached on the host (%s)", strerror(errno));
	if (source.fd >= 0)
		close(source.fd);
	source.fd = -1;
}
