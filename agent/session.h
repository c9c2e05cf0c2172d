/* SPDX-License-Identifier: MIT */
/* What a daemon has open here: nodes and handles. Outlives its connection for a while. */
#pragma once

#include "agent/changes.h"
#include "agent/table.h"
#include "common/proto.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct conn;
struct locks;
struct node;

struct session {
	struct session *next; /* protected by the sessions' lock, as the next five */
	uint8_t name[PROTO_SESSION];
	unsigned conns;
	unsigned life; /* connections so far */
	unsigned refs; /* connections, requests under way, and the list */
	int64_t detached_ms;
	struct locks *locks; /* of locks.c; NULL: there are none; the loop's */

	pthread_mutex_t lock;
	struct table nodes;	      /* by number; protected by lock, as all that follows */
	struct table names;	      /* nodes by parent and name */
	struct table inos;	      /* nodes by device and inode */
	struct table handles;	      /* by number */
	struct node *newest, *oldest; /* nodes with a descriptor, by use */
	unsigned n_fds, max_fds;
	struct node *watched_first, *watched_last; /* files with a watch of their own, by age */
	unsigned asked_again;			   /* how often, for those that have none */
	struct brief *briefs;			   /* of brief.c; NULL: none yet */
	unsigned n_briefs;
	bool briefs_allowed;
	struct changes changes;
	uint64_t *closed; /* nodes of files that others closed after writing, until a barrier */
	unsigned n_closed;
	bool closed_all;		/* too many of them */
	const struct conn *newest_conn; /* compared, never followed */
};

/* Before the first session. max_fds: node descriptors that a session may keep. */
void sessions_init(int root_fd, const char *workspace, unsigned max_fds);

/* The session of that name, counted for a new connection; made if there is none. NULL: memory. */
struct session *session_attach(const uint8_t *name, bool *resumed);
void session_detach(struct session *s); /* its connection has gone */
/* c has greeted; and whether another has since: nobody waits for answers on c any more. */
void session_use(struct session *s, const struct conn *c);
bool session_is_left(struct session *s, const struct conn *c);
void session_get(struct session *s);
void session_put(struct session *s);
/* False: it is going. */
bool session_try_get(struct session *s);
/* Calls fn for each, without a lock. */
void sessions_each(void (*fn)(struct session *s, void *arg), void *arg);

/* How many connections it has had, the one that it has included; 0: it has none now. */
unsigned session_life(const uint8_t *name);

/* Drops what has been without a connection for too long; ms until the next is due, or -1. */
int sessions_expire(void);
