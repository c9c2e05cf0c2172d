/* SPDX-License-Identifier: MIT */
/*
 * Request id -> call, one reader (the watch's I/O thread), writers under ch->lock with non-blocking
 * writes. Whoever removes a call from the table (or the queue) under the lock answers it, after the
 * lock is dropped.
 */
#include "sandbox/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#define RX_CHUNK  65536u
#define RX_TURN	  4194304u /* so many bytes, then others have their turn */
#define RX_KEEP	  131072u  /* an idle channel keeps no larger buffer */
#define GIVEN_MAX 1048576u /* bytes of one-way frames, kept after they were sent */
#define FRAME_MAX (PROTO_HEAD + PROTO_MAX_BODY)

struct channel {
	struct stream *stream;
	struct watch *watch;
	struct channel_events events;
	struct buf rx;	  /* the I/O thread's alone */
	_Atomic int refs; /* one is the I/O thread's, until finish() */

	pthread_mutex_t lock;
	struct call *flying; /* by id, whole request sent or being sent; protected by lock */
	struct call *queue;  /* to be sent, in order; protected by lock */
	struct call *bulk;   /* to be sent after those, in order; protected by lock */
	struct call *begun;  /* of those two the one that a write began with; protected by lock */
	struct call *given;  /* one-way, sent, and to be sure of; in order; protected by lock */
	size_t given_bytes;  /* of those; protected by lock */
	uint64_t next_id;    /* protected by lock */
	bool want_out;	     /* protected by lock */
	bool ended;	     /* nothing is sent any more; protected by lock */
	bool finished;	     /* nothing is taken any more: finish() has all; protected by lock */
	int send_error;	     /* what ended it, if a write did; protected by lock */
};

void call_begin(struct call *c, uint16_t type, uint32_t uid, uint32_t gid)
{
	buf_init(&c->frame, FRAME_MAX);
	c->type = type;
	proto_begin(&c->frame, type, 0, 0, uid, gid);
}

void call_fini(struct call *c)
{
	buf_fini(&c->frame);
}

bool call_was_sent(const struct call *c)
{
	return c->sent >= c->frame.len;
}

/* A one-way message: a call that has no done(). */
struct call *oneway_new(const struct buf *frame)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	buf_init(&c->frame, FRAME_MAX);
	if (frame->error || buf_append(&c->frame, frame->data, frame->len) < 0 ||
		proto_end(&c->frame, 0) < 0) {
		oneway_free(c);
		return NULL;
	}
	return c;
}

void oneway_free(struct call *c)
{
	call_fini(c);
	free(c);
}

static void set_id(struct call *c, uint64_t id)
{
	c->id = id;
	for (int i = 0; i < 8; i++)
		c->frame.data[8 + i] = (uint8_t)(id >> (8 * i));
}

/* Which is sent next: a frame that has been begun is finished first. With the lock held. */
static struct call *next_call(const struct channel *ch)
{
	return ch->begun ? ch->begun : ch->queue ? ch->queue : ch->bulk;
}

static void unqueue(struct channel *ch, struct call *c)
{
	if (c->bulk)
		DL_DELETE(ch->bulk, c);
	else
		DL_DELETE(ch->queue, c);
}

static size_t weight(const struct call *c)
{
	return sizeof(*c) + c->frame.cap;
}

static void drop_given(struct channel *ch)
{
	struct call *c = ch->given;

	DL_DELETE(ch->given, c);
	ch->given_bytes -= weight(c);
	oneway_free(c);
}

/* A one-way frame has been sent to its end; lock held. Nothing may be answered for long: then the
 * oldest are taken for received. */
static void sent_oneway(struct channel *ch, struct call *c)
{
	if (!c->owed) {
		oneway_free(c);
		return;
	}
	c->id = ch->next_id;
	DL_APPEND(ch->given, c);
	ch->given_bytes += weight(c);
	while (ch->given_bytes > GIVEN_MAX)
		drop_given(ch);
}

/* Sends what the stream takes. Called with the lock held; 0 or the stream's error. */
static int flush(struct channel *ch)
{
	struct call *c;
	bool blocked = false;

	while (!blocked && (c = next_call(ch))) {
		ssize_t n;

		if (c->done && !c->in_flight) {
			if (HASH_COUNT(ch->flying) >= PROTO_INFLIGHT)
				break; /* a reply will bring us back */
			set_id(c, ++ch->next_id);
			c->in_flight = true;
			HASH_ADD(hh, ch->flying, id, sizeof(c->id), c);
		}
		n = ch->stream->write(ch->stream, c->frame.data + c->sent, c->frame.len - c->sent);
		if (n < 0 && n != -EAGAIN)
			return (int)n;
		if (n > 0)
			c->sent += (size_t)n;
		/* What was refused is offered again: see stream.h. */
		ch->begun = (c->sent || n == -EAGAIN) && c->sent < c->frame.len ? c : NULL;
		if (c->sent < c->frame.len) {
			blocked = n == -EAGAIN;
			continue;
		}
		unqueue(ch, c);
		if (!c->done)
			sent_oneway(ch, c);
	}
	if (blocked != ch->want_out) {
		ch->want_out = blocked;
		watch_want_out(ch->watch, blocked);
	}
	return 0;
}

/* What comes after the end and before finish() is lost with the rest, in the I/O thread. False: it
 * is too late for that, and c is the caller's. */
static bool enqueue(struct channel *ch, struct call *c)
{
	bool taken;
	int r = 0;

	pthread_mutex_lock(&ch->lock);
	c->sent = 0;
	c->in_flight = false;
	taken = !ch->finished;
	if (taken) {
		if (c->bulk)
			DL_APPEND(ch->bulk, c);
		else
			DL_APPEND(ch->queue, c);
	}
	if (!ch->ended) {
		r = flush(ch);
		ch->send_error = r;
	}
	pthread_mutex_unlock(&ch->lock);
	if (r < 0)
		channel_close(ch); /* finish() says why */
	return taken;
}

int channel_send(struct channel *ch, struct call *c)
{
	int r = proto_end(&c->frame, 0);

	if (r < 0) {
		c->words = "";
		c->done(c, r, NULL);
		return 0;
	}
	return enqueue(ch, c) ? 0 : -EPIPE;
}

void channel_post(struct channel *ch, const struct buf *frame)
{
	struct call *c = oneway_new(frame);

	if (c && !enqueue(ch, c))
		oneway_free(c);
}

int channel_give(struct channel *ch, struct call *oneway)
{
	oneway->owed = true;
	return enqueue(ch, oneway) ? 0 : -EPIPE;
}

static bool is_use(const struct call *c, bool gentle)
{
	return c->done && c->type != PROTO_CHANGES && c->type != PROTO_IDLE &&
	       (gentle || !c->gentle);
}

unsigned channel_uses(struct channel *ch, bool gentle)
{
	struct call *c, *tmp;
	unsigned n = 0;

	pthread_mutex_lock(&ch->lock);
	HASH_ITER (hh, ch->flying, c, tmp)
		n += is_use(c, gentle);
	DL_FOREACH (ch->queue, c)
		n += is_use(c, gentle) && !c->in_flight;
	pthread_mutex_unlock(&ch->lock);
	return n;
}

void channel_close(struct channel *ch)
{
	bool first;

	pthread_mutex_lock(&ch->lock);
	first = !ch->ended;
	ch->ended = true;
	pthread_mutex_unlock(&ch->lock);
	if (first)
		watch_end(ch->watch);
}

/* A reply's call, taken out of the table: nobody else can answer it now. NULL: nobody asked. */
static struct call *take(struct channel *ch, const struct proto_head *h)
{
	struct call *c;

	pthread_mutex_lock(&ch->lock);
	HASH_FIND(hh, ch->flying, &h->id, sizeof(h->id), c);
	if (c && (c->sent < c->frame.len || h->type != (c->type | PROTO_REPLY)))
		c = NULL;
	if (c) {
		HASH_DEL(ch->flying, c);
		/* The agent reads in order: it has what was sent before this request. */
		while (ch->given && ch->given->id < h->id)
			drop_given(ch);
		if (next_call(ch) && !ch->want_out)
			flush(ch); /* an error shows at the next read */
	}
	pthread_mutex_unlock(&ch->lock);
	return c;
}

static int deliver(
	struct channel *ch, const struct proto_head *h, const uint8_t *p, struct err *err)
{
	struct wire_in body = wire_in(p, h->len);
	struct call *c = take(ch, h);
	char words[256] = "";
	unsigned type;

	if (!c)
		return err_set(err, EPROTO,
			"the agent answered what was not asked (type 0x%x, id %llu)", h->type,
			(unsigned long long)h->id);
	type = c->type;
	c->words = words;
	c->seq = h->error ? 0 : proto_seq(h);
	if (h->error) {
		size_t n = h->len < sizeof(words) - 1 ? h->len : sizeof(words) - 1;

		memcpy(words, p, n);
		c->done(c, -err_sanitise(h->error), NULL);
		return 0;
	}
	if (!c->done(c, 0, &body))
		return err_set(err, EPROTO, "the agent sent a malformed answer (type 0x%x)", type);
	return 0;
}

/* Delivers each whole frame in rx. */
static int parse(struct channel *ch, struct err *err)
{
	size_t at = 0;
	int r = 0;

	while (!r && ch->rx.len - at >= PROTO_HEAD) {
		struct proto_head h;

		if (proto_head(ch->rx.data + at, &h) < 0)
			r = err_set(err, EPROTO, "the agent sent a frame of %u bytes", h.len);
		else if (ch->rx.len - at - PROTO_HEAD < h.len)
			break;
		else
			r = deliver(ch, &h, ch->rx.data + at + PROTO_HEAD, err);
		at += PROTO_HEAD + h.len;
	}
	if (!r)
		buf_consume(&ch->rx, at);
	if (!ch->rx.len && ch->rx.cap > RX_KEEP)
		buf_fini(&ch->rx);
	return r;
}

/* How much room to read into: the rest of the frame that has begun, or a chunk. */
static size_t rx_room(const struct channel *ch)
{
	struct proto_head h;
	size_t want = RX_CHUNK;

	if (ch->rx.len >= PROTO_HEAD && proto_head(ch->rx.data, &h) == 0 &&
		PROTO_HEAD + h.len > ch->rx.len + want)
		want = PROTO_HEAD + h.len - ch->rx.len;
	if (want > ch->rx.max - ch->rx.len)
		want = ch->rx.max - ch->rx.len;
	return want;
}

/* Reads until the stream has no more, or others must have their turn. 0, or why it is over. */
static int drain(struct channel *ch, struct err *err)
{
	size_t got = 0;

	for (;;) {
		size_t room = rx_room(ch);
		uint8_t *to = buf_reserve(&ch->rx, room);
		ssize_t n;
		int r;

		if (!to)
			return err_set(err, ENOMEM, "no memory for the agent's answer");
		n = ch->stream->read(ch->stream, to, room);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0) {
			const char *said = ch->stream->words(ch->stream);

			return err_set(err, n < 0 ? (int)-n : ECONNRESET,
				"the connection to the agent was lost%s%s", *said ? ": " : "",
				said);
		}
		ch->rx.len += (size_t)n;
		got += (size_t)n;
		r = parse(ch, err);
		if (r < 0)
			return r;
		if (got >= RX_TURN) {
			watch_again(ch->watch);
			return 0;
		}
	}
}

void channel_get(struct channel *ch)
{
	ch->refs++;
}

void channel_put(struct channel *ch)
{
	if (--ch->refs)
		return;
	buf_fini(&ch->rx);
	pthread_mutex_destroy(&ch->lock);
	free(ch);
}

void channel_cancel(struct channel *ch, const struct call *c)
{
	struct buf frame;
	uint64_t id;

	pthread_mutex_lock(&ch->lock);
	id = c->in_flight ? c->id : 0;
	pthread_mutex_unlock(&ch->lock);
	if (!id)
		return;
	buf_init(&frame, PROTO_HEAD + 8);
	proto_begin(&frame, PROTO_CANCEL, 0, 0, 0, 0);
	wire_u64(&frame, id);
	channel_post(ch, &frame);
	buf_fini(&frame);
}

static void finish(struct channel *ch)
{
	struct call *flying, *queue, *given, *c, *tmp;
	struct err err = {0};

	if (ch->send_error < 0) {
		err_set(&err, -ch->send_error, "cannot send to the agent: %s",
			strerror(-ch->send_error));
		ch->events.down(ch->events.arg, false, &err);
	}
	pthread_mutex_lock(&ch->lock);
	flying = ch->flying;
	DL_CONCAT(ch->queue, ch->bulk);
	queue = ch->queue;
	given = ch->given;
	ch->flying = ch->queue = ch->bulk = ch->begun = ch->given = NULL;
	ch->finished = true;
	pthread_mutex_unlock(&ch->lock);
	DL_FOREACH_SAFE (given, c, tmp) {
		DL_DELETE(given, c);
		ch->events.owed(ch->events.arg, c);
	}
	DL_FOREACH_SAFE (queue, c, tmp) {
		DL_DELETE(queue, c);
		if (c->in_flight)
			continue; /* it is in the table too */
		if (c->done)
			ch->events.lost(ch->events.arg, c);
		else if (c->owed)
			ch->events.owed(ch->events.arg, c);
		else
			oneway_free(c);
	}
	HASH_ITER (hh, flying, c, tmp) {
		HASH_DEL(flying, c);
		ch->events.lost(ch->events.arg, c);
	}
	ch->stream->close(ch->stream);
	ch->events.gone(ch->events.arg);
	channel_put(ch);
}

static void ready(void *arg, uint32_t events)
{
	struct channel *ch = arg;
	struct err err = {0};
	bool ended;
	int r = 0;

	if (!events) {
		finish(ch);
		return;
	}
	pthread_mutex_lock(&ch->lock);
	ended = ch->ended;
	if (!ended && (events & EPOLLOUT))
		r = flush(ch);
	pthread_mutex_unlock(&ch->lock);
	if (ended)
		return;
	if (r < 0)
		err_set(&err, -r, "cannot send to the agent: %s", strerror(-r));
	else
		r = drain(ch, &err);
	if (r < 0) {
		ch->events.down(ch->events.arg, r == -EPROTO, &err);
		channel_close(ch);
	}
}

int channel_new(
	struct loop *l, struct stream *s, const struct channel_events *events, struct channel **out)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	int r;

	if (!ch) {
		s->close(s);
		return -ENOMEM;
	}
	ch->stream = s;
	ch->events = *events;
	ch->refs = 2;
	buf_init(&ch->rx, FRAME_MAX + RX_CHUNK);
	pthread_mutex_init(&ch->lock, NULL);
	*out = ch;
	r = watch_new(l, s->fd, ready, ch, &ch->watch);
	if (r < 0) {
		s->close(s);
		pthread_mutex_destroy(&ch->lock);
		free(ch);
		*out = NULL;
	}
	return r;
}
