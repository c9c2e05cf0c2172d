/* SPDX-License-Identifier: MIT */
/* Limits that change while the container runs, and how the engine tells of them. Any thread. */
#include "docker/box.h"
#include "docker/docker.h"
#include "docker/json.h"
#include "docker/name.h"

#include <errno.h>
#include <stdio.h>

#define CPU_PERIOD_US 100000
#define SWAP_NO_LIMIT ((int64_t)1 << 50)

/* The machine's memory: the engine knows no "unlimited" in an update, 0 is "as it is". */
static int machine_memory(struct docker *d, int64_t *total, struct err *err)
{
	cleanup_json cJSON *info = NULL;
	struct http_call c = {.method = "GET", .path = "/info"};
	int rc = http_json(d->http, &c, &info, err);

	if (rc)
		return rc;
	if (!json_int(info, "MemTotal", total) || *total <= 0)
		return err_set(err, EPROTO, "the engine does not say how much memory there is");
	return 0;
}

/* Swap (with memory in it) goes with it: the kernel takes no limit above that. More swap than
 * memory is what marks "max", see box_limits(). The engine would not pass -1 on. */
static int add_memory(
	struct docker *d, struct json_builder *b, cJSON *body, uint64_t memory, struct err *err)
{
	int64_t total = 0;
	int rc = memory ? 0 : machine_memory(d, &total, err);

	json_add_int(b, body, "Memory", memory ? (int64_t)memory : total);
	json_add_int(b, body, "MemorySwap", memory ? (int64_t)memory : SWAP_NO_LIMIT);
	return rc;
}

/* Podman before 5 has no such call but one of its own, which it forgets: an inspect tells the old
 * limits, and the next start restores them. Better none than one that does not last. */
static int no_update(struct docker *d, struct err *err)
{
	return err_set(err, EOPNOTSUPP,
		"this version of %s cannot change the limits of a container: set them in the "
		"template, for new sandboxes",
		d->flavour.name);
}

int docker_update(struct engine *e, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err)
{
	struct docker *d = docker_of(e);
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b), *answer = NULL, *there = NULL;
	char path[128];
	struct http_call c = {.method = "POST", .path = path, .json = body, .repeatable = true};
	int rc = 0;

	if (!name_is_id(id))
		return err_set(err, EINVAL, "%.64s is no container's id", id);
	if (which & d->flavour.limits_lacking)
		return err_set(err, EOPNOTSUPP, "%s has no such limits here", d->flavour.name);
	if (which & ENGINE_LIMIT_MEMORY)
		rc = add_memory(d, &b, body, limits->memory, err);
	if (which & ENGINE_LIMIT_CPU) {
		json_add_int(&b, body, "CpuPeriod",
			limits->cpu_period_us ? (int64_t)limits->cpu_period_us : CPU_PERIOD_US);
		json_add_int(&b, body, "CpuQuota",
			limits->cpu_quota_us ? (int64_t)limits->cpu_quota_us : -1);
	}
	if (which & ENGINE_LIMIT_PIDS)
		json_add_int(&b, body, "PidsLimit", limits->pids ? (int64_t)limits->pids : -1);
	if (!rc && b.bad)
		rc = err_set(err, ENOMEM, "out of memory");
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/containers/%s/update", id);
	rc = http_json(d->http, &c, &answer, err);
	return rc == -ENOENT && !docker_container(d, id, &there, NULL) ? no_update(d, err) : rc;
}

static uint64_t positive(const cJSON *o, const char *key)
{
	int64_t v = 0;

	return json_int(o, key, &v) && v > 0 ? (uint64_t)v : 0;
}

void box_limits(const cJSON *host, struct engine_limits *l)
{
	int64_t swap = 0;
	uint64_t nano = positive(host, "NanoCpus");

	l->memory = positive(host, "Memory");
	if (json_int(host, "MemorySwap", &swap) && swap > 0 && (uint64_t)swap > l->memory)
		l->memory = 0;
	l->pids = positive(host, "PidsLimit");
	l->cpu_period_us = positive(host, "CpuPeriod");
	if (!l->cpu_period_us)
		l->cpu_period_us = CPU_PERIOD_US;
	l->cpu_quota_us = positive(host, "CpuQuota");
	if (!l->cpu_quota_us && nano)
		l->cpu_quota_us = nano / 1000 * l->cpu_period_us / 1000000;
}
