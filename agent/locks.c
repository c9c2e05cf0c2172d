/* SPDX-License-Identifier: MIT */
/*
 * Byte-range locks are those of open file descriptions (F_OFD_SETLK): each owner, which is a host
 * process or one of its descriptions, has one of ours on each file that it locks, so the kernel
 * does all that POSIX says about ranges, and processes inside are excluded like any others. A
 * flock is taken on the handle's own description. All of this is the loop's thread, with the
 * agent's own rights; what has to wait does so in a thread of lock_wait.c's.
 */
#include "agent/locks.h"

#include "agent/conn.h"
#include "agent/handles.h"
#include "agent/lock_owner.h"
#include "agent/lock_wait.h"
#include "agent/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

struct waiter {
	struct lock_wait wait; /* first */
	struct waiter *next;
	struct conn *conn; /* counted, as the next three */
	struct session *session;
	struct owner *owner; /* NULL: a flock */
	struct handle *h;
	uint64_t id;
	uint16_t type;
	struct proto_lock lock; /* of an owner */
	struct ranges given_up; /* read locks that stood in the way of this one */
	int why;		/* it was told to stop: what the answer is; 0: it was not */
	bool forfeit;		/* if it got the lock all the same, that is taken back */
	bool superseded;	/* but for this: the same owner has locked it anew since */
};

static struct waiter *waiters;

int locks_init(void)
{
	return lock_wait_init();
}

int locks_tick(void)
{
	return lock_wait_tick();
}

/* Every LOCK and FLOCK that was granted is answered here, at once or after a wait, so that
 * whatever must be known before the lock is held can be told first. */
static void granted(struct conn *c, uint16_t type, uint64_t id)
{
	struct buf b;
	size_t begun;

	watch_barrier();
	buf_init(&b, PROTO_HEAD);
	begun = proto_begin(&b, type | PROTO_REPLY, 0, id, 0, 0);
	if (c->session)
		proto_set_seq(&b, begun, changes_seq(c->session));
	proto_end(&b, begun);
	conn_reply(c, &b, 0);
}

static void waiter_stop(struct waiter *w, int why, bool forfeit)
{
	if (!w->why)
		w->why = why;
	w->forfeit |= forfeit;
	lock_wait_stop(&w->wait);
}

/* Ends all that it has locked, or waits for, and forgets it. */
static void owner_drop(struct owner *o, int why)
{
	for (struct waiter *w = waiters; w; w = w->next)
		if (w->owner == o)
			waiter_stop(w, why, true);
	owner_unlock(o);
	owner_forget(o);
	owner_put(o);
}

static void undo(struct waiter *w)
{
	if (w->superseded)
		return;
	if (w->owner)
		lock_set(w->wait.fd, PROTO_LOCK_NONE, w->lock.start, w->lock.end);
	else
		flock(w->wait.fd, LOCK_UN);
}

/* o (or h, for a flock) has been granted l: an older wait of its that is still ending must not take
 * that back. */
static void supersede(const struct owner *o, const struct handle *h, const struct proto_lock *l)
{
	for (struct waiter *w = waiters; w; w = w->next)
		if (o ? w->owner == o && w->lock.start <= l->end && l->start <= w->lock.end
		      : !w->owner && w->h == h)
			w->superseded = true;
}

static void waiter_free(struct waiter *w)
{
	ranges_fini(&w->given_up);
	if (w->owner)
		owner_put(w->owner);
	handle_put(w->h);
	session_put(w->session);
	conn_put(w->conn);
	free(w);
}

static void waited(struct lock_wait *lw, int error)
{
	struct waiter *w = (struct waiter *)lw, **at;

	for (at = &waiters; *at != w; at = &(*at)->next)
		;
	*at = w->next;
	if (!error && !w->forfeit && w->owner && owner_note(w->owner, lw->fd, &w->lock) < 0) {
		w->forfeit = true;
		w->why = ENOLCK;
	}
	if (!error && w->forfeit) {
		undo(w);
		error = w->why;
	}
	if (!error)
		supersede(w->owner, w->h, &w->lock);
	if (!error) { /* cancelled or not: it has the lock, and hears of it */
		granted(w->conn, w->type, w->id);
	} else {
		if (w->owner)
			owner_take_back(w->owner, &w->given_up);
		conn_fail(w->conn, w->type, w->id, w->why ? w->why : error, NULL, 0);
	}
	waiter_free(w);
}

/* given_up is taken over if it waits: PARKED. */
static int wait_for(struct request *r, struct handle *h, struct owner *o,
	const struct lock_wait *what, const struct proto_lock *l, struct ranges *given_up)
{
	struct waiter *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	*w = (struct waiter){.wait = *what,
		.conn = r->conn,
		.session = r->session,
		.owner = o,
		.id = r->head.id,
		.type = r->head.type};
	w->wait.done = waited;
	ret = lock_wait_start(&w->wait);
	if (ret < 0) {
		free(w);
		return err_set(&r->err, ENOLCK,
			ret == -EBUSY ? "%d locks wait already" : "no thread to wait in",
			LOCK_WAITS_MAX);
	}
	conn_get(w->conn);
	session_get(w->session);
	if (o)
		o->refs++;
	w->h = handle_get(r->session, h->by_num.key); /* it is there: we have it */
	if (o) {
		w->lock = *l;
		w->given_up = *given_up;
		*given_up = (struct ranges){0};
	}
	w->next = waiters;
	waiters = w;
	return PARKED;
}

void locks_cancel(const struct conn *c, uint64_t id)
{
	for (struct waiter *w = waiters; w; w = w->next)
		if (w->conn == c && w->id == id)
			waiter_stop(w, EINTR, false);
}

void locks_gone(const struct conn *c)
{
	for (struct waiter *w = waiters; w; w = w->next)
		if (w->conn == c)
			waiter_stop(w, ECONNRESET, true);
}

static int unlock(struct session *s, struct handle *h, uint64_t owner, const struct proto_lock *l)
{
	struct owner *o = owner_find(s, h, owner);
	int ret = 0, ret2 = 0;

	if (!o)
		return 0;
	if (l->start == 0 && l->end == INT64_MAX && o->refs == 1) {
		owner_drop(o, EINTR);
		return 0;
	}
	if (ranges_cut(&o->read, l->start, l->end, NULL) < 0)
		return -ENOLCK;
	if (o->read_fd >= 0)
		ret = lock_set(o->read_fd, PROTO_LOCK_NONE, l->start, l->end);
	if (o->write_fd >= 0)
		ret2 = lock_set(o->write_fd, PROTO_LOCK_NONE, l->start, l->end);
	return ret < 0 ? ret : ret2;
}

static int lock_range(
	struct request *r, struct handle *h, struct owner *o, const struct proto_lock *l, bool wait)
{
	struct ranges given_up = {0};
	struct lock_wait what = {.range = lock_range_of(l->type, l->start, l->end)};
	int ret;

	what.fd = owner_fd(r, o, h, l->type);
	if (what.fd < 0)
		return err_set(&r->err, ENOLCK, "the file cannot be opened for its lock: %s",
			strerror(-what.fd));
	if (what.fd != o->read_fd && l->type == PROTO_LOCK_WRITE && o->read.n) {
		if (ranges_cut(&o->read, l->start, l->end, &given_up) < 0)
			return -ENOLCK;
		if (given_up.n)
			lock_set(o->read_fd, PROTO_LOCK_NONE, l->start, l->end);
	} else if (what.fd == o->read_fd && o->write_fd >= 0) {
		lock_set(o->write_fd, PROTO_LOCK_NONE, l->start, l->end);
	}
	ret = lock_set(what.fd, l->type, l->start, l->end);
	if (!ret) {
		ret = owner_note(o, what.fd, l);
		if (ret < 0)
			lock_set(what.fd, PROTO_LOCK_NONE, l->start, l->end);
		else
			supersede(o, h, l);
	}
	if (ret == -EAGAIN && wait)
		ret = wait_for(r, h, o, &what, l, &given_up);
	if (ret < 0)
		owner_take_back(o, &given_up);
	ranges_fini(&given_up);
	return ret;
}

int locks_lock(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t owner = wire_get_u64(&r->in);
	auto_handle struct handle *h = NULL;
	struct proto_lock l;
	struct owner *o;
	uint8_t wait;
	int ret;

	proto_get_lock(&r->in, &l);
	wait = wire_get_u8(&r->in);
	if (!wire_end(&r->in) || wait > 1)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h || h->dir)
		return -EBADF;
	if (l.type == PROTO_LOCK_NONE)
		return unlock(r->session, h, owner, &l);
	if (l.type == PROTO_LOCK_READ ? !h->readable : !h->writable)
		return -EBADF;
	o = owner_find(r->session, h, owner);
	if (!o)
		o = owner_new(r->session, h, owner);
	if (!o)
		return -ENOLCK;
	o->mixed |= o->fh != fh;
	ret = lock_range(r, h, o, &l, wait);
	if (ret < 0 && o->read_fd < 0 && o->write_fd < 0)
		owner_drop(o, EINTR); /* it never came to anything */
	if (!ret)
		granted(r->conn, r->head.type, r->head.id);
	return ret < 0 ? ret : PARKED;
}

int locks_test(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t owner = wire_get_u64(&r->in);
	auto_handle struct handle *h = NULL;
	struct proto_lock l, found;
	struct owner *o;
	uint64_t start;
	int fd, ret;

	proto_get_lock(&r->in, &l);
	if (!wire_end(&r->in) || l.type == PROTO_LOCK_NONE)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h || h->dir)
		return -EBADF;
	o = owner_find(r->session, h, owner);
	/* The handle's own description has no byte-range locks: it stands for a stranger. */
	fd = !o ? h->fd : o->write_fd >= 0 ? o->write_fd : o->read_fd;
	for (start = l.start;; start = found.end + 1) {
		ret = lock_test(fd, &l, start, &found);
		if (ret < 0)
			return ret;
		/* What o has locked through its other description is in nobody's way. */
		if (found.type != PROTO_LOCK_READ || !o || fd == o->read_fd ||
			!ranges_has(&o->read, found.start, found.end))
			break;
		if (found.end >= l.end) {
			found = (struct proto_lock){.type = PROTO_LOCK_NONE, .end = INT64_MAX};
			break;
		}
	}
	proto_put_lock(&r->out, &found);
	return 0;
}

int locks_drop(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t owner = wire_get_u64(&r->in);
	auto_handle struct handle *h = NULL;
	struct owner *o;

	if (!wire_end(&r->in))
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	o = owner_find(r->session, h, owner);
	if (o)
		owner_drop(o, EINTR);
	return 0;
}

static int note_flocked(struct session *s, uint64_t fh)
{
	struct locks *locks = locks_of(s);
	struct link *l;

	if (locks && table_find(&locks->flocked, fh))
		return 0;
	l = locks ? calloc(1, sizeof(*l)) : NULL;
	if (!l || table_add(&locks->flocked, l, fh) < 0) {
		free(l);
		return -ENOLCK;
	}
	return 0;
}

int locks_flock(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint32_t type = wire_get_u32(&r->in);
	uint8_t wait = wire_get_u8(&r->in);
	auto_handle struct handle *h = NULL;
	struct lock_wait what = {.flock_op = type == PROTO_LOCK_READ ? LOCK_SH : LOCK_EX};
	int ret;

	if (!wire_end(&r->in) || type > PROTO_LOCK_NONE || wait > 1)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	if (type == PROTO_LOCK_NONE)
		return flock(h->fd, LOCK_UN) < 0 ? -errno : 0;
	ret = note_flocked(r->session, fh);
	if (ret < 0)
		return ret;
	what.fd = h->fd;
	if (flock(h->fd, what.flock_op | LOCK_NB) == 0) {
		supersede(NULL, h, NULL);
		granted(r->conn, r->head.type, r->head.id);
		return PARKED;
	}
	if (errno != EWOULDBLOCK || !wait)
		return -errno;
	return wait_for(r, h, NULL, &what, NULL, NULL);
}

void locks_closed(struct session *s, uint64_t fh)
{
	auto_handle struct handle *h = s->locks ? handle_get(s, fh) : NULL;
	struct link *l, *next;

	if (!s->locks)
		return;
	for (struct waiter *w = waiters; w; w = w->next)
		if (w->session == s && w->h->by_num.key == fh)
			waiter_stop(w, EBADF, true);
	l = table_find(&s->locks->flocked, fh);
	if (l) {
		table_del(&s->locks->flocked, l);
		free(l);
		if (h)
			flock(h->fd, LOCK_UN);
	}
	/* A process of the host's has dropped its locks before its last close; a description of the
	 * host's ends here. */
	for (l = table_find(&s->locks->by_fh, fh); l; l = next) {
		struct owner *o = link_of(l, struct owner, by_fh);

		next = table_next(l);
		if (!o->mixed)
			owner_drop(o, EBADF);
	}
}

/* Nobody waits: there is no connection that could. */
static void end_all(struct session *s, bool close_handles)
{
	struct locks *locks = s->locks;
	struct link *l;

	if (!locks)
		return;
	while ((l = table_pop(&locks->flocked))) {
		auto_handle struct handle *h = handle_get(s, l->key);

		if (h && close_handles && lock_held(h->fd))
			handle_close(s, l->key);
		if (h)
			flock(h->fd, LOCK_UN);
		free(l);
	}
	while ((l = table_pop(&locks->owners))) {
		struct owner *o = link_of(l, struct owner, by_key);

		/* A process writes through any of its descriptors what it has locked through
		 * one; which of them are whose is not known here. */
		if (close_handles && (lock_held(o->read_fd) || lock_held(o->write_fd)))
			handles_close_file(s, o->dev, o->ino);
		owner_unlock(o);
		o->known = false;
		owner_put(o);
	}
	table_fini(&locks->owners);
	table_fini(&locks->by_fh);
	table_fini(&locks->flocked);
	free(locks);
	s->locks = NULL;
}

void locks_lose(struct session *s)
{
	end_all(s, true);
}

void locks_fini(struct session *s)
{
	end_all(s, false);
}
