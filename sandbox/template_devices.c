/* SPDX-License-Identifier: MIT */
/* ulimits, devices and gpus. Owns nothing between calls, takes no lock; any thread. */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int ulimit_value(struct template_parse *p, const cJSON *j, void *to)
{
	return value_whole(p, j, -1, (int64_t)1 << 53, to);
}

static int add_ulimit(struct template_parse *p, const cJSON *j, void *arg)
{
	static const char *const names[] = {"core", "cpu", "data", "fsize", "locks", "memlock",
		"msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending",
		"stack"};
	static const struct template_key keys[] = {
		{"soft", ulimit_value, offsetof(struct spec_ulimit, soft)},
		{"hard", ulimit_value, offsetof(struct spec_ulimit, hard)},
	};
	struct spec *s = p->spec;
	struct spec_ulimit *u = array_grow(&s->ulimits, &s->n_ulimits, sizeof(*u));
	bool known = false;
	int r;

	(void)arg;
	if (!u)
		return value_no_memory(p);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		known = known || strcmp(names[i], j->string) == 0;
	if (!known)
		return value_bad(p, j->string, "a limit like nofile");
	u->name = strdup(j->string);
	if (!u->name)
		return value_no_memory(p);
	if (cJSON_IsObject(j)) {
		if (!cJSON_HasObjectItem(j, "soft") || !cJSON_HasObjectItem(j, "hard"))
			return value_fail(p, EINVAL, "needs both soft and hard");
		r = value_map(p, j, TEMPLATE_KEYS(keys), u);
	} else if (cJSON_IsNumber(j)) {
		r = ulimit_value(p, j, &u->soft);
		u->hard = u->soft;
	} else {
		r = value_wrong_type(p, "a number or a map of soft and hard", j);
	}
	if (r == 0 && u->hard >= 0 && (u->soft < 0 || u->soft > u->hard))
		r = value_fail(p, EINVAL, "soft is above hard");
	return r;
}

int key_ulimits(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_members(p, j, "a map of limits", add_ulimit, NULL);
}

static int check_device(struct template_parse *p, struct spec_device *d)
{
	const char *perm = d->permissions;
	int r;

	if (d->source[0] != '/') { /* VENDOR/CLASS=NAME, which the engine looks up */
		const char *slash = strchr(d->source, '/'), *eq = strchr(d->source, '=');

		if (!slash || !eq || slash > eq || !eq[1] || d->target || perm ||
			!text_only(d->source, "._-/=:"))
			return value_bad(p, d->source, "/dev/NAME or VENDOR/CLASS=NAME");
		return 0;
	}
	r = text_path(p, d->source, strlen(d->source));
	if (r == 0 && strncmp(d->source, "/dev/", 5) != 0)
		r = value_bad(p, d->source, "below /dev");
	if (r < 0)
		return r;
	if (!d->target)
		d->target = strdup(d->source);
	if (!d->target)
		return value_no_memory(p);
	r = text_path(p, d->target, strlen(d->target));
	if (r == 0 && perm && (!*perm || strspn(perm, "rwm") != strlen(perm) || strlen(perm) > 3))
		r = value_bad(p, perm, "letters of rwm");
	return r;
}

static int short_device(struct template_parse *p, const char *s, struct spec_device *d)
{
	const char *colon = *s == '/' ? strchr(s, ':') : NULL,
		   *second = colon ? strchr(colon + 1, ':') : NULL;

	d->source = colon ? strndup(s, (size_t)(colon - s)) : strdup(s);
	if (colon && !second && colon[1] != '/')
		second = colon; /* /dev/x:rw */
	else if (colon)
		d->target = strndup(colon + 1, strcspn(colon + 1, ":"));
	if (second)
		d->permissions = strdup(second + 1);
	if (!d->source || (colon && second != colon && !d->target) || (second && !d->permissions))
		return value_no_memory(p);
	return 0;
}

static int add_device(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"source", value_string, offsetof(struct spec_device, source)},
		{"target", value_string, offsetof(struct spec_device, target)},
		{"permissions", value_string, offsetof(struct spec_device, permissions)},
	};
	struct spec *s = p->spec;
	struct spec_device *d = array_grow(&s->devices, &s->n_devices, sizeof(*d));
	int r;

	(void)arg;
	if (!d)
		return value_no_memory(p);
	if (cJSON_IsObject(j))
		r = value_map(p, j, TEMPLATE_KEYS(keys), d);
	else if (cJSON_IsString(j))
		r = short_device(p, j->valuestring, d);
	else
		r = value_wrong_type(p, "a string or a map", j);
	if (r < 0)
		return r;
	if (!d->source)
		return value_fail(p, EINVAL, "the key source is missing");
	return check_device(p, d);
}

int key_devices(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_each(p, j, "a list of devices", false, add_device, NULL);
}

static int gpu_count(struct template_parse *p, const cJSON *j, void *to)
{
	int32_t *out = to;
	int64_t v = -1;
	int r = 0;

	if (!cJSON_IsString(j))
		r = value_whole(p, j, -1, 1024, &v);
	else if (strcmp(j->valuestring, "all") != 0)
		r = value_bad(p, j->valuestring, "all or a number");
	if (r == 0 && v == 0)
		r = value_fail(p, EINVAL, "must not be 0");
	*out = (int32_t)v;
	return r;
}

static int add_gpu(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"driver", value_string, offsetof(struct spec_gpu, driver)},
		{"count", gpu_count, offsetof(struct spec_gpu, count)},
		{"device_ids", value_strings, offsetof(struct spec_gpu, device_ids)},
		{"capabilities", value_strings, offsetof(struct spec_gpu, capabilities)},
		{"options", value_pairs, offsetof(struct spec_gpu, options)},
	};
	struct spec *s = p->spec;
	struct spec_gpu *g = array_grow(&s->gpus, &s->n_gpus, sizeof(*g));
	int r;

	(void)arg;
	if (!g)
		return value_no_memory(p);
	if (cJSON_IsString(j)) {
		g->count = -1;
		return strcmp(j->valuestring, "all") == 0 ? 0 : value_bad(p, j->valuestring, "all");
	}
	r = value_map(p, j, TEMPLATE_KEYS(keys), g);
	if (r == 0 && g->count && g->device_ids)
		r = value_fail(p, EINVAL, "has both count and device_ids");
	if (r == 0 && !g->count && !g->device_ids)
		g->count = -1;
	return r;
}

int key_gpus(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	if (cJSON_IsString(j))
		return add_gpu(p, j, NULL);
	return value_each(p, j, "\"all\" or a list of maps", false, add_gpu, NULL);
}
