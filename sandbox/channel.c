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
#define RX_KEEP	  131072u /* an idle channel keeps no larger buffer */
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
	uint64_t next_id;    /* protected by lock */
	bool want_out;	     /* protected by lock */
	bool ended;	     /* nothing is sent or taken any more; protected by lock */
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

/* A one-way message in the queue: a call that has no done() and is freed once sent. */
static struct call *oneway(const struct buf *frame)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	buf_init(&c->frame, FRAME_MAX);
	if (buf_append(&c->frame, frame->data, frame->len) < 0) {
		free(c);
		return NULL;
	}
	return c;
}

static void set_id(struct call *c, uint64_t id)
{
	c->id = id;
	for (int i = 0; i < 8; i++)
		c->frame.data[8 + i] = (uint8_t)(id >> (8 * i));
}

/* Sends what the stream takes. Called with the lock held; 0 or the stream's error. */
static int flush(struct channel *ch)
{
	struct call *c;
	bool blocked = false;

	while (!blocked && (c = ch->queue)) {
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
		if (c->sent < c->frame.len) {
			blocked = n == -EAGAIN;
			continue;
		}
		DL_DELETE(ch->queue, c);
		if (!c->done) {
			call_fini(c);
			free(c);
		}
	}
	if (blocked != ch->want_out) {
		ch->want_out = blocked;
		watch_want_out(ch->watch, blocked);
	}
	return 0;
}

static void enqueue(struct channel *ch, struct call *c)
{
	bool ended;
	int r = 0;

	pthread_mutex_lock(&ch->lock);
	c->sent = 0;
	c->in_flight = false;
	ended = ch->ended;
	if (!ended) {
		DL_APPEND(ch->queue, c);
		r = flush(ch);
		ch->send_error = r;
	}
	pthread_mutex_unlock(&ch->lock);
	if (ended && c->done) {
		ch->events.lost(ch->events.arg, c);
	} else if (ended) {
		call_fini(c);
		free(c);
	}
	if (r < 0)
		channel_close(ch); /* finish() says why */
}

void channel_send(struct channel *ch, struct call *c)
{
	int r = proto_end(&c->frame, 0);

	if (r < 0) {
		c->done(c, r, NULL);
		return;
	}
	enqueue(ch, c);
}

void channel_post(struct channel *ch, const struct buf *frame)
{
	struct call *c = oneway(frame);

	if (c && proto_end(&c->frame, 0) == 0) {
		enqueue(ch, c);
	} else if (c) {
		call_fini(c);
		free(c);
	}
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
		if (ch->queue && !ch->want_out)
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

/* Reads until the stream has no more. 0, or why it is over. */
static int drain(struct channel *ch, struct err *err)
{
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
		r = parse(ch, err);
		if (r < 0)
			return r;
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
	struct call *flying, *queue, *c, *tmp;
	struct err err = {0};

	if (ch->send_error < 0) {
		err_set(&err, -ch->send_error, "cannot send to the agent: %s",
			strerror(-ch->send_error));
		ch->events.down(ch->events.arg, false, &err);
	}
	pthread_mutex_lock(&ch->lock);
	flying = ch->flying;
	queue = ch->queue;
	ch->flying = ch->queue = NULL;
	pthread_mutex_unlock(&ch->lock);
	DL_FOREACH_SAFE (queue, c, tmp) {
		DL_DELETE(queue, c);
		if (c->in_flight)
			continue; /* it is in the table too */
		if (c->done) {
			ch->events.lost(ch->events.arg, c);
		} else {
			call_fini(c);
			free(c);
		}
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
