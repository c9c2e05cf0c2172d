/* SPDX-License-Identifier: MIT */
/*
 * The client end of the protocol: many requests in flight on one stream. Sending never blocks;
 * replies are delivered from the stream's I/O thread. What the agent sends is not trusted.
 */
#pragma once

#include "common/err.h"
#include "common/proto.h"
#include "sandbox/loop.h"
#include "sandbox/stream.h"

#include <stdbool.h>
#include <uthash.h>

struct channel;

/* One request. Embed it; the memory is the caller's until done() is called, which happens exactly
 * once (for a call that was given to channel_send or sandbox_call), with no lock held. */
struct call {
	struct buf frame; /* call_begin ... call_put: the whole request */
	uint16_t type;
	bool repeat;	/* may be sent again after a lost connection */
	bool as_user;	/* acts as the sandbox's user: head ids are filled in when sent */
	uint32_t epoch; /* of the nodes and handles it names; 0: it names none that can be stale */

	/* err: 0, or -errno (then body is NULL; words, if the agent or we have any, in err_words).
	 * Returns false if the body is malformed: the agent is then cut off. */
	bool (*done)(struct call *c, int err, struct wire_in *body);
	const char *words; /* valid during done(), as the next */
	uint64_t seq; /* the changes that the agent had recorded when it answered; 0: not known */

	/* Private to the channel and the sandbox. */
	uint64_t id;
	unsigned losses; /* connections that broke under it */
	size_t sent;
	bool in_flight, waiting;
	UT_hash_handle hh;
	struct call *prev, *next;
};

/* Prepares c for a request of `type`: the fields follow with wire_* on &c->frame. */
void call_begin(struct call *c, uint16_t type, uint32_t uid, uint32_t gid);
/* Frees the frame. */
void call_fini(struct call *c);

struct channel_events {
	/* The stream ended or the agent broke the protocol (broke is true; words in err). Called
	 * once, from the I/O thread, before the calls in flight are handed to lost(). */
	void (*down)(void *arg, bool broke, const struct err *err);
	/* A call that was in flight or queued when the channel went down; the receiver owns it now.
	 */
	void (*lost)(void *arg, struct call *c);
	/* The last word: nothing is called after this. */
	void (*gone)(void *arg);
	void *arg;
};

/* Takes the stream (also on failure). */
int channel_new(struct loop *l, struct stream *s, const struct channel_events *events,
	struct channel **out);

/* Any thread. The call is the channel's until done() or lost(). A channel that is down hands it to
 * lost() at once. */
void channel_send(struct channel *ch, struct call *c);

/* Any thread: a one-way frame; copies it. Dropped when the channel is down. */
void channel_post(struct channel *ch, const struct buf *frame);

/* Any thread, for a call that was sent and whose done() has not been called: asks the agent to
 * answer it now if it waits. */
void channel_cancel(struct channel *ch, const struct call *c);

/* Ends it: lost()..., gone() follow from the I/O thread. Safe to call twice. */
void channel_close(struct channel *ch);

/* The memory stays while there are references; channel_new returns the first. */
void channel_get(struct channel *ch);
void channel_put(struct channel *ch);
