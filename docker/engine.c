/* SPDX-License-Identifier: MIT */
/* The Docker engine: opening it, describing it, and its table of calls. Owns struct docker; any
 * thread may use it between open and close. */
#include "docker/docker.h"

#include "common/cleanup.h"
#include "docker/config.h"
#include "docker/json.h"

#include <errno.h>
#include <string.h>

#define OPEN_TRIES 2 /* someone waits for the mount's answer */

static void docker_close(struct engine *e)
{
	struct docker *d = docker_of(e);

	agent_volume_free(d->agent);
	http_free(d->http);
	free(d->namespace);
	free(d->config);
	free(d);
}

static int ask(struct docker *d, const char *path, unsigned tries, unsigned timeout_s, cJSON **out,
	struct err *err)
{
	struct http_call c = {
		.method = "GET", .path = path, .tries = tries, .timeout_s = timeout_s};

	return http_json(d->http, &c, out, err);
}

static int docker_describe(struct engine *e, char **text, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_json cJSON *v = NULL;
	const char *number;
	struct buf b;
	int rc = ask(d, "/version", 0, 0, &v, err);

	if (rc)
		return rc;
	number = json_string(v, "Version");
	buf_init(&b, 4096);
	buf_printf(&b, "engine: %s\nversion: %.64s\napi: %s\naddress: %s\nagent: %s\n",
		d->flavour.name, number ? number : "", http_prefix(d->http) + 2, http_host(d->http),
		agent_volume_name(d->agent));
	*text = buf_steal(&b);
	return *text ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int docker_check(struct engine *e, const struct spec *spec, struct err *err)
{
	return flavour_check(&docker_of(e)->flavour, spec, err);
}

static unsigned docker_limits_lacking(const struct engine *e)
{
	const struct docker *d = (const struct docker *)(const void *)e;

	return d->flavour.limits_lacking;
}

static const struct engine_ops docker_ops = {
	.name = "docker",
	.limits_lacking = docker_limits_lacking,
	.close = docker_close,
	.describe = docker_describe,
	.check = docker_check,
	.image_check = docker_image_check,
	.image_pull = docker_image_pull,
	.image_hint = "where no registry can be reached, scripts/make-base-image makes an image, "
		      "sandboxfs-base:latest, from Debian's packages",
	.image_build = docker_image_build,
	.create = docker_create,
	.put_state = docker_put_state,
	.start = docker_start,
	.stop = docker_stop,
	.pause = docker_pause,
	.rename = docker_rename,
	.update = docker_update,
	.remove = docker_remove,
	.inspect = docker_inspect,
	.list = docker_list,
	.logs = docker_logs,
	.watch = docker_watch,
	.connect = docker_connect,
};

static int open_place(struct docker *d, const struct engine_config *config, struct err *err)
{
	cleanup_json cJSON *v = NULL, *info = NULL;
	const char *api;
	int rc;

	rc = http_new(config->place->host, &d->http, err);
	rc = rc ? rc : http_set_tls(d->http, config->place, err);
	rc = rc ? rc : ask(d, "/version", OPEN_TRIES, config->patience_s, &v, err);
	rc = rc ? rc : ask(d, "/info", OPEN_TRIES, config->patience_s, &info, err);
	if (rc)
		return rc;
	flavour_read(v, info, &d->flavour);
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
	d->config = config_path("config.json");
	rc = d->namespace && d->config ? 0 : err_set(err, ENOMEM, "out of memory");
	rc = rc ? rc : agent_volume_new(config->agent_path, &d->agent, err);
	rc = rc ? rc : open_place(d, config, err);
	if (rc) {
		docker_close(&d->engine);
		return rc;
	}
	*e = &d->engine;
	return 0;
}
