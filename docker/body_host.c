/* SPDX-License-Identifier: MIT */
/* What a container gets of its host: ports, limits, devices, rights. Any thread. */
#include "docker/body_parts.h"

#include "sandbox/caps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_PERIOD_US 100000u
#define CPU_QUOTA_MIN 1000u
#define LOOPBACK      "127.0.0.1"

static void add_caps(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	cJSON *add = json_add_array(b, host, "CapAdd"), *drop = json_add_array(b, host, "CapDrop");
	bool all = caps_in(spec->cap_add, "ALL");

	json_add_string(b, all ? add : drop, NULL, "ALL");
	for (const char *const *c = caps_all; *c; c++)
		if (caps_has(spec->cap_add, spec->cap_drop, *c) != all)
			json_add_string(b, all ? drop : add, NULL, *c);
}

void body_add_security(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	cJSON *list = json_add_array(b, host, "SecurityOpt");
	bool said = false;

	add_caps(b, host, spec);
	for (char *const *s = spec->security_opt; s && *s; s++) {
		if (!strcmp(*s, "systempaths=unconfined")) { /* the docker command's own word */
			json_add_array(b, host, "MaskedPaths");
			json_add_array(b, host, "ReadonlyPaths");
			continue;
		}
		said = said || !strncmp(*s, "no-new-privileges", strlen("no-new-privileges"));
		json_add_string(b, list, NULL, *s);
	}
	if (!said)
		json_add_string(b, list, NULL, "no-new-privileges");
}

static void add_port(
	struct json_builder *b, cJSON *exposed, cJSON *bound, const struct spec_port *p)
{
	char key[24], range[16] = "";
	cJSON *list, *one;

	snprintf(key, sizeof(key), "%u/%s", p->target, p->protocol);
	if (p->published && p->published != p->published_last)
		snprintf(range, sizeof(range), "%u-%u", p->published, p->published_last);
	else if (p->published)
		snprintf(range, sizeof(range), "%u", p->published);
	list = cJSON_GetObjectItemCaseSensitive(bound, key);
	if (!list) {
		json_add_object(b, exposed, key);
		list = json_add_array(b, bound, key);
	}
	one = json_add_object(b, list, NULL);
	json_add_string(b, one, "HostIp", p->host_ip ? p->host_ip : LOOPBACK);
	json_add_string(b, one, "HostPort", range);
}

void body_add_ports(struct json_builder *b, cJSON *body, cJSON *host, const struct spec *spec)
{
	cJSON *exposed, *bound;

	if (!spec->n_ports)
		return;
	exposed = json_add_object(b, body, "ExposedPorts");
	bound = json_add_object(b, host, "PortBindings");
	for (size_t i = 0; i < spec->n_ports; i++)
		add_port(b, exposed, bound, &spec->ports[i]);
}

void body_add_limits(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	uint64_t quota = (uint64_t)spec->cpus_milli * CPU_PERIOD_US / 1000;
	cJSON *list;

	if (spec->mem_limit) {
		json_add_uint(b, host, "Memory", spec->mem_limit);
		json_add_uint(b, host, "MemorySwap", spec->mem_limit);
	}
	if (quota) {
		json_add_uint(b, host, "CpuPeriod", CPU_PERIOD_US);
		json_add_uint(b, host, "CpuQuota", quota < CPU_QUOTA_MIN ? CPU_QUOTA_MIN : quota);
	}
	/* Podman has a default of its own. */
	json_add_int(b, host, "PidsLimit", spec->pids_limit ? (int64_t)spec->pids_limit : -1);
	if (spec->shm_size)
		json_add_uint(b, host, "ShmSize", spec->shm_size);
	if (spec->storage_opt)
		body_add_pairs(b, json_add_object(b, host, "StorageOpt"), spec->storage_opt);
	list = spec->n_ulimits ? json_add_array(b, host, "Ulimits") : NULL;
	for (size_t i = 0; i < spec->n_ulimits; i++) {
		cJSON *one = json_add_object(b, list, NULL);

		json_add_string(b, one, "Name", spec->ulimits[i].name);
		json_add_int(b, one, "Soft", spec->ulimits[i].soft);
		json_add_int(b, one, "Hard", spec->ulimits[i].hard);
	}
}

static void add_strings(struct json_builder *b, cJSON *to, const char *key, char *const *list)
{
	cJSON *array = list ? json_add_array(b, to, key) : NULL;

	for (; list && *list; list++)
		json_add_string(b, array, NULL, *list);
}

static void add_gpu(struct json_builder *b, cJSON *requests, const struct spec_gpu *g)
{
	cJSON *one = json_add_object(b, requests, NULL), *all;
	bool said = false;

	if (g->driver)
		json_add_string(b, one, "Driver", g->driver);
	json_add_int(b, one, "Count", g->count);
	add_strings(b, one, "DeviceIDs", g->device_ids);
	all = json_add_array(b, json_add_array(b, one, "Capabilities"), NULL); /* ORs of ANDs */
	for (char *const *c = g->capabilities; c && *c; c++) {
		said = said || !strcmp(*c, "gpu");
		json_add_string(b, all, NULL, *c);
	}
	if (!said)
		json_add_string(b, all, NULL, "gpu");
	body_add_pairs(b, json_add_object(b, one, "Options"), g->options);
}

void body_add_devices(struct json_builder *b, cJSON *host, const struct spec *spec)
{
	cJSON *devices, *requests, *cdi = NULL;

	if (!spec->n_devices && !spec->n_gpus)
		return;
	devices = json_add_array(b, host, "Devices");
	requests = json_add_array(b, host, "DeviceRequests");
	for (size_t i = 0; i < spec->n_devices; i++) {
		const struct spec_device *d = &spec->devices[i];
		cJSON *one;

		if (!d->target) {
			one = cdi ? NULL : json_add_object(b, requests, NULL);
			if (one)
				json_add_string(b, one, "Driver", "cdi");
			cdi = cdi ? cdi : json_add_array(b, one, "DeviceIDs");
			json_add_string(b, cdi, NULL, d->source);
			continue;
		}
		one = json_add_object(b, devices, NULL);
		json_add_string(b, one, "PathOnHost", d->source);
		json_add_string(b, one, "PathInContainer", d->target);
		json_add_string(
			b, one, "CgroupPermissions", d->permissions ? d->permissions : "rwm");
	}
	for (size_t i = 0; i < spec->n_gpus; i++)
		add_gpu(b, requests, &spec->gpus[i]);
}
