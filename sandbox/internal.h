/* SPDX-License-Identifier: MIT */
/* What sandbox.c, lifecycle.c and registry.c share, and nobody else: the structs themselves.
 * Lock order: registry->lock, then sandbox->lock, then a channel's. None is held across an engine
 * call or a callback. */
#pragma once

#include "sandbox/loop.h"
#include "sandbox/pool.h"
#include "sandbox/registry.h"

#include <pthread.h>
#include <stdatomic.h>

struct link; /* a sandbox's connection: lifecycle.c */

struct sandbox {
	_Atomic int refs;
	struct registry *registry;
	uint8_t session[PROTO_SESSION];

	pthread_mutex_t lock;
	/* Protected by registry->lock and lock: either to read, both to write. */
	char *name, *id; /* id: "" while the engine has no container for it */
	/* Protected by lock. */
	char *template, *config, *image_id, *workspace;
	uint32_t owner, uid, gid, epoch;
	int64_t created;
	enum sandbox_state state;
	bool held;	   /* stopped or paused by ctl/state */
	bool busy;	   /* a lifecycle thread brings it up, or a handshake is under way */
	bool removing;	   /* rmdir was asked for */
	bool removed;	   /* out of the registry, or a husk in it */
	struct link *link; /* NULL: not connected */
	bool ready;	   /* link's handshake is done */
	unsigned losses;   /* connections in a row that broke soon after their greeting */
	struct call *waiting;
	struct err error;
	char error_op[16];
	void *view;
	const struct view_ops *view_ops;

	/* Protected by registry->lock. */
	unsigned seen; /* the listing that last had it */
	UT_hash_handle by_name, by_id;
};

struct registry {
	struct engine *engine;
	struct loop *loop;
	struct pool *pool;
	struct report *report;
	char *namespace, *image;
	char **template_dirs;
	unsigned max_sandboxes;
	pthread_t watcher;
	int stop_fd;

	pthread_mutex_t lock;
	pthread_cond_t links_gone;
	unsigned links;		     /* connections that have not said gone(); protected by lock */
	struct sandbox *names, *ids; /* protected by lock */
	unsigned listing;	     /* protected by lock */
	bool closing;		     /* protected by lock */
};

/* sandbox.c */
struct sandbox *sandbox_new(struct registry *r, const char *name, uint32_t owner);
/* Sends c on the link; called with sb->lock held, releases it. */
void sandbox_send_unlock(struct sandbox *sb, struct call *c);
/* With sb->lock held: the calls that wait are the caller's from now on; a cancel finds them no
 * more. */
struct call *sandbox_take_waiting(struct sandbox *sb);
/* Fails all calls of a list. */
void calls_fail(struct call *list, int code, const char *words);

/* lifecycle.c */
/* Brings it up in a lifecycle thread; sb->busy has been set by the caller. */
void lifecycle_bring_up(struct sandbox *sb);
/* The same in this thread. */
void lifecycle_bring_up_now(struct sandbox *sb);
/* Sends what waits, or fails it, after the state has changed. */
void lifecycle_fail(struct sandbox *sb, const char *op, const struct err *err, bool for_good);
/* Closes the connection, if there is one. */
void lifecycle_unlink(struct sandbox *sb);
struct channel *link_channel(struct link *l);

/* registry.c */
/* Takes it out of the tables and ends its connection: the container is gone. With keep_name the
 * name stays, as a husk. */
void registry_drop(struct registry *r, struct sandbox *sb, bool keep_name);
/* Applies what the engine says of one container. */
void registry_apply(struct registry *r, const struct engine_box *box);
void registry_attach(struct registry *r, struct sandbox *sb, const char *id);
