/* SPDX-License-Identifier: MIT */
/* The key x-sandboxfs: our own settings. Owns nothing between calls, takes no lock; any thread. */
#include "sandbox/template_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_MAX   1000
#define OUTPUT_MAX (512ull << 20) /* what all jobs of a sandbox keep together */

static int x_pool(struct template_parse *p, const cJSON *j, void *to)
{
	uint32_t *out = to;
	int64_t v;
	int r = value_whole(p, j, 0, POOL_MAX, &v);

	if (r == 0)
		*out = (uint32_t)v;
	return r;
}

static int x_idle_action(struct template_parse *p, const cJSON *j, void *to)
{
	static const char *const words[] = {"pause", "stop", "remove", NULL};
	enum spec_idle *out = to;
	int n = value_word(p, j, words, "pause, stop or remove");

	if (n >= 0)
		*out = (enum spec_idle)n;
	return n < 0 ? n : 0;
}

static int x_output_limit(struct template_parse *p, const cJSON *j, void *to)
{
	uint64_t *out = to;
	int r = value_size(p, j, to);

	if (r == 0 && *out > OUTPUT_MAX)
		r = value_fail(p, EINVAL, "must be at most 512m");
	return r;
}

/* Paths of the workspace: none climbs, so an absolute one can only be a mistake. */
static int x_archive_exclude(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_one_or_more(p, j, to);

	for (int i = 0; r == 0 && *out && (*out)[i]; i++) {
		const char *s = (*out)[i];
		size_t was = cJSON_IsArray(j) ? place_item(p, i) : p->place_len;

		if (*s == '/' || strcmp(s, "..") == 0 || strncmp(s, "../", 3) == 0 ||
			strstr(s, "/.."))
			return value_bad(p, s, "a path inside the workspace");
		place_leave(p, was);
	}
	return r;
}

#define IN(field) offsetof(struct spec_x, field)

static const struct template_key keys[] = {
	{"pool", x_pool, IN(pool)},
	{"idle_timeout", value_time, IN(idle_timeout_ms)},
	{"idle_action", x_idle_action, IN(idle_action)},
	{"ttl", value_time, IN(ttl_ms)},
	{"timeout", value_time, IN(timeout_ms)},
	{"max_wait", value_time, IN(max_wait_ms)},
	{"output_limit", x_output_limit, IN(output_limit)},
	{"files", key_files, 0},
	{"users", key_users, 0},
	{"groups", key_groups, 0},
	{"volumes", key_declared, 0},
	{"post_start", key_post_start, 0},
	{"pre_stop", key_pre_stop, 0},
	{"snapshot_on_stop", value_bool, IN(snapshot_on_stop)},
	{"archive_exclude", x_archive_exclude, IN(archive_exclude)},
	{"secrets", value_strings, IN(secrets)},
};

int key_x(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_map(p, j, TEMPLATE_KEYS(keys), &p->spec->x);
}
