/* SPDX-License-Identifier: MIT */
/*
 * The seam: what an engine must be able to do. A second engine is a second struct engine_ops.
 *
 * All calls may block (they are made from the lifecycle's threads, never from a FUSE worker or an
 * I/O thread), may be made from many threads at once, and fill err with words on failure.
 * -EHOSTDOWN: the engine cannot be reached. -ENOENT: no such container, image ...
 */
#pragma once

#include "common/buf.h"
#include "common/err.h"
#include "sandbox/spec.h"
#include "sandbox/stream.h"

#include <stdbool.h>
#include <stdint.h>

/* Where things are inside every sandbox. */
#define ENGINE_AGENT_PATH "/.sandboxfs/bin/agent"
#define ENGINE_STATE_DIR  "/.sandboxfs/state"

/* Ten for pre_stop, two between TERM and KILL, and some for the engine. */
#define ENGINE_STOP_GRACE_S 15

struct engine; /* begins with const struct engine_ops *ops */

enum engine_state {
	ENGINE_CREATED, /* never started */
	ENGINE_RUNNING,
	ENGINE_PAUSED,
	ENGINE_EXITED,
	ENGINE_GONE, /* being removed, or a husk that cannot be started again */
};

/* What the user last asked for, kept by the engine with the name so that every daemon knows it. */
enum engine_mark {
	ENGINE_MARK_NONE,
	ENGINE_MARK_PAUSED,   /* by ctl/state */
	ENGINE_MARK_STOPPED,  /* by ctl/state */
	ENGINE_MARK_REMOVING, /* out of sight; whoever finds one removes it */
	ENGINE_MARK_IDLE,     /* paused or stopped because nobody used it: a touch wakes it */
};

/* A TCP port that the engine publishes itself, at that address. */
#define ENGINE_ADDRESS_MAX 64
struct engine_port {
	uint16_t port; /* inside */
	char address[ENGINE_ADDRESS_MAX];
};

/* What a container may use; 0: no limit. */
struct engine_limits {
	uint64_t memory;		      /* bytes */
	uint64_t cpu_quota_us, cpu_period_us; /* so much CPU time in each period */
	uint64_t pids;
};

enum { ENGINE_LIMIT_MEMORY = 1, ENGINE_LIMIT_CPU = 2, ENGINE_LIMIT_PIDS = 4 };

/* One container of ours. Owns its strings. */
struct engine_box {
	char *id;
	char *name; /* the sandbox's directory name; "" when removing */
	enum engine_mark mark;
	enum engine_state state;
	uint32_t owner;
	char *template;
	char *config;		     /* the JSON that spec->config was; "" if unknown */
	char *image_id;		     /* digest of the image; "" if unknown */
	int64_t created;	     /* seconds since the epoch */
	int exit_code;		     /* of the container's PID 1; valid when EXITED and detailed */
	bool oom;		     /* killed for memory; valid when detailed */
	char *error;		     /* why the engine could not start it, or "" */
	struct engine_limits limits; /* valid when detailed */
	struct engine_port *ports;   /* owned; those it has now: none while it does not run */
	size_t n_ports;
	bool detailed; /* from inspect (all fields), not from list */
};

struct engine_watcher {
	/* Subscribed: what happens from now on will be told. List now. */
	void (*up)(void *arg);
	/* This container was made, changed or removed. Inspect it. */
	void (*changed)(void *arg, const char *id);
	void *arg;
	int stop_fd; /* readable: return 0 soon */
};

/* What is told while an image is fetched, from the thread that fetches it. */
struct engine_fetcher {
	/* How far a pull is over all layers; total is what is known so far. percent: below 100. */
	void (*pulled)(void *arg, int percent, int64_t bytes, int64_t total);
	/* A line of a build's log, without its end; any bytes but control characters. */
	void (*built)(void *arg, const char *line);
	void *arg;
	int stop_fd; /* readable: return -EINTR soon */
};

struct engine_ops {
	const char *name; /* "docker" */
	/* For templates that name no image, where nobody else does; NULL: the built-in one. */
	const char *default_image;
	/* What to do where there is no image and no registry; NULL: its own words say it. */
	const char *image_hint;
	/* The ENGINE_LIMIT_* that it cannot hold a sandbox to; NULL: it can all. No template has
	 * them by default then, and one that names them is refused by check. */
	unsigned (*limits_lacking)(const struct engine *e);

	void (*close)(struct engine *e);

	/* Text for .sandboxfs/engine: name, version, API version, address; lines `key: value`. A
	 * new string in *text. Also the way to ask whether the engine answers at all. */
	int (*describe)(struct engine *e, char **text, struct err *err);

	/* Can it make such a sandbox, as far as that can be known without the image? NULL: create
	 * tells. */
	int (*check)(struct engine *e, const struct spec *spec, struct err *err);
	/* Is the image there, for the platform ("linux/arm64"; NULL: any)? 0, or -ENOENT; -EAGAIN:
	 * it is on this machine, but image_pull must be called first, which no policy forbids. */
	int (*image_check)(
		struct engine *e, const char *image, const char *platform, struct err *err);
	/* Fetches it from its registry. */
	int (*image_pull)(struct engine *e, const char *image, const char *platform,
		const struct engine_fetcher *f, struct err *err);
	/* Makes spec->image from spec->build. NULL: this engine cannot. */
	int (*image_build)(struct engine *e, const struct spec *spec,
		const struct engine_fetcher *f, struct err *err);

	/* Makes the container (the agent as PID 1), does not start it. Its id, a new string, in
	 * *id. -EEXIST: the name is taken. -ENOENT: no such image. */
	int (*create)(struct engine *e, const struct spec *spec, char **id, struct err *err);
	/* Puts the file that fd holds into the state directory of a container that was never
	 * started, as root's own, by that name. */
	int (*put_state)(
		struct engine *e, const char *id, const char *name, int fd, struct err *err);
	int (*start)(struct engine *e, const char *id, struct err *err);
	int (*stop)(struct engine *e, const char *id, unsigned grace_s, struct err *err);
	int (*pause)(struct engine *e, const char *id, bool pause, struct err *err);
	/* New name and mark. With ENGINE_MARK_REMOVING the name is not used and is free afterwards.
	 */
	int (*rename)(struct engine *e, const char *id, const char *name, enum engine_mark mark,
		struct err *err);
	/* Changes the limits whose ENGINE_LIMIT_* bit is in `which`, at once where it runs. */
	int (*update)(struct engine *e, const char *id, unsigned which,
		const struct engine_limits *limits, struct err *err);
	/* Kills it and removes it with its anonymous volumes. Gone already: 0. */
	int (*remove)(struct engine *e, const char *id, struct err *err);

	/* All fields of one container. -ENOENT: none of ours by that id. */
	int (*inspect)(struct engine *e, const char *id, struct engine_box *box, struct err *err);
	/* Calls each() for every container of the namespace; each() copies what it keeps. */
	int (*list)(struct engine *e, void (*each)(void *arg, const struct engine_box *box),
		void *arg, struct err *err);

	/* The last lines that the container printed, at most `max` bytes: each a time (RFC 3339,
	 * UTC), a blank, any bytes. Also of one that has ended. Initialises out, to be freed on
	 * success. stop_fd readable: return soon. NULL: this engine keeps none. */
	int (*logs)(struct engine *e, const char *id, size_t max, int stop_fd, struct buf *out,
		struct err *err);

	/* Follows the engine's events until the stream ends (-EHOSTDOWN, ...) or stop_fd (0). */
	int (*watch)(struct engine *e, const struct engine_watcher *w, struct err *err);

	/* A stream to the agent in a running container. */
	int (*connect)(struct engine *e, const char *id, struct stream **s, struct err *err);
};

struct engine {
	const struct engine_ops *ops;
};

/* Where an engine may be. Owns its strings. */
struct engine_place {
	char *host;	       /* unix:///path or tcp://name:port */
	char *why;	       /* in words: why there; NULL: nothing to add */
	bool tls;	       /* over TCP, with these: */
	bool unverified;       /* whoever answers is believed */
	char *ca, *cert, *key; /* files in PEM; NULL: not used */
};

void engine_place_fini(struct engine_place *place);

/* One way to look for it. host: the option's, or NULL. Writes the place on success; -ENOENT: there
 * is nothing that way; anything else: there is, and it cannot be understood. */
typedef int engine_find(const char *host, struct engine_place *place, struct err *err);

/* How an engine is opened; each engine has one function of this form. */
struct engine_config {
	const struct engine_place *place; /* NULL: the engine needs none */
	unsigned patience_s;		  /* so long it may take to answer; 0: as any call */
	const char *namespace;		  /* only this namespace's containers are seen */
	const char *agent_path;		  /* the agent program on this machine */
	const char *launch_path; /* the embedded engine's launcher; NULL: it was not found */
};

typedef int engine_open(const struct engine_config *config, struct engine **e, struct err *err);

engine_open docker_engine_open; /* Docker, Podman: what speaks Docker's API */
engine_open bwrap_engine_open;	/* the embedded one: its place is a directory */

engine_find docker_place_option;  /* the option itself */
engine_find docker_place_env;	  /* DOCKER_HOST */
engine_find docker_place_context; /* the docker command's current context */
engine_find docker_place_socket;  /* Docker's usual one */
engine_find docker_place_podman;  /* Podman's: root's, or the user's own */
engine_find bwrap_place;	  /* the option's, or the user's directory for data */

void engine_box_fini(struct engine_box *box);
int engine_box_copy(struct engine_box *to, const struct engine_box *from);
