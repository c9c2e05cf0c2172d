/* SPDX-License-Identifier: MIT */
/*
 * The embedded engine as this folder's files see it. It keeps all in one directory, DATA:
 *
 *   images/NAME.tar      images by name; a template's image may also be a path
 *   roots/KEY/           an image unpacked: KEY is the archive's identity; host-KEY: make_root.c.
 *                        roots.c has when one goes
 *   volumes/NAME/        named volumes
 *   boxes/NAMESPACE/     one namespace's sandboxes
 *     .lock .names/      whoever gives or takes a name holds the lock; .names/NAME links to an ID
 *     .new-ID .rm-ID     being made, being removed
 *     ID/                a sandbox: record.c says what it remembers, plan.h how it is run;
 *                        root/ or upper/ and work/ are its files, state/ is the agent's, volumes/
 *                        its own volumes, agent.sock where the agent is reached, status what bwrap
 *                        wrote of the last run, log what the agent printed
 *
 * Everything in struct bwrap is set once, at open.
 */
#pragma once

#include "bwrap/cgroup.h"
#include "sandbox/engine.h"

#define BWRAP_ID_LEN  64
#define BWRAP_KEY_MAX 80 /* of a name in roots/, with its end */
/* The image that is this machine's own system. */
#define BWRAP_HOST_IMAGE "/"

struct bwrap {
	struct engine engine;
	char *data;    /* DATA */
	char *boxes;   /* DATA/boxes/NAMESPACE */
	int boxes_fd;  /* the same, open */
	char *agent;   /* path of the program */
	char *launch;  /* path of the launcher */
	char *version; /* of bwrap */
	unsigned ids;  /* how many a sandbox has */
	bool overlay;  /* the kernel lays one directory over another here */
	struct cgroups *cgroups;
};

struct record;

static inline struct bwrap *bwrap_of(struct engine *e)
{
	return (struct bwrap *)(void *)e;
}

/* Opens the sandbox's directory. -ENOENT: none by that id. */
int bwrap_box(const struct bwrap *b, const char *id, struct err *err);
/* Runs the launcher and reads what it prints, each line to line() (which may be NULL); what it says
 * in `error CODE WORDS` becomes err. stop_fd >= 0 readable: it is ended, -EINTR. */
int bwrap_launch(const struct bwrap *b, const char *const *argv, int stop_fd,
	void (*line)(void *arg, const char *text), void *arg, struct err *err);

/* create.c */
int bwrap_create(struct engine *e, const struct spec *spec, char **id, struct err *err);
int bwrap_put_state(struct engine *e, const char *id, const char *name, int fd, struct err *err);
int bwrap_remove(struct engine *e, const char *id, struct err *err);
int bwrap_rename(
	struct engine *e, const char *id, const char *name, enum engine_mark mark, struct err *err);
/* What a sandbox's directory remembers. Where that cannot be read it is still listed, so that it
 * can be removed: by the name that it had, with the reason as its error. */
int bwrap_record(const struct bwrap *b, const char *id, int fd, struct record *r, struct err *err);
/* Removes what a daemon that died left half made or half removed; old: as of roots_sweep(). */
void bwrap_sweep(const struct bwrap *b, bool old);

/* run.c */
int bwrap_start(struct engine *e, const char *id, struct err *err);
int bwrap_stop(struct engine *e, const char *id, unsigned grace_s, struct err *err);
int bwrap_pause(struct engine *e, const char *id, bool pause, struct err *err);
int bwrap_update(struct engine *e, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err);
int bwrap_connect(struct engine *e, const char *id, struct stream **s, struct err *err);
int bwrap_logs(struct engine *e, const char *id, size_t max, int stop_fd, struct buf *out,
	struct err *err);

/* list.c */
int bwrap_inspect(struct engine *e, const char *id, struct engine_box *box, struct err *err);
int bwrap_list(struct engine *e, void (*each)(void *arg, const struct engine_box *box), void *arg,
	struct err *err);
int bwrap_watch(struct engine *e, const struct engine_watcher *w, struct err *err);

/* image.c */
int bwrap_image_check(struct engine *e, const char *image, const char *platform, struct err *err);
int bwrap_image_pull(struct engine *e, const char *image, const char *platform,
	const struct engine_fetcher *f, struct err *err);
/* The name of the image's directory in roots/, a new string; -EAGAIN: it is not unpacked. */
int bwrap_image_key(const struct bwrap *b, const char *image, char **key, struct err *err);

/* What that name is for an archive, as it is now. */
int bwrap_archive_key(const char *path, char key[BWRAP_KEY_MAX], struct err *err);

/* make_root.c: what sandboxes of the host's own system have in common, as an image would be: the
 * name of the directory in roots/, a new string. It is made where it is missing; made: whoever
 * holds no root then calls roots_sweep(), since an older one may be of no use now. */
int bwrap_host_root(const struct bwrap *b, char **key, bool *made, struct err *err);
/* That name, as the host is now. */
void bwrap_host_key(char key[BWRAP_KEY_MAX]);
/* What one of them is made from, into the words of its plan; where that directory is not shared
 * also a root of its own, in its directory. */
int bwrap_make_root(int fd, bool shared, struct buf *words, struct err *err);

/* check.c: refuses, in words, what this engine cannot do. */
int bwrap_check_spec(struct engine *e, const struct spec *spec, struct err *err);
struct bwrap_tmpfs {
	size_t len; /* of the path at the text's beginning */
	uint64_t size;
	unsigned mode;
};
int bwrap_parse_tmpfs(const char *text, struct bwrap_tmpfs *t, struct err *err);

/* make_plan.c: the plan of a sandbox whose directory is fd. lower: the directory in roots/, or NULL
 * for the host's own system. */
int bwrap_make_plan(const struct bwrap *b, const struct spec *spec, const char *id,
	const char *lower, int fd, struct err *err);
