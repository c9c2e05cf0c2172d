/* SPDX-License-Identifier: MIT */
/*
 * The last use, and the requests that wait for the end of all use. What lasts (a running command, a
 * lock that is waited for, a forwarded connection) is looked at only when the time is over; its end
 * is a use, so nothing has to be looked at again and again. The loop's thread.
 */
#include "agent/idle.h"

#include "agent/clock.h"
#include "agent/conn.h"
#include "agent/lock_wait.h"
#include "agent/ports.h"
#include "agent/roster.h"

#include <limits.h>
#include <stdlib.h>

/* An agent that comes so late was not running: the sandbox was paused, and is used again. */
#define FROZEN_MS 1000

struct idler {
	struct idler *next;
	struct conn *conn; /* counted */
	uint64_t id;
	int64_t ms, since;
};

static struct idler *idlers;
static int64_t last_use;
static bool lasting; /* something that lasts was found: its end will be told */

void idle_touch(void)
{
	last_use = clock_ms();
	lasting = false;
}

/* Reading ctl/ is no use, and the kernel's forgetting is none either. */
static bool is_use(uint16_t type)
{
	switch (type) {
	case PROTO_FORGET:
	case PROTO_CLOSE:
		return false;
	case PROTO_JOB_OPEN:
	case PROTO_JOB_WRITE:
	case PROTO_JOB_START:
	case PROTO_JOB_KILL:
	case PROTO_JOB_DROP:
	case PROTO_JOB_MAKE:
	case PROTO_JOB_SET:
	case PROTO_JOB_STDIN:
		return true;
	default:
		return (type >= PROTO_LOOKUP && type <= PROTO_FLOCK) ||
		       (type >= PROTO_PORT_OPEN && type <= PROTO_PORT_CLOSE);
	}
}

void idle_request(uint16_t type)
{
	if (idlers && is_use(type))
		idle_touch();
}

static void count_running(struct job *j, void *arg)
{
	*(unsigned *)arg += j->result == PROTO_RESULT_RUNNING;
}

static bool something_lasts(void)
{
	unsigned n = lock_wait_count() + ports_count();

	roster_each(count_running, &n);
	return n > 0;
}

int idle_ask(struct request *r)
{
	uint64_t ms = wire_get_u64(&r->in);
	struct idler *i;

	if (!wire_end(&r->in) || !ms || ms > INT64_MAX / 4)
		return bad_request(r);
	i = malloc(sizeof(*i));
	if (!i)
		return -ENOMEM;
	conn_get(r->conn);
	*i = (struct idler){.next = idlers,
		.conn = r->conn,
		.id = r->head.id,
		.ms = (int64_t)ms,
		.since = clock_ms()};
	idlers = i;
	return PARKED;
}

static void answer(struct idler *i, int code)
{
	struct buf b;
	size_t begun;

	buf_init(&b, PROTO_HEAD);
	begun = proto_begin(&b, PROTO_IDLE | PROTO_REPLY, (uint16_t)code, i->id, 0, 0);
	if (i->conn->session)
		proto_set_seq(&b, begun, changes_seq(i->conn->session));
	if (proto_end(&b, begun) == 0) {
		conn_reply(i->conn, &b, 0);
	} else {
		buf_fini(&b);
		conn_fail(i->conn, PROTO_IDLE, i->id, ENOMEM, NULL, 0);
	}
	conn_put(i->conn);
	free(i);
}

void idle_cancel(const struct conn *c, uint64_t id)
{
	struct idler **at = &idlers, *i;

	while ((i = *at)) {
		if (i->conn != c || (id && i->id != id)) {
			at = &i->next;
			continue;
		}
		*at = i->next;
		answer(i, EINTR);
	}
}

int idle_tick(void)
{
	struct idler **at = &idlers, *i;
	int64_t now, next = INT64_MAX;

	if (!idlers || lasting)
		return -1;
	now = clock_ms();
	while ((i = *at)) {
		int64_t from = i->since > last_use ? i->since : last_use;
		int64_t left = from + i->ms - now;

		if (left <= 0 && left > -FROZEN_MS && something_lasts()) {
			lasting = true;
			return -1;
		}
		if (left <= -FROZEN_MS) {
			last_use = now;
			left = i->ms;
		}
		if (left > 0) {
			next = left < next ? left : next;
			at = &i->next;
			continue;
		}
		*at = i->next;
		answer(i, 0);
	}
	return next == INT64_MAX ? -1 : next < INT_MAX ? (int)next : INT_MAX;
}
