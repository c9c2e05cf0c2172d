/* SPDX-License-Identifier: MIT */
/* What a daemon was told and is so no longer: a session's list, given out by CHANGES. */
#pragma once

#include "common/proto.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct request;
struct session;

struct changes {
	struct change *first, **last; /* not yet confirmed by the daemon */
	unsigned n;
	uint64_t recorded; /* the newest one's number: how many there were in all */
	uint64_t given;	   /* the newest one in a reply */
	uint64_t all;	   /* not 0: everything changed, as that number */
	struct conn *conn; /* the request that waits (counted), NULL: none */
	uint64_t id;
};

void changes_init(struct changes *c);
void changes_fini(struct changes *c);

/* Records one; s->lock is held. name is for the kinds that have one. */
void changes_add(struct session *s, enum proto_change_kind kind, uint64_t node, const char *name);

/* Answers the request that waits, if there is something to tell. Without the lock; any thread. */
void changes_flush(struct session *s);

/* How many there were so far: for a reply, whose reader will wait to hear of them, so they are
 * given out first. */
uint64_t changes_seq(struct session *s);

/* The message, and the end of its wait: by CANCEL, or (id 0) of its connection. */
int changes_ask(struct request *r);
void changes_cancel(struct session *s, struct conn *c, uint64_t id);
