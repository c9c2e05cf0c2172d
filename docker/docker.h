/* SPDX-License-Identifier: MIT */
/* The Docker engine as this folder's files see it, and the calls of struct engine_ops by the file
 * that owns them. Everything here is set once, at open; what changes has its own lock. */
#pragma once

#include "docker/agent_volume.h"
#include "docker/flavour.h"
#include "docker/http.h"
#include "docker/json.h"
#include "sandbox/engine.h"

#define LABEL_NAMESPACE "sandboxfs.namespace"
#define LABEL_OWNER	"sandboxfs.owner"
#define LABEL_TEMPLATE	"sandboxfs.template"
#define LABEL_CONFIG	"sandboxfs.config"
#define LABEL_VERSION	"sandboxfs.version"
#define LABEL_MAKING	"sandboxfs.making" /* which request made it */
#define LABEL_BUILT	"sandboxfs.built"  /* of an image that we built */

struct docker {
	struct engine engine;
	struct http *http;
	char *namespace;
	struct agent_volume *agent;
	struct flavour flavour;
	char *config; /* the docker command's config.json: a path that stays true after chdir */
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

/* What the engine says of a container; cJSON_Delete it. */
int docker_container(struct docker *d, const char *id, cJSON **out, struct err *err);
/* {"label": [...]}: the containers of our namespace, for a filter. */
void docker_filter(struct json_builder *b, cJSON *filter, const char *namespace);

/* update.c */
int docker_update(struct engine *e, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err);

/* state.c */
int docker_put_state(struct engine *e, const char *id, const char *name, int fd, struct err *err);

/* images.c */
int docker_image_check(struct engine *e, const char *image, const char *platform, struct err *err);
int docker_image_pull(struct engine *e, const char *image, const char *platform,
	const struct engine_fetcher *f, struct err *err);

/* build.c */
int docker_image_build(
	struct engine *e, const struct spec *spec, const struct engine_fetcher *f, struct err *err);

/* events.c */
int docker_watch(struct engine *e, const struct engine_watcher *w, struct err *err);

/* logs.c */
int docker_logs(struct engine *e, const char *id, size_t max, int stop_fd, struct buf *out,
	struct err *err);

/* stream.c */
int docker_connect(struct engine *e, const char *id, struct stream **s, struct err *err);
