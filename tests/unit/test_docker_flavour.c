/* SPDX-License-Identifier: MIT */
/* What is read from an engine's own words about itself, and which templates it cannot honour. */
#include "docker/flavour.h"
#include "docker/json.h"
#include "sandbox/engine.h"
#include "tests/unit/check.h"

#include <errno.h>

#define ALL (ENGINE_LIMIT_MEMORY | ENGINE_LIMIT_CPU | ENGINE_LIMIT_PIDS)

#define DOCKER(api) "{\"ApiVersion\":\"" api "\",\"Components\":[{\"Name\":\"Engine\"}]}"
#define PODMAN	    "{\"ApiVersion\":\"1.41\",\"Components\":[{\"Name\":\"Podman Engine\"}]}"
#define CAN	    "\"MemoryLimit\":true,\"CpuCfsQuota\":true,\"PidsLimit\":true"

static struct flavour read_both(const char *version, const char *info)
{
	cleanup_json cJSON *v = cJSON_Parse(version), *i = cJSON_Parse(info);
	struct flavour f = {0};

	CHECK(v && i);
	flavour_read(v, i, &f);
	return f;
}

/* It is refused by that key; NULL: it is not. */
static void check(const struct flavour *f, const struct spec *spec, const char *key)
{
	struct err err = {0};
	int rc = flavour_check(f, spec, &err);

	CHECK(rc == (key ? -EOPNOTSUPP : 0));
	CHECK(!key || (!strncmp(err.msg, "key ", 4) && !strncmp(err.msg + 4, key, strlen(key))));
}

static void subpaths(void)
{
	static char path[] = "a/b";
	struct spec_volume v = {.subpath = path};
	struct spec spec = {.volumes = &v, .n_volumes = 1};
	static const struct {
		const char *version;
		bool has;
	} engines[] = {{DOCKER("1.41"), false}, {DOCKER("1.44"), false}, {DOCKER("1.45"), true},
		{DOCKER("1.100"), true}, {DOCKER("2.0"), true}, {"{}", false}, {PODMAN, false}};

	for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++) {
		struct flavour f = read_both(engines[i].version, "{}");

		check(&f, &spec, engines[i].has ? NULL : "volumes: ");
	}
}

static void limits(void)
{
	static const struct {
		const char *info;
		unsigned lacking;
	} engines[] = {{"{" CAN ",\"CgroupVersion\":\"1\"}", 0},
		{"{" CAN ",\"CgroupVersion\":\"1\",\"Rootless\":true}", ALL},
		{"{" CAN ",\"CgroupVersion\":\"2\",\"Rootless\":true}", 0},
		{"{\"SecurityOptions\":[7,\"name=seccomp\",\"name=rootless\"],"
		 "\"CgroupVersion\":\"1\"}",
			ALL},
		{"{\"MemoryLimit\":false,\"CpuCfsQuota\":true}", ENGINE_LIMIT_MEMORY},
		{"{\"CpuCfsQuota\":false,\"PidsLimit\":false}",
			ENGINE_LIMIT_CPU | ENGINE_LIMIT_PIDS},
		{"{\"MemoryLimit\":\"no\",\"SecurityOptions\":7}", 0}};
	const struct spec memory = {.mem_limit = 1}, cpus = {.cpus_milli = 1},
			  pids = {.pids_limit = 1}, none = {0};

	for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++) {
		struct flavour f = read_both(PODMAN, engines[i].info);
		unsigned lacking = engines[i].lacking;

		CHECK(f.limits_lacking == lacking);
		check(&f, &none, NULL);
		check(&f, &memory, lacking & ENGINE_LIMIT_MEMORY ? "mem_limit: " : NULL);
		check(&f, &cpus, lacking & ENGINE_LIMIT_CPU ? "cpus: " : NULL);
		check(&f, &pids, lacking & ENGINE_LIMIT_PIDS ? "pids_limit: " : NULL);
	}
}

int main(void)
{
	TEST(subpaths);
	TEST(limits);
	return check_done();
}
