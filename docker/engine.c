/* SPDX-License-Identifier: MIT */
/* The Docker engine: opening it, describing it, and its table of calls. Owns struct docker; any
 * thread may use it between open and close. */
#include "docker/docker.h"

#include "common/cleanup.h"
#include "docker/json.h"

#include <errno.h>
#include <string.h>

#define USUAL_HOST "unix:///var/run/docker.sock"
#define OPEN_TRIES 2 /* someone waits for the mount's answer */

static void docker_close(struct engine *e)
{
	struct docker *d = docker_of(e);

	agent_volume_free(d->agent);
	http_free(d->http);
	free(d->namespace);
	free(d);
}

static int version(struct docker *d, unsigned tries, cJSON **out, struct err *err)
{
	struct http_call c = {.method = "GET", .path = "/version", .tries = tries};

	return http_json(d->http, &c, out, err);
}

static int docker_describe(struct engine *e, char **text, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_json cJSON *v = NULL;
	const char *name = "docker", *number;
	struct buf b;
	int rc = version(d, 0, &v, err);

	if (rc)
		return rc;
	number = json_string(v, "Version");
	for (const cJSON *c = json_array(v, "Components") ? json_array(v, "Components")->child
							  : NULL;
		c; c = c->next) {
		const char *s = json_string(c, "Name");

		if (s && !strncmp(s, "Podman", 6))
			name = "podman";
	}
	buf_init(&b, 4096);
	buf_printf(&b, "engine: %s\nversion: %.64s\napi: %s\naddress: %s\nagent: %s\n", name,
		number ? number : "", http_prefix(d->http) + 2, http_host(d->http),
		agent_volume_name(d->agent));
	*text = buf_steal(&b);
	return *text ? 0 : err_set(err, ENOMEM, "out of memory");
}

static const struct engine_ops docker_ops = {
	.name = "docker",
	.close = docker_close,
	.describe = docker_describe,
	.image_check = docker_image_check,
	.image_pull = docker_image_pull,
	.create = docker_create,
	.start = docker_start,
	.stop = docker_stop,
	.pause = docker_pause,
	.rename = docker_rename,
	.remove = docker_remove,
	.inspect = docker_inspect,
	.list = docker_list,
	.watch = docker_watch,
	.connect = docker_connect,
};

static int open_host(struct docker *d, const char *host, struct err *err)
{
	cleanup_json cJSON *v = NULL;
	const char *api;
	int rc;

	if (!host || !*host)
		host = getenv("DOCKER_HOST");
	if (!host || !*host)
		host = USUAL_HOST;
	rc = http_new(host, &d->http, err);
	if (rc)
		return rc;
	rc = version(d, OPEN_TRIES, &v, err);
	if (rc)
		return rc;
	api = json_string(v, "ApiVersion");
	return http_set_version(d->http, api ? api : "", err);
}

int docker_engine_open(const struct engine_config *config, struct engine **e, struct err *err)
{
	struct docker *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return err_set(err, ENOMEM, "out of memory");
	d->engine.ops = &docker_ops;
	d->namespace = strdup(config->namespace);
	rc = d->namespace ? 0 : err_set(err, ENOMEM, "out of memory");
	rc = rc ? rc : agent_volume_new(config->agent_path, &d->agent, err);
	rc = rc ? rc : open_host(d, config->host, err);
	if (rc) {
		docker_close(&d->engine);
		return rc;
	}
	*e = &d->engine;
	return 0;
}
