/* SPDX-License-Identifier: MIT */
/*
 * One connection. The loop's thread reads and parses; any thread sends replies, directly when
 * nothing is queued, so that a worker's answer needs no second wake-up. c->lock guards the sending
 * side and the counts.
 */
#include "agent/conn.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define IN_SIZE	   (64u << 10)
#define BIG_FRAME  (16u << 10)	/* larger bodies get memory of their own and are read in place */
#define HELD_MAX   (8u << 20)	/* bytes in replies, waiting or promised, before reading stops */
#define BULK_MAX   (512u << 10) /* bytes waiting before bulk data waits */
#define COPY_MAX   (8u << 10)	/* smaller replies are put together */
#define CHUNK_SIZE (32u << 10)
#define ROUNDS	   16 /* reads before other connections have their turn */
#define IOVS	   16

struct chunk {
	struct chunk *next;
	uint8_t *data;
	size_t at, len, cap;
};

static void conn_ready(struct source *src, uint32_t events);

struct conn *conn_new(int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->fd = c->src.fd = fd;
	c->src.ready = conn_ready;
	c->in = malloc(IN_SIZE);
	c->refs = 1;
	c->events = EPOLLIN;
	if (!c->in || loop_add(&c->src, c->events) < 0) {
		conn_put(c);
		return NULL;
	}
	return c;
}

void conn_get(struct conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->refs++;
	pthread_mutex_unlock(&c->lock);
}

static void drop_chunks(struct conn *c)
{
	struct chunk *k;

	while ((k = c->first)) {
		c->first = k->next;
		free(k->data);
		free(k);
	}
	c->last = NULL;
	c->queued = 0;
}

void conn_put(struct conn *c)
{
	unsigned refs;

	pthread_mutex_lock(&c->lock);
	refs = --c->refs;
	pthread_mutex_unlock(&c->lock);
	if (refs)
		return;
	if (c->fd >= 0)
		close(c->fd);
	drop_chunks(c);
	if (c->big)
		free(c->big->body);
	free(c->big);
	free(c->in);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void conn_forgotten(struct source *src)
{
	conn_put((struct conn *)src);
}

void conn_close(struct conn *c)
{
	if (c->src.deleted)
		return;
	loop_del(&c->src, conn_forgotten);
	pthread_mutex_lock(&c->lock);
	close(c->fd);
	c->fd = -1;
	drop_chunks(c);
	pthread_mutex_unlock(&c->lock);
	server_gone(c);
}

/* Is so much waiting to be taken, or promised, that no more requests are read? Lock held. */
static bool is_full(const struct conn *c)
{
	return c->queued + c->cost > HELD_MAX;
}

/* What epoll shall tell; lock held. Frames that were held back in c->in have no event of their
 * own: asking for EPOLLOUT brings the loop here at once. */
static void want(struct conn *c)
{
	uint32_t events = c->first || c->stalled ? EPOLLOUT : 0;

	if (!is_full(c))
		events |= c->held ? EPOLLIN | EPOLLOUT : EPOLLIN;
	if (c->fd < 0 || events == c->events)
		return;
	if (loop_mod(&c->src, events) == 0)
		c->events = events;
}

/* Sends what the socket takes; lock held. A failure is found by the loop's next read. */
static void flush(struct conn *c)
{
	struct iovec iov[IOVS];
	struct msghdr msg = {.msg_iov = iov};
	struct chunk *k;
	ssize_t n;

	while (c->first && c->fd >= 0) {
		msg.msg_iovlen = 0;
		for (k = c->first; k && msg.msg_iovlen < IOVS; k = k->next)
			iov[msg.msg_iovlen++] = (struct iovec){
				.iov_base = k->data + k->at, .iov_len = k->len - k->at};
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			drop_chunks(c); /* nobody will take them */
		if (n < 0)
			return;
		c->queued -= (size_t)n;
		while (n && (k = c->first)) {
			size_t part = k->len - k->at < (size_t)n ? k->len - k->at : (size_t)n;

			k->at += part;
			n -= (ssize_t)part;
			if (k->at < k->len)
				break;
			c->first = k->next;
			if (!c->first)
				c->last = NULL;
			free(k->data);
			free(k);
		}
	}
}

/* Puts a frame at the end; lock held. */
static int enqueue(struct conn *c, struct buf *frame)
{
	struct chunk *k = c->last;

	if (frame->len <= COPY_MAX && k && k->cap - k->len >= frame->len) {
		memcpy(k->data + k->len, frame->data, frame->len);
		k->len += frame->len;
		c->queued += frame->len;
		return 0;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->len = frame->len;
	if (frame->len <= COPY_MAX && c->corked) {
		k->cap = CHUNK_SIZE;
		k->data = malloc(k->cap);
		if (!k->data) {
			free(k);
			return -ENOMEM;
		}
		memcpy(k->data, frame->data, frame->len);
	} else {
		k->cap = k->len; /* no room for another */
		k->data = frame->data;
		*frame = (struct buf){.max = frame->max};
	}
	*(c->last ? &c->last->next : &c->first) = k;
	c->last = k;
	c->queued += k->len;
	return 0;
}

bool conn_count(struct conn *c, size_t cost)
{
	bool ok;

	pthread_mutex_lock(&c->lock);
	ok = ++c->inflight <= PROTO_INFLIGHT;
	c->cost += cost;
	pthread_mutex_unlock(&c->lock);
	return ok;
}

void conn_reply(struct conn *c, struct buf *frame, size_t cost)
{
	pthread_mutex_lock(&c->lock);
	c->inflight--;
	c->cost -= cost;
	if (c->fd >= 0 && enqueue(c, frame) < 0) {
		/* A reply that cannot be kept: the peer must not wait for it for ever. */
		shutdown(c->fd, SHUT_RDWR);
	}
	if (!c->corked) {
		flush(c);
		want(c);
	}
	pthread_mutex_unlock(&c->lock);
	buf_fini(frame);
}

bool conn_is_busy(struct conn *c)
{
	bool busy;

	pthread_mutex_lock(&c->lock);
	busy = c->queued > BULK_MAX;
	if (busy && !c->stalled) {
		c->stalled = true;
		if (!c->corked)
			want(c);
	}
	pthread_mutex_unlock(&c->lock);
	return busy;
}

void conn_uncount(struct conn *c, size_t cost)
{
	pthread_mutex_lock(&c->lock);
	c->inflight--;
	c->cost -= cost;
	if (!c->corked)
		want(c);
	pthread_mutex_unlock(&c->lock);
}

void conn_fail(struct conn *c, uint16_t type, uint64_t id, int code, const char *words, size_t cost)
{
	struct buf b;
	size_t begun;

	buf_init(&b, PROTO_HEAD + PROTO_TEXT_MAX);
	begun = proto_begin(&b, type | PROTO_REPLY, (uint16_t)code, id, 0, 0);
	if (words)
		buf_append(&b, words, strnlen(words, PROTO_TEXT_MAX));
	proto_end(&b, begun);
	conn_reply(c, &b, cost);
}

/* A frame that does not fit into c->in: memory of its own, with what has come of it so far. */
static int begin_big(struct conn *c, const struct proto_head *h)
{
	size_t have = c->in_len - c->in_at - PROTO_HEAD;
	struct request *r = calloc(1, sizeof(*r));

	if (r)
		r->body = malloc(h->len ? h->len : 1);
	if (!r || !r->body) {
		free(r);
		return -ENOMEM;
	}
	r->head = *h;
	memcpy(r->body, c->in + c->in_at + PROTO_HEAD, have);
	c->big = r;
	c->big_len = have;
	c->in_at = c->in_len = 0;
	return 0;
}

/* Hands over every whole frame in c->in, as long as replies are taken. */
static int parse(struct conn *c)
{
	struct proto_head h;

	while (!c->big && c->in_len - c->in_at >= PROTO_HEAD) {
		size_t have = c->in_len - c->in_at - PROTO_HEAD;
		const uint8_t *body = c->in + c->in_at + PROTO_HEAD;

		if (proto_head(c->in + c->in_at, &h) < 0)
			return -EMSGSIZE;
		if (have < h.len)
			return h.len > BIG_FRAME ? begin_big(c, &h) : 0;
		pthread_mutex_lock(&c->lock);
		c->held = is_full(c);
		pthread_mutex_unlock(&c->lock);
		if (c->held)
			return 0;
		c->in_at += PROTO_HEAD + h.len;
		if (!server_frame(c, &h, body, NULL))
			return -EPROTO;
	}
	return 0;
}

/* One read. 1: something came, *more if there may be more; 0: not now; -errno: the end. */
static int fill(struct conn *c, bool *more)
{
	struct request *r;
	ssize_t n;

	*more = true;
	if (c->big) {
		n = recv(c->fd, c->big->body + c->big_len, c->big->head.len - c->big_len, 0);
	} else {
		if (c->in_at)
			memmove(c->in, c->in + c->in_at, c->in_len - c->in_at);
		c->in_len -= c->in_at;
		c->in_at = 0;
		n = recv(c->fd, c->in + c->in_len, IN_SIZE - c->in_len, 0);
	}
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!c->big) {
		c->in_len += (size_t)n;
		/* A short read has emptied the socket: epoll tells when there is more. */
		*more = c->in_len == IN_SIZE;
		return 1;
	}
	c->big_len += (size_t)n;
	if (c->big_len < c->big->head.len)
		return 1;
	r = steal_ptr(&c->big);
	return server_frame(c, &r->head, r->body, r) ? 1 : -EPROTO;
}

static int serve(struct conn *c)
{
	bool more = true;
	int ret;

	c->held = false;
	ret = parse(c);
	for (int i = 0; i < ROUNDS && !ret && !c->held && more; i++) {
		ret = fill(c, &more);
		if (ret == 0)
			break;
		if (ret > 0)
			ret = parse(c);
	}
	return ret;
}

static void conn_ready(struct source *src, uint32_t events)
{
	struct conn *c = (struct conn *)src;
	bool full, drained;
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	flush(c);
	c->corked = true;
	full = is_full(c);
	pthread_mutex_unlock(&c->lock);

	if (!full)
		ret = serve(c);

	pthread_mutex_lock(&c->lock);
	c->corked = false;
	flush(c);
	drained = c->stalled && c->queued <= BULK_MAX;
	c->stalled &= !drained;
	want(c);
	pthread_mutex_unlock(&c->lock);
	if (drained && ret >= 0)
		server_drained(c);
	if (ret < 0 && ret != -ECONNRESET)
		log_warn("a connection was cut: %s", strerror(-ret));
	if (ret < 0 || events & (EPOLLERR | EPOLLHUP))
		conn_close(c);
}
