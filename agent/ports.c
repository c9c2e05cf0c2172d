/* SPDX-License-Identifier: MIT */
/*
 * Forwarded ports: each a non-blocking TCP socket in the sandbox's network namespace, with the
 * requests that wait at it. Nothing is read that was not asked for, and nothing while the daemon
 * does not take replies; a write is answered when the socket has taken it: so the bytes in between
 * are bounded, and a slow end on either side slows the other. All is the loop's.
 */
#include "agent/ports.h"

#include "agent/conn.h"
#include "agent/idle.h"
#include "common/cleanup.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A request that waits: OPEN, READ, WRITE or SHUT. */
struct wait {
	struct wait *next;
	uint64_t id;
	uint16_t type;
	uint32_t size;	/* READ: how many at most */
	size_t at, len; /* WRITE: what is left of data */
	uint8_t data[];
};

struct queue {
	struct wait *first, **last;
	unsigned n;
};

struct port {
	struct source src; /* first: a source is its port. fd -1: between two sockets */
	struct port *prev, *next;
	struct link by_number;
	struct conn *conn; /* counted */
	uint16_t number;   /* the TCP port */
	int family;	   /* that is being tried */
	int refused;	   /* why the first family did not do */
	bool connected, shut, ended;
	bool retrying, dead; /* retried() is to come; and is to free it */
	struct queue opens, reads, writes;
};

static struct table ports; /* by the daemon's number */
static struct port *all;

static void queue_init(struct queue *q)
{
	*q = (struct queue){.last = &q->first};
}

static void queue_add(struct queue *q, struct wait *w)
{
	w->next = NULL;
	*q->last = w;
	q->last = &w->next;
	q->n++;
}

static struct wait *queue_take(struct queue *q)
{
	struct wait *w = q->first;

	if (w) {
		q->first = w->next;
		if (!q->first)
			q->last = &q->first;
		q->n--;
	}
	return w;
}

/* Numbers are the daemon's, so another daemon may use the same one. */
static struct port *find(const struct conn *c, uint64_t number)
{
	struct link *l;

	for (l = table_find(&ports, number); l; l = table_next(l))
		if (link_of(l, struct port, by_number)->conn == c)
			return link_of(l, struct port, by_number);
	return NULL;
}

static void answer_nothing(struct port *p, const struct wait *w)
{
	struct buf b;
	size_t begun;

	buf_init(&b, PROTO_HEAD);
	begun = proto_begin(&b, w->type | PROTO_REPLY, 0, w->id, 0, 0);
	if (proto_end(&b, begun) == 0)
		conn_reply(p->conn, &b, 0);
	else
		conn_fail(p->conn, w->type, w->id, ENOMEM, NULL, 0);
	buf_fini(&b);
}

static void fail_all(struct port *p, struct queue *q, int code)
{
	struct wait *w;

	while ((w = queue_take(q))) {
		conn_fail(p->conn, w->type, w->id, code, NULL, 0);
		free(w);
	}
}

static void forgotten(struct source *src)
{
	free(src);
}

/* Out of the table; what waits is answered with that code. */
static void end(struct port *p, int code)
{
	static const struct linger reset = {.l_onoff = 1};

	fail_all(p, &p->opens, code);
	fail_all(p, &p->reads, code);
	fail_all(p, &p->writes, code);
	table_del(&ports, &p->by_number);
	idle_touch();
	*(p->prev ? &p->prev->next : &all) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	conn_put(p->conn);
	p->dead = true;
	if (p->retrying)
		return;
	if (p->src.fd < 0) {
		free(p);
		return;
	}
	/* Who closes before the end does not want the other to take it for one. */
	if (!p->shut)
		setsockopt(p->src.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	loop_del(&p->src, forgotten);
	close(p->src.fd);
}

/* One event at most, and only for what somebody waits for: an end of the connection that nobody
 * asked about would be told again and again. */
static void arm(struct port *p)
{
	uint32_t events = 0;

	/* While the daemon does not take what it has nothing is read; ports_drained() goes on. */
	if (p->reads.n && !p->ended && !conn_is_busy(p->conn))
		events |= EPOLLIN;
	if (p->opens.n || p->writes.n)
		events |= EPOLLOUT;
	if (events)
		loop_mod(&p->src, events | EPOLLONESHOT);
}

static int begin_connect(struct port *p)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(p->number),
		.sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(p->number),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool old = p->family == AF_INET;
	cleanup_close int fd =
		socket(p->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, old ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
		    old ? sizeof(v4) : sizeof(v6)) < 0 &&
		errno != EINPROGRESS)
		return -errno;
	p->src.fd = fd;
	if (loop_add(&p->src, EPOLLOUT | EPOLLONESHOT) < 0) {
		p->src.fd = -1;
		return -ENOMEM;
	}
	steal_fd(&fd);
	return 0;
}

/* A server that listens on ::1 only is served too; why 127.0.0.1 did not do is what is told. */
static int try_connect(struct port *p)
{
	int ret;

	if (p->family == AF_INET) {
		ret = begin_connect(p);
		if (ret == 0 || ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM)
			return ret;
		p->refused = -ret;
		p->family = AF_INET6;
	}
	return begin_connect(p) < 0 ? -p->refused : 0;
}

/* The same port's next socket cannot be the same source while the old one may have events. */
static void retried(struct source *src)
{
	struct port *p = (struct port *)src;
	int ret;

	p->retrying = false;
	if (p->dead) {
		free(p);
		return;
	}
	ret = try_connect(p);
	if (ret < 0)
		end(p, -ret);
}

static void finish_connect(struct port *p)
{
	socklen_t len = sizeof(int);
	int code = 0;
	struct wait *w;

	if (getsockopt(p->src.fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code && p->family == AF_INET) {
		p->refused = code;
		p->family = AF_INET6;
		p->retrying = true;
		loop_del(&p->src, retried);
		close(p->src.fd);
		p->src.fd = -1;
		return;
	}
	if (code) {
		end(p, p->refused);
		return;
	}
	p->connected = true;
	while ((w = queue_take(&p->opens))) {
		answer_nothing(p, w);
		free(w);
	}
}

/* Answers one READ with what is there. False: not now. */
static bool read_one(struct port *p)
{
	struct wait *w = p->reads.first;
	size_t begun, at, room = w->size;
	struct buf b;
	uint8_t *to;
	ssize_t n = 0;
	int there = 0;

	/* No more memory than there are bytes for it. */
	if (!p->ended && ioctl(p->src.fd, FIONREAD, &there) == 0 && (size_t)there < room)
		room = there > 0 ? (size_t)there : 1;
	buf_init(&b, PROTO_HEAD + 4 + PROTO_PORT_DATA);
	begun = proto_begin(&b, PROTO_PORT_READ | PROTO_REPLY, 0, w->id, 0, 0);
	at = b.len;
	wire_u32(&b, 0);
	to = buf_reserve(&b, room);
	if (to && !p->ended)
		n = recv(p->src.fd, to, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		buf_fini(&b);
		return false;
	}
	queue_take(&p->reads);
	if (!to || n < 0) {
		conn_fail(p->conn, w->type, w->id, to ? errno : ENOMEM, NULL, 0);
	} else {
		p->ended |= n == 0;
		b.len += (size_t)n;
		for (int i = 0; i < 4; i++)
			b.data[at + (size_t)i] = (uint8_t)((size_t)n >> (8 * i));
		proto_end(&b, begun);
		conn_reply(p->conn, &b, 0);
	}
	buf_fini(&b);
	free(w);
	return true;
}

static void pump_reads(struct port *p)
{
	while (p->reads.n && !conn_is_busy(p->conn) && read_one(p))
		;
}

/* 0: all was taken; -EAGAIN; or why nothing is any more. */
static int send_rest(struct port *p, struct wait *w)
{
	ssize_t n;

	while (w->at < w->len) {
		n = send(p->src.fd, w->data + w->at, w->len - w->at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		w->at += (size_t)n;
	}
	return 0;
}

static void pump_writes(struct port *p)
{
	struct wait *w;
	int ret;

	while ((w = p->writes.first)) {
		ret = w->type == PROTO_PORT_WRITE ? send_rest(p, w) : 0;
		if (ret == -EAGAIN)
			return;
		queue_take(&p->writes);
		if (w->type == PROTO_PORT_SHUT) {
			p->shut = true;
			ret = shutdown(p->src.fd, SHUT_WR) < 0 ? -errno : 0;
		}
		if (ret < 0)
			conn_fail(p->conn, w->type, w->id, -ret, NULL, 0);
		else
			answer_nothing(p, w);
		free(w);
	}
}

static void port_ready(struct source *src, uint32_t events)
{
	struct port *p = (struct port *)src;

	(void)events;
	if (!p->connected) {
		finish_connect(p);
		return; /* it may be gone */
	}
	pump_writes(p);
	pump_reads(p);
	arm(p);
}

/* Keeps a request; extra: bytes for data. NULL: no memory. */
static struct wait *park(struct queue *q, const struct request *r, size_t extra)
{
	struct wait *w = calloc(1, sizeof(*w) + extra);

	if (w) {
		w->id = r->head.id;
		w->type = r->head.type;
		queue_add(q, w);
	}
	return w;
}

unsigned ports_count(void)
{
	return (unsigned)ports.n;
}

int ports_open(struct request *r)
{
	uint64_t key = wire_get_u64(&r->in);
	uint16_t number = wire_get_u16(&r->in);
	struct port *p;
	int ret;

	if (!wire_end(&r->in) || !number)
		return bad_request(r);
	if (find(r->conn, key))
		return -EEXIST;
	if (ports.n >= PROTO_PORTS_MAX)
		return err_set(
			&r->err, EMFILE, "%u forwarded connections are open", PROTO_PORTS_MAX);
	p = calloc(1, sizeof(*p));
	if (!p || table_add(&ports, &p->by_number, key) < 0) {
		free(p);
		return -ENOMEM;
	}
	queue_init(&p->opens);
	queue_init(&p->reads);
	queue_init(&p->writes);
	p->src.fd = -1;
	p->src.ready = port_ready;
	p->number = number;
	p->family = AF_INET;
	p->conn = r->conn;
	conn_get(r->conn);
	p->next = all;
	if (all)
		all->prev = p;
	all = p;
	ret = park(&p->opens, r, 0) ? try_connect(p) : -ENOMEM;
	if (ret == 0)
		return PARKED;
	free(queue_take(&p->opens)); /* the caller answers */
	end(p, -ret);
	return ret;
}

/* The port of a request that may be added to a queue of its. */
static int usable(struct request *r, struct port *p, const struct queue *q)
{
	if (!p)
		return -EBADF;
	if (!p->connected)
		return -ENOTCONN;
	if (q && q->n >= PROTO_PORT_QUEUE)
		return err_set(&r->err, EBUSY, "more than %u wait at one port", PROTO_PORT_QUEUE);
	return 0;
}

int ports_read(struct request *r)
{
	struct port *p = find(r->conn, wire_get_u64(&r->in));
	uint32_t size = wire_get_u32(&r->in);
	struct wait *w;
	int ret;

	if (!wire_end(&r->in) || !size || size > PROTO_PORT_DATA)
		return bad_request(r);
	ret = usable(r, p, p ? &p->reads : NULL);
	if (ret < 0)
		return ret;
	w = park(&p->reads, r, 0);
	if (!w)
		return -ENOMEM;
	w->size = size;
	pump_reads(p);
	arm(p);
	return PARKED;
}

int ports_write(struct request *r)
{
	struct port *p = find(r->conn, wire_get_u64(&r->in));
	size_t n;
	const uint8_t *from = wire_get_bytes(&r->in, PROTO_PORT_DATA, &n);
	ssize_t sent = 0;
	struct wait *w;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = usable(r, p, p ? &p->writes : NULL);
	if (ret < 0)
		return ret;
	if (p->shut)
		return -EPIPE;
	/* Mostly all of it is taken at once, and nothing has to be kept. */
	if (!p->writes.n && n)
		sent = send(p->src.fd, from, n, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	if (sent < 0)
		sent = 0;
	if ((size_t)sent == n)
		return 0;
	w = park(&p->writes, r, n - (size_t)sent);
	if (!w)
		return -ENOMEM;
	w->len = n - (size_t)sent;
	memcpy(w->data, from + sent, w->len);
	arm(p);
	return PARKED;
}

int ports_shut(struct request *r)
{
	struct port *p = find(r->conn, wire_get_u64(&r->in));
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = usable(r, p, NULL);
	if (ret < 0)
		return ret;
	if (!park(&p->writes, r, 0))
		return -ENOMEM;
	pump_writes(p);
	arm(p);
	return PARKED;
}

int ports_close(struct request *r)
{
	struct port *p = find(r->conn, wire_get_u64(&r->in));

	if (wire_end(&r->in) && p)
		end(p, ECONNABORTED);
	return 0;
}

void ports_gone(struct conn *c)
{
	struct port *p, *next;

	for (p = all; p; p = next) {
		next = p->next;
		if (p->conn == c)
			end(p, ECONNRESET);
	}
}

void ports_drained(struct conn *c)
{
	for (struct port *p = all; p; p = p->next) {
		if (p->conn != c || !p->connected || !p->reads.n)
			continue;
		pump_reads(p);
		arm(p);
	}
}
