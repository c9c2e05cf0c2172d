/* SPDX-License-Identifier: MIT */
/*
 * One forwarded connection. Down: a few READs are always out, each as large as the sandbox's budget
 * allows; what the client does not take at once is kept, and nothing more is asked for until it
 * has. Up: a few WRITEs at most are out; while they are, the client is not read from. So a slow
 * end on either side slows the other, and memory is bounded.
 *
 * t->lock guards a tunnel. The client's socket is read by its watch's thread alone, which keeps
 * WRITEs in order; answers come from the channel's thread. Nothing is sent to the agent with the
 * lock held: it may fail at once, and then done() takes the lock. Order: sandbox.lock, t->lock.
 */
#include "sandbox/tunnel.h"

#include "sandbox/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#define READS	 3
#define WRITES	 3
#define DATA_MIN (16u << 10)
#define BUDGET	 (32u << 20) /* bytes on their way to the clients of a sandbox, and from them */
#define NOTE_MS	 1000	     /* a client that tries again and again fills no list of errors */

/* A request of a tunnel's. */
struct slot {
	struct call call;
	struct tunnel *t;
	bool busy; /* protected by t->lock */
	size_t asked;
};

struct tunnel {
	_Atomic int refs;   /* the watch's, tunnel_start's, and each request's */
	struct sandbox *sb; /* a reference */
	uint16_t port;
	uint64_t number; /* towards the agent */
	struct slot open, shut, reads[READS], writes[WRITES];
	struct watch *watch;
	struct tunnel *prev, *next; /* protected by sb->lock */

	pthread_mutex_t lock;
	int fd;			/* protected by lock, as all that follows */
	struct buf out;		/* for the client */
	uint32_t epoch;		/* of the agent's session */
	bool opened;		/* the agent has connected */
	bool up_ended, up_done; /* the client has said all; and the agent has passed that on */
	bool down_ended, down_done;
	bool hung_up; /* epoll said so, and is not to say it again */
	bool ended, reset;
};

/* What is to be sent when the lock is free. */
struct todo {
	struct slot *slot[READS + WRITES + 1];
	unsigned n;
};

static void tunnel_put(struct tunnel *t)
{
	if (--t->refs)
		return;
	buf_fini(&t->out);
	pthread_mutex_destroy(&t->lock);
	sandbox_put(t->sb);
	free(t);
}

/* With the lock held. */
static void end(struct tunnel *t, bool reset)
{
	if (t->ended)
		return;
	t->ended = true;
	t->reset = reset;
	watch_end(t->watch);
}

void tunnel_end_all(struct sandbox *sb)
{
	struct tunnel *t;

	DL_FOREACH (sb->tunnels, t) {
		pthread_mutex_lock(&t->lock);
		end(t, true);
		pthread_mutex_unlock(&t->lock);
	}
}

/* Each of them may hold so much. */
static uint32_t share(const struct tunnel *t)
{
	unsigned n = t->sb->n_tunnels;
	uint32_t size = BUDGET / READS / (n ? n : 1);

	return size < DATA_MIN ? DATA_MIN : size > PROTO_PORT_DATA ? PROTO_PORT_DATA : size;
}

/* Takes a slot, with the lock held; the fields follow after the number. */
static void begin(struct tunnel *t, struct slot *s, uint16_t type,
	bool (*done)(struct call *c, int err, struct wire_in *body), struct todo *todo)
{
	s->call = (struct call){.done = done};
	call_begin(&s->call, type, 0, 0);
	wire_u64(&s->call.frame, t->number);
	s->t = t;
	s->busy = true;
	t->refs++;
	todo->slot[todo->n++] = s;
}

static void send_all(struct tunnel *t, const struct todo *todo)
{
	for (unsigned i = 0; i < todo->n; i++) {
		struct call *c = &todo->slot[i]->call;

		if (c->type == PROTO_PORT_OPEN)
			sandbox_call(t->sb, c); /* wakes it, and waits */
		else if (sandbox_call_linked(t->sb, c) < 0)
			c->done(c, -EIO, NULL);
	}
}

static bool read_done(struct call *c, int err, struct wire_in *body);

/* What follows from how things are. With the lock held, which it releases to send. */
static void go_on_unlock(struct tunnel *t, struct todo *todo)
{
	uint32_t events = 0;
	bool idle = false;

	if (t->ended || !t->opened)
		goto out;
	if (t->down_ended && !t->out.len && !t->down_done) {
		shutdown(t->fd, SHUT_WR);
		t->down_done = true;
	}
	if (t->down_done && t->up_done) {
		end(t, false);
		goto out;
	}
	for (int i = 0; i < READS && !t->down_ended && !t->out.len; i++) {
		struct slot *s = &t->reads[i];

		if (s->busy)
			continue;
		begin(t, s, PROTO_PORT_READ, read_done, todo);
		s->asked = share(t);
		wire_u32(&s->call.frame, (uint32_t)s->asked);
	}
	for (int i = 0; i < WRITES; i++)
		idle |= !t->writes[i].busy;
	if (idle && !t->up_ended)
		events |= EPOLLIN;
	if (t->out.len)
		events |= EPOLLOUT;
	if (events || !t->hung_up)
		watch_arm(t->watch, events);
out:
	pthread_mutex_unlock(&t->lock);
	send_all(t, todo);
}

/* The slot's request is over: its memory, and with the lock taken, that it can be used again. */
static struct tunnel *over_lock(struct slot *s)
{
	struct tunnel *t = s->t;

	call_fini(&s->call);
	pthread_mutex_lock(&t->lock);
	s->busy = false;
	return t;
}

/* Sends to the client; with the lock held. Bytes taken, or -errno. */
static ssize_t give(struct tunnel *t, const uint8_t *p, size_t n)
{
	ssize_t sent = send(t->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return sent < 0 ? -errno : sent;
}

/* Bytes for the client, with the lock held. */
static void put(struct tunnel *t, const uint8_t *p, size_t n)
{
	ssize_t sent = t->out.len ? 0 : give(t, p, n);

	if (sent < 0 || buf_append(&t->out, p + sent, n - (size_t)sent) < 0)
		end(t, true);
}

static bool read_done(struct call *c, int err, struct wire_in *body)
{
	struct slot *s = (struct slot *)c;
	const uint8_t *p = NULL;
	struct todo todo = {0};
	bool good = true;
	struct tunnel *t;
	size_t n = 0;

	if (err == 0) {
		p = wire_get_bytes(body, s->asked, &n);
		good = wire_end(body);
	}
	t = over_lock(s);
	if (err < 0 || !good)
		end(t, true);
	else if (!t->ended && n && !t->down_ended)
		put(t, p, n);
	else
		t->down_ended = true;
	go_on_unlock(t, &todo);
	tunnel_put(t);
	return good;
}

/* The server may have gone without reading everything, having said all: that is still wanted. */
static bool is_server_gone(int err)
{
	return err == -EPIPE || err == -ECONNRESET || err == -ENOTCONN;
}

static bool write_done(struct call *c, int err, struct wire_in *body)
{
	bool good = err < 0 || wire_end(body);
	struct tunnel *t = over_lock((struct slot *)c);
	struct todo todo = {0};

	if (is_server_gone(err))
		t->up_ended = t->up_done = true;
	else if (err < 0 || !good)
		end(t, true);
	go_on_unlock(t, &todo);
	tunnel_put(t);
	return good;
}

static bool shut_done(struct call *c, int err, struct wire_in *body)
{
	bool good = err < 0 || wire_end(body);
	struct tunnel *t = over_lock((struct slot *)c);
	struct todo todo = {0};

	t->up_done = true;
	if ((err < 0 && !is_server_gone(err)) || !good)
		end(t, true);
	go_on_unlock(t, &todo);
	tunnel_put(t);
	return good;
}

/* Reads into a WRITE, with the lock held. True: there may be more. */
static bool take(struct tunnel *t, struct slot *s, struct todo *todo)
{
	struct buf *b = &s->call.frame;
	size_t room = share(t), at;
	int there = 0;
	ssize_t n = -1;
	uint8_t *to;

	if (ioctl(t->fd, FIONREAD, &there) == 0 && (size_t)there < room)
		room = there > 0 ? (size_t)there : 1;
	begin(t, s, PROTO_PORT_WRITE, write_done, todo);
	s->call.bulk = true;
	at = b->len;
	wire_u32(b, 0);
	to = buf_reserve(b, room);
	errno = ENOMEM;
	if (to)
		n = recv(t->fd, to, room, MSG_DONTWAIT);
	if (n > 0) {
		b->len += (size_t)n;
		for (int i = 0; i < 4; i++)
			b->data[at + (size_t)i] = (uint8_t)((size_t)n >> (8 * i));
		return (size_t)n == room;
	}
	todo->n--;
	t->refs--; /* the watch has its own */
	s->busy = false;
	call_fini(&s->call);
	if (n == 0) {
		t->up_ended = true;
		begin(t, &t->shut, PROTO_PORT_SHUT, shut_done, todo);
		t->shut.call.bulk = true; /* behind the WRITEs */
	} else if (errno != EAGAIN && errno != EINTR) {
		end(t, true);
	}
	return false;
}

static void post_close(struct tunnel *t)
{
	struct buf b;

	buf_init(&b, PROTO_HEAD + 8);
	proto_begin(&b, PROTO_PORT_CLOSE, 0, 0, 0, 0);
	wire_u64(&b, t->number);
	sandbox_post(t->sb, t->epoch, &b);
	buf_fini(&b);
}

/* The watch's last word. */
static void gone(struct tunnel *t)
{
	static const struct linger reset = {.l_onoff = 1};
	struct registry *r = t->sb->registry;
	bool opened;

	pthread_mutex_lock(&t->lock);
	if (t->reset)
		setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(t->fd);
	t->fd = -1;
	opened = t->opened;
	pthread_mutex_unlock(&t->lock);
	if (opened)
		post_close(t);
	pthread_mutex_lock(&t->sb->lock);
	DL_DELETE(t->sb->tunnels, t);
	t->sb->n_tunnels--;
	forward_room(t->sb);
	pthread_mutex_unlock(&t->sb->lock);
	tunnel_put(t);
	forward_release(r);
}

static void tunnel_ready(void *arg, uint32_t events)
{
	struct tunnel *t = arg;
	struct todo todo = {0};
	ssize_t sent;

	if (!events) {
		gone(t);
		return;
	}
	pthread_mutex_lock(&t->lock);
	if (events & EPOLLERR)
		end(t, true);
	t->hung_up |= (events & EPOLLHUP) != 0;
	if (!t->ended && t->out.len) {
		sent = give(t, t->out.data, t->out.len);
		if (sent < 0)
			end(t, true);
		else
			buf_consume(&t->out, (size_t)sent);
	}
	for (int i = 0; i < WRITES && t->opened && !t->ended && !t->up_ended; i++)
		if (!t->writes[i].busy && !take(t, &t->writes[i], &todo))
			break;
	go_on_unlock(t, &todo);
}

/* Words for a connection that could not be made; not for each of many. */
static void note(struct tunnel *t, int code, const char *words)
{
	struct sandbox *sb = t->sb;
	int64_t now = loop_now_ms();
	struct err err = {0};
	char path[32];
	bool often;

	pthread_mutex_lock(&sb->lock);
	often = sb->port_noted_ms && now - sb->port_noted_ms < NOTE_MS;
	if (!often)
		sb->port_noted_ms = now;
	pthread_mutex_unlock(&sb->lock);
	if (often)
		return;
	if (code == ECONNREFUSED)
		err_set(&err, code, "nothing listens on port %u in the sandbox", t->port);
	else
		err_set(&err, code, "no connection to port %u in the sandbox: %s", t->port,
			words && *words ? words : strerror(code));
	snprintf(path, sizeof(path), "ctl/ports/%u", t->port);
	sandbox_error(sb, "connect", path, &err);
}

static bool open_done(struct call *c, int err, struct wire_in *body)
{
	struct slot *s = (struct slot *)c;
	bool good = err < 0 || wire_end(body);
	uint32_t epoch = sandbox_epoch(s->t->sb);
	struct todo todo = {0};
	struct tunnel *t;
	bool late;

	if (err < 0)
		note(s->t, -err, c->words);
	t = over_lock(s);
	late = t->fd < 0 && err == 0;
	t->epoch = epoch;
	t->opened = err == 0 && good;
	if (err < 0 || !good)
		end(t, true);
	go_on_unlock(t, &todo);
	if (late)
		post_close(t); /* the client did not wait */
	tunnel_put(t);
	return good;
}

struct tunnel *tunnel_new(struct sandbox *sb, uint16_t port, int fd)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	int one = 1;

	if (!t)
		return NULL;
	t->refs = 2;
	t->sb = sb;
	t->port = port;
	t->fd = fd;
	t->number = ++sb->registry->next_port;
	buf_init(&t->out, READS * PROTO_PORT_DATA);
	pthread_mutex_init(&t->lock, NULL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (watch_new_once(sb->registry->loop, fd, tunnel_ready, t, &t->watch) < 0) {
		pthread_mutex_destroy(&t->lock);
		free(t);
		return NULL;
	}
	sandbox_get(sb);
	DL_APPEND(sb->tunnels, t);
	sb->n_tunnels++;
	return t;
}

void tunnel_start(struct tunnel *t)
{
	struct todo todo = {0};

	pthread_mutex_lock(&t->lock);
	if (!t->ended) {
		begin(t, &t->open, PROTO_PORT_OPEN, open_done, &todo);
		t->open.call.repeat = true;
		wire_u16(&t->open.call.frame, t->port);
	}
	go_on_unlock(t, &todo);
	tunnel_put(t);
}
