/* SPDX-License-Identifier: MIT */
/* Pure; any thread. */
#include "docker/flavour.h"

#include "docker/json.h"
#include "sandbox/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUBPATH_SINCE 45 /* API 1.45 */

static const struct flavour docker = {.name = "docker"};
static const struct flavour podman = {.name = "podman",
	.late_head = true,
	.local_log = true,
	.ignores_runtime = true,
	.ignores_device_requests = true,
	.ignores_volume_options = true,
	.ignores_system_paths = true,
	.no_port_ranges = true};

static const struct flavour *by_name(const cJSON *version)
{
	const cJSON *parts = json_array(version, "Components");

	for (const cJSON *c = parts ? parts->child : NULL; c; c = c->next) {
		const char *s = json_string(c, "Name");

		if (s && !strncmp(s, "Podman", 6))
			return &podman;
	}
	return &docker;
}

static bool api_before(const cJSON *version, long minor)
{
	const char *api = json_string(version, "ApiVersion");

	return !api || (!strncmp(api, "1.", 2) && strtol(api + 2, NULL, 10) < minor);
}

/* Docker says so in a field of its own, Podman in another. */
static bool is_rootless(const cJSON *info)
{
	const cJSON *options = json_array(info, "SecurityOptions");

	for (const cJSON *o = options ? options->child : NULL; o; o = o->next)
		if (cJSON_IsString(o) && !strncmp(o->valuestring, "name=rootless", 13))
			return true;
	return json_true(info, "Rootless");
}

/* An engine of an ordinary user has no say in cgroups of version 1, whatever the kernel can do. */
static unsigned lacking(const cJSON *info)
{
	static const struct {
		const char *key;
		unsigned limit;
	} can[] = {{"MemoryLimit", ENGINE_LIMIT_MEMORY}, {"CpuCfsQuota", ENGINE_LIMIT_CPU},
		{"PidsLimit", ENGINE_LIMIT_PIDS}};
	const char *cgroups = json_string(info, "CgroupVersion");
	bool none = is_rootless(info) && cgroups && !strcmp(cgroups, "1");
	unsigned lack = 0;

	for (size_t i = 0; i < sizeof(can) / sizeof(*can); i++)
		if (none || cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(info, can[i].key)))
			lack |= can[i].limit;
	return lack;
}

void flavour_read(const cJSON *version, const cJSON *info, struct flavour *f)
{
	*f = *by_name(version);
	f->ignores_subpath = f->ignores_volume_options || api_before(version, SUBPATH_SINCE);
	f->limits_lacking = lacking(info);
}

static int refuse(const struct flavour *f, const char *key, const char *what, struct err *err)
{
	return err_set(err, EOPNOTSUPP, "key %s: %s ignores %s", key, f->name, what);
}

static int check_devices(const struct flavour *f, const struct spec *spec, struct err *err)
{
	if (spec->n_gpus)
		return refuse(f, "gpus", "requests for a gpu", err);
	for (size_t i = 0; i < spec->n_devices; i++)
		if (!spec->devices[i].target)
			return refuse(f, "devices", "names of cdi devices", err);
	return 0;
}

static int check_volumes(const struct flavour *f, const struct spec *spec, struct err *err)
{
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const struct spec_volume *v = &spec->volumes[i];
		bool options = (v->driver && strcmp(v->driver, "local") != 0) ||
			       (v->driver_opts && *v->driver_opts) || (v->labels && *v->labels);

		if (f->ignores_volume_options && v->nocopy)
			return refuse(f, "volumes", "a volume's nocopy", err);
		if (f->ignores_subpath && v->subpath)
			return refuse(f, "volumes",
				f->ignores_volume_options ? "a volume's subpath"
							  : "a volume's subpath before API 1.45",
				err);
		if (f->ignores_volume_options && options)
			return refuse(f, "x-sandboxfs.volumes",
				"driver, options and labels of a sandbox's own volume", err);
	}
	return 0;
}

static int check_limits(const struct flavour *f, const struct spec *spec, struct err *err)
{
	const struct {
		const char *key;
		unsigned limit;
		bool set;
	} limits[] = {{"mem_limit", ENGINE_LIMIT_MEMORY, spec->mem_limit},
		{"cpus", ENGINE_LIMIT_CPU, spec->cpus_milli},
		{"pids_limit", ENGINE_LIMIT_PIDS, spec->pids_limit}};

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		if (limits[i].set && (f->limits_lacking & limits[i].limit))
			return err_set(err, EOPNOTSUPP,
				"key %s: %s has no such limits here (its cgroups do not give them)",
				limits[i].key, f->name);
	return 0;
}

static int check_security(const struct flavour *f, const struct spec *spec, struct err *err)
{
	for (char *const *s = spec->security_opt; s && *s; s++)
		if (!strncmp(*s, "systempaths", strlen("systempaths")))
			return refuse(f, "security_opt", *s, err);
	return 0;
}

static int check_ports(const struct flavour *f, const struct spec *spec, struct err *err)
{
	for (size_t i = 0; i < spec->n_ports; i++)
		if (spec->ports[i].published != spec->ports[i].published_last)
			return err_set(err, EOPNOTSUPP,
				"key ports: %s cannot choose from the range %u-%u", f->name,
				spec->ports[i].published, spec->ports[i].published_last);
	return 0;
}

int flavour_check(const struct flavour *f, const struct spec *spec, struct err *err)
{
	int rc = 0;

	if (f->ignores_runtime && spec->runtime)
		return err_set(err, EOPNOTSUPP, "key runtime: %s ignores it, also %s", f->name,
			spec->runtime);
	if (f->ignores_device_requests)
		rc = check_devices(f, spec, err);
	if (!rc && f->ignores_system_paths)
		rc = check_security(f, spec, err);
	if (!rc && f->no_port_ranges)
		rc = check_ports(f, spec, err);
	rc = rc ? rc : check_volumes(f, spec, err);
	return rc ? rc : check_limits(f, spec, err);
}
