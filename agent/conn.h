/* SPDX-License-Identifier: MIT */
/* A connection: frames in, replies out, with bounds on both. */
#pragma once

#include "agent/loop.h"
#include "agent/request.h"

#include <pthread.h>

struct chunk;

struct conn {
	struct source src; /* first: a source is its connection */
	bool greeted;	   /* HELLO was answered; the loop's, as the next five */
	struct session *session;
	uint8_t *in; /* bytes read and not yet parsed: in[in_at .. in_len) */
	size_t in_at, in_len;
	struct request *big; /* a frame too large for `in`, being filled */
	size_t big_len;

	pthread_mutex_t lock;
	int fd; /* -1: closed; protected by lock, as all that follows */
	unsigned refs;
	unsigned inflight; /* requests without a reply yet */
	size_t cost;	   /* bytes that those may hold */
	struct chunk *first, *last;
	size_t queued; /* bytes in the chunks */
	uint32_t events;
	bool corked;  /* the loop is at it and will send in a moment */
	bool held;    /* whole frames wait in `in` until replies have been taken */
	bool stalled; /* conn_is_busy() was true: server_drained() is owed */
};

/* Takes fd over. NULL: no memory. */
struct conn *conn_new(int fd);
void conn_get(struct conn *c);
void conn_put(struct conn *c);

/* Ends it, on the loop's thread; what was not read of it is never read. */
void conn_close(struct conn *c);

/* A request is counted until conn_reply(): false if there are too many. */
bool conn_count(struct conn *c, size_t cost);

/* Sends the frame (and takes its memory), as the answer to a counted request of that cost. */
void conn_reply(struct conn *c, struct buf *frame, size_t cost);
/* The same for a failure without a request at hand, words may be NULL. */
void conn_fail(
	struct conn *c, uint16_t type, uint64_t id, int code, const char *words, size_t cost);
/* A counted request that gets no answer. */
void conn_uncount(struct conn *c, size_t cost);

/* The loop's: whether bulk data is to wait, so that small replies do not wait behind it. If so,
 * server_drained() comes when it is over. */
bool conn_is_busy(struct conn *c);

/* In server.c: what conn_is_busy() kept waiting may go on. */
void server_drained(struct conn *c);
/* In server.c: a whole frame came. False: end the connection. body is valid during the call, or
 * owned by r when r is not NULL (a request that was allocated for it, taken over). */
bool server_frame(
	struct conn *c, const struct proto_head *h, const uint8_t *body, struct request *r);
/* In server.c: the connection has ended; before its memory goes. */
void server_gone(struct conn *c);
