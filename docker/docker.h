/* SPDX-License-Identifier: MIT */
/* The Docker engine as this folder's files see it, and the calls of struct engine_ops by the file
 * that owns them. Everything here is set once, at open; what changes has its own lock. */
#pragma once

#include "docker/agent_volume.h"
#include "docker/http.h"
#include "sandbox/engine.h"

#define LABEL_NAMESPACE "sandboxfs.namespace"
#define LABEL_OWNER	"sandboxfs.owner"
#define LABEL_TEMPLATE	"sandboxfs.template"
#define LABEL_CONFIG	"sandboxfs.config"
#define LABEL_VERSION	"sandboxfs.version"

struct docker {
	struct engine engine;
	struct http *http;
	char *namespace;
	struct agent_volume *agent;
};

static inline struct docker *docker_of(struct engine *e)
{
	return (struct docker *)(void *)e;
}

/* containers.c */
int docker_create(struct engine *e, const struct spec *spec, char **id, struct err *err);
int docker_start(struct engine *e, const char *id, struct err *err);
int docker_stop(struct engine *e, const char *id, unsigned grace_s, struct err *err);
int docker_pause(struct engine *e, const char *id, bool pause, struct err *err);
int docker_rename(
	struct engine *e, const char *id, const char *name, enum engine_mark mark, struct err *err);
int docker_remove(struct engine *e, const char *id, struct err *err);
int docker_inspect(struct engine *e, const char *id, struct engine_box *box, struct err *err);
int docker_list(struct engine *e, void (*each)(void *arg, const struct engine_box *box), void *arg,
	struct err *err);

/* images.c */
int docker_image_check(struct engine *e, const char *image, struct err *err);
int docker_image_pull(struct engine *e, const char *image,
	bool (*progress)(void *arg, const char *line), void *arg, struct err *err);

/* events.c */
int docker_watch(struct engine *e, const struct engine_watcher *w, struct err *err);

/* stream.c */
int docker_connect(struct engine *e, const char *id, struct stream **s, struct err *err);
