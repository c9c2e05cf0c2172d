/* SPDX-License-Identifier: MIT */
/*
 * The list of changes of a session, guarded by its lock. Each has a number; the daemon names the
 * last one that it has dealt with when it asks again, so nothing is lost with a connection. Past a
 * limit the list becomes one word, "everything".
 */
#include "agent/changes.h"

#include "agent/conn.h"
#include "agent/session.h"

#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 16384
#define BODY_MAX    (512u << 10)

struct change {
	struct change *next;
	uint64_t number, node;
	uint8_t kind;
	char name[]; /* of the kinds that have one */
};

void changes_init(struct changes *c)
{
	*c = (struct changes){.last = &c->first};
}

static void drop_first(struct changes *c)
{
	struct change *x = c->first;

	c->first = x->next;
	if (!c->first)
		c->last = &c->first;
	c->n--;
	free(x);
}

void changes_fini(struct changes *c)
{
	while (c->first)
		drop_first(c);
	if (c->conn)
		conn_put(c->conn);
	c->conn = NULL;
}

void changes_add(struct session *s, enum proto_change_kind kind, uint64_t node, const char *name)
{
	struct changes *c = &s->changes;
	size_t len = proto_change_named((uint8_t)kind) ? strlen(name) + 1 : 0;
	struct change *x = NULL;

	if (c->all > c->given)
		return; /* that says it already */
	if (c->n < CHANGES_MAX && kind != PROTO_CHANGE_ALL)
		x = malloc(sizeof(*x) + len);
	if (!x) {
		while (c->first)
			drop_first(c);
		c->all = ++c->recorded;
		return;
	}
	*x = (struct change){.number = ++c->recorded, .node = node, .kind = (uint8_t)kind};
	if (len)
		memcpy(x->name, name, len);
	*c->last = x;
	c->last = &x->next;
	c->n++;
}

/* Puts what there is into a reply's body; lock held. */
static void put_changes(struct changes *c, struct buf *b)
{
	struct proto_change p = {.kind = PROTO_CHANGE_ALL};
	size_t begun = b->len;

	c->given = c->recorded;
	if (c->all)
		proto_put_change(b, &p);
	for (struct change *x = c->first; x; x = x->next) {
		if (b->len - begun > BODY_MAX) {
			c->given = x->number - 1;
			break;
		}
		p = (struct proto_change){.kind = x->kind, .node = x->node};
		if (proto_change_named(x->kind)) {
			p.name = (const uint8_t *)x->name;
			p.name_len = strlen(x->name);
		}
		proto_put_change(b, &p);
	}
}

static bool anything(const struct changes *c)
{
	return c->all || c->first;
}

void changes_flush(struct session *s)
{
	struct changes *c = &s->changes;
	struct conn *conn = NULL;
	uint64_t id = 0;
	struct buf b;
	size_t begun = 0;

	buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
	pthread_mutex_lock(&s->lock);
	if (c->conn && anything(c)) {
		id = c->id;
		conn = c->conn;
		c->conn = NULL;
		begun = proto_begin(&b, PROTO_CHANGES | PROTO_REPLY, 0, id, 0, 0);
		put_changes(c, &b);
		proto_set_seq(&b, begun, c->given);
	}
	pthread_mutex_unlock(&s->lock);
	if (!conn)
		return;
	if (proto_end(&b, begun) == 0)
		conn_reply(conn, &b, 0);
	else
		conn_fail(conn, PROTO_CHANGES, id, ENOMEM, NULL, 0);
	buf_fini(&b);
	conn_put(conn);
}

uint64_t changes_seq(struct session *s)
{
	uint64_t seq;

	changes_flush(s);
	pthread_mutex_lock(&s->lock);
	seq = s->changes.recorded;
	pthread_mutex_unlock(&s->lock);
	return seq;
}

static void end_wait(struct conn *conn, uint64_t id)
{
	conn_fail(conn, PROTO_CHANGES, id, EINTR, NULL, 0);
	conn_put(conn);
}

int changes_ask(struct request *r)
{
	uint64_t dealt = wire_get_u64(&r->in);
	struct session *s = r->session;
	struct changes *c = &s->changes;
	struct conn *old;
	uint64_t old_id;

	if (!wire_end(&r->in))
		return bad_request(r);
	conn_get(r->conn);
	pthread_mutex_lock(&s->lock);
	while (c->first && c->first->number <= dealt)
		drop_first(c);
	if (c->all <= dealt)
		c->all = 0;
	c->given = dealt;
	old = c->conn;
	old_id = c->id;
	c->conn = r->conn;
	c->id = r->head.id;
	pthread_mutex_unlock(&s->lock);
	if (old)
		end_wait(old, old_id);
	changes_flush(s);
	return PARKED;
}

void changes_cancel(struct session *s, struct conn *conn, uint64_t id)
{
	struct changes *c = &s->changes;
	bool ours;

	pthread_mutex_lock(&s->lock);
	ours = c->conn == conn && conn && (!id || c->id == id);
	if (ours) {
		id = c->id;
		c->conn = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	if (ours)
		end_wait(conn, id);
}
