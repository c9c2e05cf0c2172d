/* SPDX-License-Identifier: MIT */
/*
 * The seam: what an engine must be able to do. A second engine is a second struct engine_ops.
 *
 * All calls may block (they are made from the lifecycle's threads, never from a FUSE worker or an
 * I/O thread), may be made from many threads at once, and fill err with words on failure.
 * -EHOSTDOWN: the engine cannot be reached. -ENOENT: no such container, image ...
 */
#pragma once

#include "common/err.h"
#include "sandbox/stream.h"

#include <stdbool.h>
#include <stdint.h>

/* Where things are inside every sandbox. */
#define ENGINE_AGENT_PATH "/.sandboxfs/bin/agent"
#define ENGINE_STATE_DIR  "/.sandboxfs/state"

struct engine; /* begins with const struct engine_ops *ops */

/* What a sandbox is to be made from: a resolved template. Owns all its strings. */
struct spec_volume {
	char *source; /* NULL: anonymous; else the name of a volume */
	char *target;
	bool read_only;
};

struct spec {
	char *namespace, *name; /* the directory's whole name */
	uint32_t owner;		/* uid that made it */
	char *template;		/* name of the template */
	char *image;
	char *pull_policy; /* "missing" (default), "always", "never" */
	char *user;	   /* NULL: the image's */
	char *working_dir;
	char **environment; /* KEY=VALUE; NULL-terminated, as the other lists */
	char **command;	    /* argv of the main program; NULL: none */
	char **tmpfs;	    /* "/path" or "/path:options" */
	struct spec_volume *volumes;
	size_t n_volumes;
	char **cap_add, **cap_drop;
	char *network_mode; /* "none" by default */
	char *hostname;
	bool read_only;
	uint64_t mem_limit;  /* bytes, 0: none */
	uint32_t cpus_milli; /* thousandths of a CPU, 0: none */
	uint32_t pids_limit; /* 0: none */
	char *config;	     /* the resolved template as JSON, secrets masked */
};

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
};

/* One container of ours. Owns its strings. */
struct engine_box {
	char *id;
	char *name; /* the sandbox's directory name; "" when removing */
	enum engine_mark mark;
	enum engine_state state;
	uint32_t owner;
	char *template;
	char *config;	 /* the JSON that spec->config was; "" if unknown */
	char *image_id;	 /* digest of the image; "" if unknown */
	int64_t created; /* seconds since the epoch */
	int exit_code;	 /* of the container's PID 1; valid when EXITED and detailed */
	bool oom;	 /* killed for memory; valid when detailed */
	char *error;	 /* why the engine could not start it, or "" */
	bool detailed;	 /* from inspect (all fields), not from list */
};

struct engine_watcher {
	/* Subscribed: what happens from now on will be told. List now. */
	void (*up)(void *arg);
	/* This container was made, changed or removed. Inspect it. */
	void (*changed)(void *arg, const char *id);
	void *arg;
	int stop_fd; /* readable: return 0 soon */
};

struct engine_ops {
	const char *name; /* "docker" */

	void (*close)(struct engine *e);

	/* Text for .sandboxfs/engine: name, version, API version, address; lines `key: value`. A
	 * new string in *text. Also the way to ask whether the engine answers at all. */
	int (*describe)(struct engine *e, char **text, struct err *err);

	/* Is the image there? 0, or -ENOENT. */
	int (*image_check)(struct engine *e, const char *image, struct err *err);
	/* Fetches it; progress is called with a line of text now and then, from this thread; a
	 * progress that returns false ends the pull with -EINTR. */
	int (*image_pull)(struct engine *e, const char *image,
		bool (*progress)(void *arg, const char *line), void *arg, struct err *err);

	/* Makes the container (the agent as PID 1), does not start it. Its id, a new string, in
	 * *id. -EEXIST: the name is taken. -ENOENT: no such image. */
	int (*create)(struct engine *e, const struct spec *spec, char **id, struct err *err);
	int (*start)(struct engine *e, const char *id, struct err *err);
	int (*stop)(struct engine *e, const char *id, unsigned grace_s, struct err *err);
	int (*pause)(struct engine *e, const char *id, bool pause, struct err *err);
	/* New name and mark. With ENGINE_MARK_REMOVING the name is not used and is free afterwards.
	 */
	int (*rename)(struct engine *e, const char *id, const char *name, enum engine_mark mark,
		struct err *err);
	/* Kills it and removes it with its anonymous volumes. Gone already: 0. */
	int (*remove)(struct engine *e, const char *id, struct err *err);

	/* All fields of one container. -ENOENT: none of ours by that id. */
	int (*inspect)(struct engine *e, const char *id, struct engine_box *box, struct err *err);
	/* Calls each() for every container of the namespace; each() copies what it keeps. */
	int (*list)(struct engine *e, void (*each)(void *arg, const struct engine_box *box),
		void *arg, struct err *err);

	/* Follows the engine's events until the stream ends (-EHOSTDOWN, ...) or stop_fd (0). */
	int (*watch)(struct engine *e, const struct engine_watcher *w, struct err *err);

	/* A stream to the agent in a running container. */
	int (*connect)(struct engine *e, const char *id, struct stream **s, struct err *err);
};

struct engine {
	const struct engine_ops *ops;
};

/* How an engine is opened; each engine has one function of this form. */
struct engine_config {
	const char *host;	/* NULL: the engine's usual places */
	const char *namespace;	/* only this namespace's containers are seen */
	const char *agent_path; /* the agent program on this machine */
};

int docker_engine_open(const struct engine_config *config, struct engine **e, struct err *err);

void engine_box_fini(struct engine_box *box);
int engine_box_copy(struct engine_box *to, const struct engine_box *from);
void spec_fini(struct spec *spec);
