/* SPDX-License-Identifier: MIT */
/*
 * What each message is answered by. Frames come from conn.c on the loop's thread; a quick request
 * is run there, a slow one by a worker. Owns the listening socket.
 */
#include "agent/server.h"

#include "agent/brief.h"
#include "agent/conn.h"
#include "agent/creds.h"
#include "agent/files.h"
#include "agent/idle.h"
#include "agent/io.h"
#include "agent/jobs.h"
#include "agent/locks.h"
#include "agent/object.h"
#include "agent/ports.h"
#include "agent/ps.h"
#include "agent/range.h"
#include "agent/roster.h"
#include "agent/setup.h"
#include "agent/stats.h"
#include "agent/workers.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OPS	  128
#define CONNS_MAX 64 /* more are turned away */

static int hello(struct request *r);
static int ping(struct request *r);
static int cancel(struct request *r);

/* The protocol. To add a message is to add a line. */
static const struct op ops[OPS] = {
	[PROTO_HELLO] = {.run = hello, .own = true},
	[PROTO_PING] = {.run = ping, .own = true},
	[PROTO_CANCEL] = {.run = cancel, .own = true, .one_way = true},

	[PROTO_LOOKUP] = {.run = files_lookup},
	[PROTO_FORGET] = {.run = files_forget, .own = true, .one_way = true},
	[PROTO_GETATTR] = {.run = files_getattr},
	[PROTO_SETATTR] = {.run = files_setattr},
	[PROTO_READLINK] = {.run = files_readlink},
	[PROTO_SYMLINK] = {.run = files_symlink},
	[PROTO_MKNOD] = {.run = files_mknod},
	[PROTO_MKDIR] = {.run = files_mkdir},
	[PROTO_UNLINK] = {.run = files_unlink},
	[PROTO_RMDIR] = {.run = files_rmdir},
	[PROTO_RENAME] = {.run = files_rename},
	[PROTO_LINK] = {.run = files_link},
	[PROTO_OPEN] = {.run = io_open},
	[PROTO_CREATE] = {.run = io_create},
	[PROTO_READ] = {.run = io_read, .is_slow = io_read_is_slow},
	[PROTO_WRITE] = {.run = io_write, .is_slow = io_write_is_slow},
	[PROTO_FSYNC] = {.run = io_fsync, .slow = true},
	[PROTO_CLOSE] = {.run = io_close, .own = true, .one_way = true},
	[PROTO_OPENDIR] = {.run = dirs_open},
	[PROTO_READDIR] = {.run = dirs_read, .slow = true},
	[PROTO_STATFS] = {.run = files_statfs, .slow = true},
	[PROTO_CHANGES] = {.run = changes_ask, .own = true},
	[PROTO_ACCESS] = {.run = access_check},
	[PROTO_GETXATTR] = {.run = xattr_get},
	[PROTO_SETXATTR] = {.run = xattr_set},
	[PROTO_LISTXATTR] = {.run = xattr_list},
	[PROTO_REMOVEXATTR] = {.run = xattr_remove},
	[PROTO_FALLOCATE] = {.run = range_allocate, .slow = true},
	[PROTO_LSEEK] = {.run = range_seek, .slow = true},
	[PROTO_COPY] = {.run = range_copy, .slow = true},
	[PROTO_WRITE_AS] = {.run = io_write_as, .slow = true},

	/* Locks are the loop's too, and what waits has a thread of its own. */
	[PROTO_LOCK] = {.run = locks_lock, .own = true},
	[PROTO_LOCK_TEST] = {.run = locks_test, .own = true},
	[PROTO_LOCK_DROP] = {.run = locks_drop, .own = true},
	[PROTO_FLOCK] = {.run = locks_flock, .own = true},

	/* Jobs are the loop's own: never slow. */
	[PROTO_JOB_OPEN] = {.run = jobs_open, .own = true},
	[PROTO_JOB_WRITE] = {.run = jobs_write, .own = true},
	[PROTO_JOB_START] = {.run = jobs_start, .own = true},
	[PROTO_JOB_WAIT] = {.run = jobs_wait, .own = true},
	[PROTO_JOB_MORE] = {.run = jobs_more, .own = true},
	[PROTO_JOB_INFO] = {.run = jobs_info, .own = true},
	[PROTO_JOB_READ] = {.run = jobs_read, .own = true},
	[PROTO_JOB_KILL] = {.run = jobs_kill, .own = true},
	[PROTO_JOB_DROP] = {.run = jobs_drop, .own = true},
	[PROTO_JOB_MAKE] = {.run = jobs_make, .own = true},
	[PROTO_JOB_FIND] = {.run = jobs_find, .own = true},
	[PROTO_JOB_LIST] = {.run = jobs_list, .own = true},
	[PROTO_JOB_GET] = {.run = jobs_get, .own = true},
	[PROTO_JOB_SET] = {.run = jobs_set, .own = true},
	[PROTO_JOB_STDIN] = {.run = jobs_stdin, .own = true},
	[PROTO_PS] = {.run = ps_answer, .own = true, .slow = true},
	[PROTO_STATS] = {.run = stats_answer, .own = true},

	[PROTO_PORT_OPEN] = {.run = ports_open, .own = true},
	[PROTO_PORT_READ] = {.run = ports_read, .own = true},
	[PROTO_PORT_WRITE] = {.run = ports_write, .own = true},
	[PROTO_PORT_SHUT] = {.run = ports_shut, .own = true},
	[PROTO_PORT_CLOSE] = {.run = ports_close, .own = true, .one_way = true},

	[PROTO_SETUP] = {.run = setup_ask, .own = true},
	[PROTO_IDLE] = {.run = idle_ask, .own = true},
};

static struct source listener;
static const struct server_config *config; /* constant after server_init() */
static struct conn *conns[CONNS_MAX];	   /* the loop's */

static int ping(struct request *r)
{
	return wire_end(&r->in) ? 0 : bad_request(r);
}

static int cancel(struct request *r)
{
	uint64_t id = wire_get_u64(&r->in);

	if (wire_end(&r->in) && id) {
		jobs_cancel(r->conn, id);
		locks_cancel(r->conn, id);
		setup_cancel(r->conn, id);
		idle_cancel(r->conn, id);
		changes_cancel(r->session, r->conn, id);
	}
	return 0;
}

/* A session has one connection. What the daemon asks for on a new one must not be overtaken by what
 * it had sent on another before that was lost. */
static void close_older(const struct conn *c)
{
	for (size_t i = 0; i < CONNS_MAX; i++)
		if (conns[i] && conns[i] != c && conns[i]->session == c->session)
			conn_close(conns[i]);
}

static int hello(struct request *r)
{
	uint32_t magic = wire_get_u32(&r->in);
	uint32_t version = wire_get_u32(&r->in);
	uint32_t min = wire_get_u32(&r->in);
	struct conn *c = r->conn;
	uint8_t name[PROTO_SESSION];
	struct proto_hello h = {.uid = config->uid, .gid = config->gid};
	char agent[] = SANDBOXFS_VERSION;

	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = wire_get_u8(&r->in);
	if (!wire_end(&r->in) || magic != PROTO_MAGIC || c->greeted)
		return bad_request(r);
	h.version = version < PROTO_VERSION ? version : PROTO_VERSION;
	if (h.version < PROTO_VERSION_MIN || h.version < min)
		return err_set(&r->err, EPROTONOSUPPORT,
			"the agent (%s) speaks protocol versions %u to %u, the daemon %u to %u",
			agent, PROTO_VERSION_MIN, PROTO_VERSION, min, version);
	c->session = session_attach(name, &h.resumed);
	if (!c->session)
		return -ENOMEM;
	session_use(c->session, c);
	brief_allow(c->session, h.version >= PROTO_VERSION_BRIEF);
	c->greeted = true;
	close_older(c);
	h.agent = agent;
	h.workspace = strdup(config->workspace);
	h.trouble = strdup(config->trouble);
	if (h.workspace && h.trouble)
		proto_put_hello(&r->out, &h);
	free(h.workspace);
	free(h.trouble);
	return r->out.len > PROTO_HEAD ? 0 : -ENOMEM;
}

/* Runs a request and sends its answer. What it holds is the caller's to free. */
static void answer(struct request *r)
{
	size_t begun;
	int ret;

	buf_init(&r->out, PROTO_HEAD + PROTO_MAX_BODY);
	begun = proto_begin(&r->out, r->head.type | PROTO_REPLY, 0, r->head.id, 0, 0);
	if (r->op->own)
		creds_own();
	ret = r->op->run(r);
	if (r->op->one_way || ret == PARKED) {
		buf_fini(&r->out);
		if (r->op->one_way)
			conn_uncount(r->conn, r->cost);
		return;
	}
	if (r->session)
		proto_set_seq(&r->out, begun, changes_seq(r->session));
	if (!ret)
		ret = proto_end(&r->out, begun);
	if (ret < 0) {
		buf_reset(&r->out);
		begun = proto_begin(&r->out, r->head.type | PROTO_REPLY,
			(uint16_t)err_sanitise(-ret), r->head.id, 0, 0);
		if (r->err.code == -ret)
			buf_puts(&r->out, r->err.msg);
		proto_end(&r->out, begun);
	}
	conn_reply(r->conn, &r->out, r->cost);
}

static void request_free(struct request *r)
{
	session_put(r->session);
	conn_put(r->conn);
	free(r->body);
	free(r);
}

static void answer_and_free(struct work *w)
{
	struct request *r = (struct request *)w;

	answer(r);
	request_free(r);
}

/* What a request may hold until it is answered: its body, and the bytes that it asks for. */
static size_t cost_of(const struct request *r)
{
	struct wire_in in = r->in;
	size_t asked = 0;

	if (r->head.type == PROTO_READ || r->head.type == PROTO_READDIR) {
		wire_get_u64(&in);
		wire_get_u64(&in);
		asked = wire_get_u32(&in);
	}
	return r->head.len + (asked < PROTO_MAX_DATA ? asked : PROTO_MAX_DATA);
}

/* The groups stand before all else. */
static void read_body(struct request *r, const uint8_t *body)
{
	r->in = wire_in(body, r->head.len);
	r->groups = body;
	for (unsigned i = 0; i < r->head.error; i++)
		wire_get_u32(&r->in);
}

/* Makes r (or a new request) one that outlives this call, and gives it to a worker. */
static bool to_worker(
	struct conn *c, struct request *on_stack, struct request *r, const uint8_t *body)
{
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return false;
		*r = *on_stack;
		r->body = malloc(r->head.len ? r->head.len : 1);
		if (!r->body) {
			free(r);
			return false;
		}
		memcpy(r->body, body, r->head.len);
	} else {
		uint8_t *own = r->body;

		*r = *on_stack;
		r->body = own;
	}
	read_body(r, r->body);
	conn_get(c);
	session_get(r->session);
	r->work.run = answer_and_free;
	workers_add(&r->work);
	return true;
}

/* Checks, counts and runs one request; false ends the connection. r as in server_frame(). */
static bool take(struct conn *c, struct request *now, struct request **r, const uint8_t *body)
{
	const struct proto_head *h = &now->head;
	bool known = now->op && now->op->run;
	bool slow = known && (now->op->is_slow ? now->op->is_slow(now) : now->op->slow);

	if (!c->greeted && h->type != PROTO_HELLO) {
		log_warn("a connection did not begin with HELLO");
		return false;
	}
	if (h->error > PROTO_GROUPS_MAX || now->in.bad) {
		log_warn("a request with %u groups", h->error);
		return false;
	}
	if (!h->id && !(known && now->op->one_way)) {
		log_warn("a request without an id");
		return false;
	}
	idle_request(h->type);
	now->cost = slow ? cost_of(now) : 0;
	if (!conn_count(c, now->cost)) {
		log_warn("more than %u requests in flight", PROTO_INFLIGHT);
		return false;
	}
	if (!known) {
		conn_fail(c, h->type, h->id, EOPNOTSUPP, NULL, now->cost);
	} else if (!slow) {
		answer(now);
	} else if (to_worker(c, now, *r, body)) {
		*r = NULL;
	} else {
		conn_fail(c, h->type, h->id, ENOMEM, NULL, now->cost);
	}
	/* A peer whose version we do not speak is told so, and left. */
	return c->greeted;
}

bool server_frame(
	struct conn *c, const struct proto_head *h, const uint8_t *body, struct request *r)
{
	struct request now = {.conn = c, .session = c->session, .head = *h};
	bool ok;

	now.op = h->type < OPS ? &ops[h->type] : NULL;
	read_body(&now, body);
	ok = take(c, &now, &r, body);
	if (r)
		free(r->body);
	free(r);
	return ok;
}

void server_drained(struct conn *c)
{
	ports_drained(c);
}

void server_gone(struct conn *c)
{
	for (size_t i = 0; i < CONNS_MAX; i++)
		if (conns[i] == c)
			conns[i] = NULL;
	roster_unpark(c, 0);
	setup_cancel(c, 0);
	idle_cancel(c, 0);
	locks_gone(c);
	ports_gone(c);
	if (c->session) {
		changes_cancel(c->session, c, 0);
		session_detach(c->session);
	}
	c->session = NULL;
}

static void accept_one(struct source *src, uint32_t events)
{
	int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	size_t i;

	(void)events;
	if (fd < 0)
		return;
	for (i = 0; i < CONNS_MAX && conns[i]; i++)
		;
	if (i < CONNS_MAX) {
		conns[i] = conn_new(fd);
	} else {
		log_warn("more than %d connections: one turned away", CONNS_MAX);
		close(fd);
	}
}

int server_init(int listen_fd, const struct server_config *cfg)
{
	config = cfg;
	listener.fd = listen_fd;
	listener.ready = accept_one;
	return loop_add(&listener, EPOLLIN);
}
