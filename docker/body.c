/* SPDX-License-Identifier: MIT */
/*
 * A spec as the body of "create container". The agent is the entrypoint and root inside; what the
 * template adds can open the sandbox up, never reach our own directory in it. Any thread.
 */
#include "docker/body.h"

#include "docker/docker.h"
#include "docker/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OURS	      "/.sandboxfs"
#define CPU_PERIOD_US 100000u
#define CPU_QUOTA_MIN 1000u
#define LOG_MAX_SIZE  "1m"
#define CAP_NAME_MAX  40u

/* Without these the agent cannot act for the sandbox's users: see docs/architecture.md. */
static const char *const caps[] = {
	"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL"};

static void add_strings(struct json_builder *b, cJSON *to, char *const *list)
{
	for (; list && *list; list++)
		json_add_string(b, to, NULL, *list);
}

static const char *cap_name(const char *s)
{
	return strncasecmp(s, "CAP_", 4) ? s : s + 4;
}

static bool cap_in(char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (!strcasecmp(cap_name(*list), name))
			return true;
	return false;
}

static void add_cap(struct json_builder *b, cJSON *to, const char *name)
{
	char upper[CAP_NAME_MAX];
	size_t i;

	for (i = 0; name[i] && i < sizeof(upper) - 1; i++)
		upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
	upper[i] = 0;
	json_add_string(b, to, NULL, upper);
}

/* A capability that is both added and dropped is dropped; "drop ALL, add X" leaves X. */
static void add_caps(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	cJSON *add = json_add_array(b, host, "CapAdd"), *drop = json_add_array(b, host, "CapDrop");

	if (cap_in(spec->cap_add, "ALL")) {
		json_add_string(b, add, NULL, "ALL");
		for (char *const *p = spec->cap_drop; p && *p; p++)
			if (strcasecmp(cap_name(*p), "ALL") != 0)
				add_cap(b, drop, cap_name(*p));
		return;
	}
	json_add_string(b, drop, NULL, "ALL");
	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++)
		if (!cap_in(spec->cap_drop, "ALL") && !cap_in(spec->cap_drop, caps[i]) &&
			!cap_in(spec->cap_add, caps[i]))
			json_add_string(b, add, NULL, caps[i]);
	for (char *const *p = spec->cap_add; p && *p; p++)
		if (!cap_in(spec->cap_drop, cap_name(*p)))
			add_cap(b, add, cap_name(*p));
}

/* Is path dir, or below it? Both are absolute. */
static bool beneath(const char *path, const char *dir, size_t len)
{
	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len == 1)
		return true;
	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/');
}

/* An absolute path without empty parts, "." and "..", that is not in our own directory. */
static bool usable(const char *path, size_t len)
{
	const char *p = path, *end = path + len;

	if (!len || *p != '/')
		return false;
	while (p < end) {
		const char *part = ++p;
		size_t n;

		while (p < end && *p != '/')
			p++;
		n = (size_t)(p - part);
		if (!n && !(p == end && part - 1 > path)) /* one '/' at the end may be */
			return false;
		if ((n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (part == path + 1 && n + 1 == strlen(OURS) && !memcmp(path, OURS, n + 1))
			return false;
	}
	return true;
}

static int check_target(const char *target, size_t len, struct err *err)
{
	if (!usable(target, len))
		return err_set(err, EINVAL, "nothing can be mounted at %.*s", (int)len, target);
	return 0;
}

/* source NULL: anonymous, and gone with the container. */
static void add_volume(struct json_builder *b, cJSON *mounts, const char *source,
	const char *target, bool read_only, bool copy)
{
	cJSON *m = json_add_object(b, mounts, NULL);

	json_add_string(b, m, "Type", "volume");
	if (source)
		json_add_string(b, m, "Source", source);
	json_add_string(b, m, "Target", target);
	json_add_bool(b, m, "ReadOnly", read_only);
	if (!copy)
		json_add_bool(b, json_add_object(b, m, "VolumeOptions"), "NoCopy", true);
}

static int add_volumes(struct json_builder *b, cJSON *mounts, const struct spec *spec,
	bool *covered, struct err *err)
{
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const struct spec_volume *v = &spec->volumes[i];
		int rc = check_target(v->target, strlen(v->target), err);

		if (rc)
			return rc;
		/* Whoever could write there would be root in every sandbox. */
		if (v->source &&
			!strncmp(v->source, AGENT_VOLUME_PREFIX, strlen(AGENT_VOLUME_PREFIX)))
			return err_set(err, EINVAL, "volume %s belongs to sandboxfs", v->source);
		if (v->source && (!*v->source || strchr(v->source, '/')))
			return err_set(err, EINVAL, "%s is no name of a volume", v->source);
		add_volume(b, mounts, v->source, v->target, v->read_only, true);
		if (beneath(spec->working_dir, v->target, strlen(v->target)))
			*covered = true;
	}
	return 0;
}

static int add_tmpfs(struct json_builder *b, cJSON *host, const struct spec *spec, bool *covered,
	struct err *err)
{
	cJSON *map = json_add_object(b, host, "Tmpfs");

	for (char *const *p = spec->tmpfs; p && *p; p++) {
		const char *options = strchrnul(*p, ':');
		size_t len = (size_t)(options - *p);
		char *path;
		int rc = check_target(*p, len, err);

		if (rc)
			return rc;
		path = strndup(*p, len);
		if (!path)
			return err_set(err, ENOMEM, "out of memory");
		json_add_string(b, map, path, *options ? options + 1 : "");
		free(path);
		if (beneath(spec->working_dir, *p, len))
			*covered = true;
	}
	return 0;
}

static int add_mounts(struct json_builder *b, cJSON *host, const struct spec *spec,
	const char *agent_volume, struct err *err)
{
	cJSON *mounts = json_add_array(b, host, "Mounts");
	bool covered = false;
	int rc;

	add_volume(b, mounts, agent_volume, OURS "/bin", true, false);
	add_volume(b, mounts, NULL, ENGINE_STATE_DIR, false, false);
	rc = add_volumes(b, mounts, spec, &covered, err);
	rc = rc ? rc : add_tmpfs(b, host, spec, &covered, err);
	if (!rc && spec->read_only && !covered)
		add_volume(b, mounts, NULL, spec->working_dir, false, true);
	return rc;
}

static void add_limits(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	uint64_t quota = (uint64_t)spec->cpus_milli * CPU_PERIOD_US / 1000;

	if (spec->mem_limit) {
		json_add_uint(b, host, "Memory", spec->mem_limit);
		json_add_uint(b, host, "MemorySwap", spec->mem_limit);
	}
	if (quota) {
		json_add_uint(b, host, "CpuPeriod", CPU_PERIOD_US);
		json_add_uint(b, host, "CpuQuota", quota < CPU_QUOTA_MIN ? CPU_QUOTA_MIN : quota);
	}
	if (spec->pids_limit)
		json_add_uint(b, host, "PidsLimit", spec->pids_limit);
}

static int add_host(struct json_builder *b, cJSON *body, const struct spec *spec,
	const char *agent_volume, struct err *err)
{
	cJSON *host = json_add_object(b, body, "HostConfig"), *log;
	int rc = add_mounts(b, host, spec, agent_volume, err);

	if (rc)
		return rc;
	json_add_string(b, host, "NetworkMode", spec->network_mode ? spec->network_mode : "none");
	add_caps(b, host, spec);
	json_add_string(b, json_add_array(b, host, "SecurityOpt"), NULL, "no-new-privileges");
	add_limits(b, host, spec);
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

static void add_labels(struct json_builder *b, cJSON *body, const struct spec *spec)
{
	cJSON *labels = json_add_object(b, body, "Labels");
	char owner[16];

	snprintf(owner, sizeof(owner), "%u", spec->owner);
	json_add_string(b, labels, LABEL_NAMESPACE, spec->namespace);
	json_add_string(b, labels, LABEL_OWNER, owner);
	json_add_string(b, labels, LABEL_TEMPLATE, spec->template ? spec->template : "");
	json_add_string(b, labels, LABEL_CONFIG, spec->config ? spec->config : "");
	json_add_string(b, labels, LABEL_VERSION, SANDBOXFS_VERSION);
}

static void add_program(
	struct json_builder *b, cJSON *body, const struct spec *spec, const char *user)
{
	const char *const argv[] = {ENGINE_AGENT_PATH, "init", "--state", ENGINE_STATE_DIR,
		"--workspace", spec->working_dir, "--user", user};
	cJSON *entry = json_add_array(b, body, "Entrypoint"), *cmd = json_add_array(b, body, "Cmd");

	for (size_t i = 0; i < sizeof(argv) / sizeof(*argv); i++)
		json_add_string(b, entry, NULL, argv[i]);
	if (spec->command) {
		json_add_string(b, cmd, NULL, "--");
		add_strings(b, cmd, spec->command);
	}
	json_add_string(b, body, "User", "0");
	json_add_string(b, body, "WorkingDir", "/");
	json_add_string(b, body, "StopSignal", "SIGTERM");
	json_add_string(b, json_add_array(b, json_add_object(b, body, "Healthcheck"), "Test"), NULL,
		"NONE");
}

int body_create(const struct spec *spec, const char *user, const char *agent_volume, cJSON **out,
	struct err *err)
{
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b);
	int rc;

	if (!spec->working_dir || (strcmp(spec->working_dir, "/") != 0 &&
					  !usable(spec->working_dir, strlen(spec->working_dir))))
		return err_set(err, EINVAL, "%s cannot be a working directory",
			spec->working_dir ? spec->working_dir : "nothing");
	json_add_string(&b, body, "Image", spec->image);
	add_program(&b, body, spec, user);
	add_strings(&b, json_add_array(&b, body, "Env"), spec->environment);
	if (spec->hostname)
		json_add_string(&b, body, "Hostname", spec->hostname);
	add_labels(&b, body, spec);
	rc = add_host(&b, body, spec, agent_volume, err);
	if (rc)
		return rc;
	if (b.bad)
		return err_set(err, ENOMEM, "out of memory");
	*out = body;
	body = NULL;
	return 0;
}
