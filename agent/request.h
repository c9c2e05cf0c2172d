/* SPDX-License-Identifier: MIT */
/* One request on its way: parsed by its handler, answered by what the handler put into out. */
#pragma once

#include "agent/session.h"
#include "agent/workers.h"
#include "common/err.h"
#include "common/proto.h"

#include <errno.h>

struct conn;

struct request {
	struct work work;	 /* first: on a worker it is the request */
	struct conn *conn;	 /* counted */
	struct session *session; /* the connection's; NULL only in HELLO */
	const struct op *op;
	struct proto_head head;
	const uint8_t *groups; /* of the caller: head.error of them, 4 bytes each, in the body */
	struct wire_in in;     /* the body after those; the handler reads it to its end */
	uint8_t *body;	       /* what in points into, if it is the request's own */
	struct buf out;	       /* a frame that has been begun: the handler adds the body */
	size_t cost;	       /* bytes that this request may hold until it is answered */
	struct err err;	       /* words for a failure; optional */
};

/* A handler returns 0 (out is the reply), -errno (err may have words), or PARKED: it has kept
 * what it needs to answer later with conn_reply(). */
enum { PARKED = 1 };

struct op {
	bool slow; /* may wait for a disk or long: goes to a worker. Else the loop does it itself */
	bool own;  /* done with the agent's own rights, not the caller's */
	bool one_way; /* is never answered */
	/* Whether this very request is slow; NULL: as `slow` says. */
	bool (*is_slow)(const struct request *r);
	int (*run)(struct request *r);
};

static inline int bad_request(struct request *r)
{
	return err_set(&r->err, EINVAL, "malformed message %u", r->head.type);
}
