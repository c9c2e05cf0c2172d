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
	bool repeat;  /* may be sent again after a lost connection */
	bool patient; /* waits for a command: an engine that is away for a while does not end it */
	bool gentle;  /* starts nothing: -EAGAIN where the sandbox does not run or cannot be reached
		       */
	bool bulk;    /* much data that is in no hurry: goes when nothing else is to be sent */
	bool as_user; /* acts as the sandbox's user: head ids are filled in when sent */
	bool linked;  /* was for one connection: unless it may be repeated, for no other */
	uint32_t epoch; /* of the nodes and handles it names; 0: it names none that can be stale */

	/* err: 0, or -errno (then body is NULL; words, if the agent or we have any, in err_words).
	 * Returns false if the body is malformed: the agent is then cut off. */
	bool (*done)(struct call *c, int err, struct wire_in *body);
	const char *words; /* valid during done(), as the next */
	uint64_t seq; /* the changes that the agent had recorded when it answered; 0: not known */

	/* Private to the channel and the sandbox. */
	uint64_t id;
	unsigned losses;  /* connections that broke under it */
	int64_t until_ms; /* a patient one: for how long; 0: it never had to wait for an engine */
	size_t sent;
	bool in_flight, waiting;
	bool owed; /* a one-way one that must arrive; id: of the last request sent before it */
	UT_hash_handle hh;
	struct call *prev, *next;
};

/* Prepares c for a request of `type`: the fields follow with wire_* on &c->frame. */
void call_begin(struct call *c, uint16_t type, uint32_t uid, uint32_t gid);
/* Frees the frame. */
void call_fini(struct call *c);
/* Of one that was lost, or not taken: whether the agent can have all of it. */
bool call_was_sent(const struct call *c);

struct channel_events {
	/* The stream ended or the agent broke the protocol (broke is true; words in err). Called
	 * once, from the I/O thread, before the calls in flight are handed to lost(). */
	void (*down)(void *arg, bool broke, const struct err *err);
	/* A call that was in flight or queued when the channel went down; the receiver owns it now.
	 */
	void (*lost)(void *arg, struct call *c);
	/* A frame of channel_give() of which it is not known that the agent has it; the same. */
	void (*owed)(void *arg, struct call *c);
	/* The last word: nothing is called after this. */
	void (*gone)(void *arg);
	void *arg;
};

/* Takes the stream (also on failure). */
int channel_new(struct loop *l, struct stream *s, const struct channel_events *events,
	struct channel **out);

/* Any thread. The call is the channel's until done() or lost(). -EPIPE: all that is lost has been
 * handed to lost(), and the call stays the caller's. */
int channel_send(struct channel *ch, struct call *c);

/* Any thread: a one-way frame; copies it. Dropped when the channel is down. */
void channel_post(struct channel *ch, const struct buf *frame);

/* The same for one that must arrive: it is the channel's until the answer to a later request shows
 * that the agent has it, or until owed(). -EPIPE: it stays the caller's. */
int channel_give(struct channel *ch, struct call *oneway);
struct call *oneway_new(const struct buf *frame); /* a copy; NULL: no memory, or too long */
void oneway_free(struct call *c);

/* Any thread, for a call that was sent and whose done() has not been called: asks the agent to
 * answer it now if it waits. */
void channel_cancel(struct channel *ch, const struct call *c);

/* How many calls are under way, but for those that only wait for something to happen, and, unless
 * `gentle`, for those that only look. */
unsigned channel_uses(struct channel *ch, bool gentle);

/* Ends it: lost()..., gone() follow from the I/O thread. Safe to call twice. */
void channel_close(struct channel *ch);

/* The memory stays while there are references; channel_new returns the first. */
void channel_get(struct channel *ch);
void channel_put(struct channel *ch);
