/* SPDX-License-Identifier: MIT */
/* What sandbox.c, lifecycle.c and registry.c share, and nobody else: the structs themselves.
 * Lock order: registry->lock, then sandbox->lock, then a channel's. None is held across an engine
 * call or a callback. */
#pragma once

#include "sandbox/fetch.h"
#include "sandbox/loop.h"
#include "sandbox/pool.h"
#include "sandbox/registry.h"

#include <pthread.h>
#include <stdatomic.h>

struct link;	/* a sandbox's connection: link.c */
struct forward; /* a port that is forwarded: forward.c */
struct tunnel;	/* a connection to one: tunnel.c */

/* What of the template concerns this daemon while the sandbox lives: from its config. */
struct policy {
	bool known; /* it was read */
	bool pre_stop;
	uint64_t idle_ms, ttl_ms, timeout_ms; /* 0: none */
	enum spec_idle idle_action;
};

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
	unsigned setters;	    /* writes to ctl/state under way */
	unsigned limiters;	    /* writes to its limits under way */
	struct question *questions; /* facts.c's: that one thread will answer */
	unsigned refused;	    /* connections in a row that were never greeted */
	int64_t created;
	enum sandbox_state state;
	struct policy policy;
	bool ttl_set;	 /* its timer runs */
	bool held;	 /* stopped or paused by ctl/state */
	bool idle;	 /* paused or stopped because nobody used it, or just about to be: what is
			    to be sent waits, and wakes it */
	bool setting_up; /* greeted; its setup is under way */
	bool idle_asked; /* idle_call is out */
	struct call idle_call;
	bool busy;	      /* a lifecycle thread brings it up, or a handshake is under way */
	bool removing;	      /* rmdir was asked for */
	bool removed;	      /* out of the registry, or a husk in it */
	struct link *link;    /* NULL: not connected */
	bool ready;	      /* link's handshake is done */
	bool limits_known;    /* since the engine was last listed */
	bool published_known; /* since it was last started */
	unsigned losses;      /* connections in a row that broke soon after their greeting */
	_Atomic unsigned n_tunnels; /* written with the lock held */
	bool retrying;		    /* a timer will look whether the engine is back */
	struct call *waiting;
	struct call *owed; /* owed.c's, as the next two */
	size_t owed_bytes;
	bool owed_full; /* and some was dropped */
	struct err error;
	char error_op[16];
	void *view;
	const struct view_ops *view_ops;
	uint64_t moved; /* registry->moves when its state or name last changed */
	struct engine_limits limits;
	struct engine_port *published;
	size_t n_published;
	struct forward *forwards; /* forward.c's */
	struct tunnel *tunnels;	  /* tunnel.c's */
	int64_t port_noted_ms;	  /* when a failed connection was last noted */

	/* Protected by registry->lock. */
	unsigned seen; /* the listing that last had it */
	UT_hash_handle by_name, by_id;
};

struct registry {
	struct engine *engine;
	const char *chosen; /* borrowed; NULL: nothing to say */
	struct loop *loop;
	struct pool *pool;
	struct pool *ends; /* removals, which may wait for a pre_stop: nobody else is to */
	struct fetches *fetches;
	struct report *report;
	struct events *events;
	struct log_cache *log;
	char *namespace;
	const struct template_rules *rules;
	unsigned max_sandboxes;
	pthread_t watcher;
	int stop_fd;

	pthread_mutex_t lock;
	pthread_cond_t links_gone;
	unsigned links; /* connections that have not said gone(), ports and tunnels; protected by
			 * lock
			 */
	_Atomic uint64_t next_port;  /* numbers of tunnels towards agents */
	struct sandbox *names, *ids; /* protected by lock */
	unsigned listing;	     /* protected by lock */
	bool closing;		     /* protected by lock */
	uint64_t removals;	     /* moves when a sandbox last went; protected by lock */
	_Atomic uint64_t moves;	     /* counts changes, to know what is older than one */
};

/* sandbox.c */
struct sandbox *sandbox_new(struct registry *r, const char *name, uint32_t owner);
/* With sb->lock held: another state, and the event that tells of it, once. words: why, or NULL. */
void sandbox_become(struct sandbox *sb, enum sandbox_state state, const char *words);
/* Sends c on the link; called with sb->lock held, releases it. */
void sandbox_send_unlock(struct sandbox *sb, struct call *c);
/* After a lost connection: whether it is to be sent again. Counts. What the agent cannot have got
 * may always be. */
#define CALL_LOSSES 3
bool call_may_repeat(struct call *c);
/* With sb->lock held: the calls that wait are the caller's from now on; a cancel finds them no
 * more. */
struct call *sandbox_take_waiting(struct sandbox *sb);
/* Fails all calls of a list. */
void calls_fail(struct call *list, int code, const char *words);

/* owed.c */
/* A CLOSE or FORGET of c->epoch: sends it, or keeps it for the next connection. Takes it. */
void owed_give(struct sandbox *sb, struct call *c);
/* With sb->lock held, as soon as it is ready: before all else what was kept. */
void owed_send(struct sandbox *sb);
void owed_fini(struct sandbox *sb);
/* c was sent, and its answer lost: what it may have opened is closed, what it named forgotten. If c
 * is sent again, that comes after this. */
void owed_outcome(struct sandbox *sb, const struct call *c);

/* lifecycle.c */
/* Brings it up in a lifecycle thread; sb->busy has been set by the caller. */
void lifecycle_bring_up(struct sandbox *sb);
/* The same in this thread. */
void lifecycle_bring_up_now(struct sandbox *sb);
/* Connects to it if it runs; else nothing is started, unless a call waits that may. The same. */
void lifecycle_connect(struct sandbox *sb);
/* Sends what waits, or fails it, after the state has changed. */
void lifecycle_fail(struct sandbox *sb, const char *op, const struct err *err, bool for_good);
/* Closes the connection, if there is one. */
void lifecycle_unlink(struct sandbox *sb);
struct channel *link_channel(struct link *l);
/* The connection was lost under calls (which may be none) that can be sent again; sb->busy has been
 * set by the caller. */
void lifecycle_recover(struct sandbox *sb, struct call *limbo);
/* With sb->lock held, the engine is away: of the calls, those that are patient wait on, until it is
 * back or for long enough; the rest stays in the list. */
void lifecycle_keep(struct sandbox *sb, struct call **list);

/* Sends what waits over the connection, if that is ready; false: it is not. */
bool lifecycle_send_waiting(struct sandbox *sb);
/* Ends and removes its container, in good order where the template has something to be done. */
int lifecycle_remove_box(struct registry *r, const char *id, bool pre_stop, struct err *err);
/* The name and what the user asked for, as they are now. The name is a new string. */
char *lifecycle_name_and_mark(struct sandbox *sb, enum engine_mark *mark);

/* setup_reply.c */
/* What the agent says of the setup: 0, or -errno and words. started: by us, so that it is told. */
int setup_verdict(struct sandbox *sb, const struct proto_setup *s, bool started, struct err *err);

/* idle.c */
struct policy policy_read(const char *config);
/* With the lock held: reads the policy if that has not been done. */
void policy_know(struct sandbox *sb);
/* It is connected, or was woken: asks the agent to tell when nobody uses it any more. */
void idle_ask(struct sandbox *sb);
/* It was made, or the engine has told of it: a timer for its end, and a connection if one is
 * needed. */
void idle_seen(struct sandbox *sb, bool running);

/* registry.c */
/* Runs fn(arg) in a lifecycle thread, unless the registry is being closed. From any thread. */
int registry_run(struct registry *r, void (*fn)(void *arg), void *arg);
/* A new reference, or NULL. */
struct sandbox *registry_by_id(struct registry *r, const char *id);
/* Takes it out of the tables and ends its connection. With keep_name the name stays, as a husk.
 * True if it had not been dropped before. */
bool registry_drop(struct registry *r, struct sandbox *sb, bool keep_name);
/* The same because the container is gone, which is told. */
void registry_removed(struct registry *r, struct sandbox *sb, bool keep_name);
/* Applies what the engine says of one container; asked: r->moves before it was asked. False: it is
 * older than what is known, and to be asked for again. */
bool registry_apply(struct registry *r, const struct engine_box *box, uint64_t asked);
void registry_attach(struct registry *r, struct sandbox *sb, const char *id);

/* listing.c */
/* Asks the engine about one container, or all, and applies what it says. */
void registry_look(struct registry *r, const char *id);
int registry_relist(struct registry *r, struct err *err);
/* Again and again, while it is open. */
void registry_relist_anyway(struct registry *r);
/* The thread that follows the engine, until stop_fd. */
void *registry_watch(void *registry);
