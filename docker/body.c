/* SPDX-License-Identifier: MIT */
/*
 * A spec as the body of "create container". The agent is the entrypoint and root inside; what the
 * template adds can open the sandbox up, never reach our own directory in it. Any thread.
 */
#include "docker/body.h"

#include "common/buf.h"
#include "docker/body_parts.h"
#include "docker/docker.h"
#include "sandbox/setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MAX_SIZE "1m"
#define GROUPS_MAX   (1u << 20)

static void add_strings(struct json_builder *b, cJSON *to, char *const *list)
{
	for (; list && *list; list++)
		json_add_string(b, to, NULL, *list);
}

void body_add_pairs(struct json_builder *b, cJSON *to, char *const *pairs)
{
	for (; pairs && *pairs; pairs++) {
		const char *eq = strchr(*pairs, '=');
		char *key = strndup(*pairs, eq ? (size_t)(eq - *pairs) : strlen(*pairs));

		if (key)
			json_add_string(b, to, key, eq ? eq + 1 : "");
		else
			b->bad = true;
		free(key);
	}
}

static void add_list(struct json_builder *b, cJSON *to, const char *key, char *const *list)
{
	if (list)
		add_strings(b, json_add_array(b, to, key), list);
}

static int add_host(struct json_builder *b, cJSON *body, const struct spec *spec,
	const char *agent_volume, struct err *err)
{
	cJSON *host = json_add_object(b, body, "HostConfig"), *log;
	int rc = body_add_mounts(b, host, spec, agent_volume, err);

	if (rc)
		return rc;
	json_add_string(b, host, "NetworkMode", spec->network_mode ? spec->network_mode : "none");
	body_add_ports(b, body, host, spec);
	add_list(b, host, "Dns", spec->dns);
	add_list(b, host, "ExtraHosts", spec->extra_hosts);
	add_list(b, host, "GroupAdd", spec->group_add);
	body_add_security(b, host, spec);
	body_add_limits(b, host, spec);
	body_add_devices(b, host, spec);
	if (spec->runtime)
		json_add_string(b, host, "Runtime", spec->runtime);
	json_add_bool(b, host, "ReadonlyRootfs", spec->read_only);
	json_add_bool(b, host, "AutoRemove", false);
	json_add_bool(b, host, "Init", false); /* the agent is PID 1 */
	json_add_string(b, json_add_object(b, host, "RestartPolicy"), "Name", "no");
	log = json_add_object(b, host, "LogConfig");
	json_add_string(b, log, "Type", "json-file");
	log = json_add_object(b, log, "Config");
	json_add_string(b, log, "max-size", LOG_MAX_SIZE);
	json_add_string(b, log, "max-file", "1");
	return 0;
}

static void add_labels(
	struct json_builder *b, cJSON *body, const struct spec *spec, const char *making)
{
	cJSON *labels = json_add_object(b, body, "Labels");
	char owner[16];

	body_add_pairs(b, labels, spec->labels);
	snprintf(owner, sizeof(owner), "%u", spec->owner);
	json_add_string(b, labels, LABEL_NAMESPACE, spec->namespace);
	json_add_string(b, labels, LABEL_OWNER, owner);
	json_add_string(b, labels, LABEL_TEMPLATE, spec->template ? spec->template : "");
	json_add_string(b, labels, LABEL_CONFIG, spec->config ? spec->config : "");
	json_add_string(b, labels, LABEL_VERSION, SANDBOXFS_VERSION);
	json_add_string(b, labels, LABEL_MAKING, making);
}

/* The engine gives them to PID 1; the agent gives them to what it runs for users. */
static void add_groups(struct json_builder *b, cJSON *entry, char *const *groups)
{
	struct buf list;

	if (!groups)
		return;
	buf_init(&list, GROUPS_MAX);
	for (char *const *g = groups; *g; g++)
		buf_printf(&list, "%s%s", g == groups ? "" : ",", *g);
	if (list.error)
		b->bad = true;
	json_add_string(b, entry, NULL, "--groups");
	json_add_string(b, entry, NULL, list.error ? "" : (char *)list.data);
	buf_fini(&list);
}

static void add_program(
	struct json_builder *b, cJSON *body, const struct spec *spec, const char *user)
{
	const char *const argv[] = {ENGINE_AGENT_PATH, "init", "--state", ENGINE_STATE_DIR,
		"--workspace", spec->working_dir, "--user", user};
	cJSON *entry = json_add_array(b, body, "Entrypoint"), *cmd = json_add_array(b, body, "Cmd");

	for (size_t i = 0; i < sizeof(argv) / sizeof(*argv); i++)
		json_add_string(b, entry, NULL, argv[i]);
	add_groups(b, entry, spec->group_add);
	if (setup_needed(spec)) {
		json_add_string(b, entry, NULL, "--setup");
		json_add_string(b, entry, NULL, "1");
	}
	if (spec->command) {
		json_add_string(b, cmd, NULL, "--");
		add_strings(b, cmd, spec->command);
	}
	json_add_string(b, body, "User", "0");
	json_add_string(b, body, "WorkingDir", "/");
	json_add_string(b, body, "StopSignal", "SIGTERM");
	json_add_uint(b, body, "StopTimeout", ENGINE_STOP_GRACE_S);
	json_add_string(b, json_add_array(b, json_add_object(b, body, "Healthcheck"), "Test"), NULL,
		"NONE");
}

int body_create(const struct spec *spec, const char *user, const char *agent_volume,
	const char *making, cJSON **out, struct err *err)
{
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b);
	int rc;

	if (!spec->working_dir ||
		(strcmp(spec->working_dir, "/") != 0 &&
			!spec_usable(spec->working_dir, strlen(spec->working_dir))))
		return err_set(err, EINVAL, "%s cannot be a working directory",
			spec->working_dir ? spec->working_dir : "nothing");
	json_add_string(&b, body, "Image", spec->image);
	add_program(&b, body, spec, user);
	add_strings(&b, json_add_array(&b, body, "Env"), spec->environment);
	if (spec->hostname)
		json_add_string(&b, body, "Hostname", spec->hostname);
	add_labels(&b, body, spec, making);
	rc = add_host(&b, body, spec, agent_volume, err);
	if (rc)
		return rc;
	if (b.bad)
		return err_set(err, ENOMEM, "out of memory");
	*out = body;
	body = NULL;
	return 0;
}
