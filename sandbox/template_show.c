/* SPDX-License-Identifier: MIT */
/* A spec as JSON, for ctl/config.json and the engine's label: the same keys, resolved, with the
 * values of secrets masked and the contents of files left out. Any thread. */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"
#include "sandbox/caps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is being made; bad: an allocation failed, and nothing more is added. */
struct show {
	const struct spec *spec;
	bool bad;
};

/* Takes item. key NULL: to is a list. */
static cJSON *put(struct show *s, cJSON *to, const char *key, cJSON *item)
{
	cJSON_bool done = false;

	if (item && to && !s->bad)
		done = key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item);
	if (done)
		return item;
	cJSON_Delete(item);
	s->bad = true;
	return NULL;
}

static cJSON *put_map(struct show *s, cJSON *to, const char *key)
{
	return put(s, to, key, cJSON_CreateObject());
}

static cJSON *put_array(struct show *s, cJSON *to, const char *key)
{
	return put(s, to, key, cJSON_CreateArray());
}

static void put_text(struct show *s, cJSON *to, const char *key, const char *text)
{
	if (text)
		put(s, to, key, cJSON_CreateString(text));
}

static void put_number(struct show *s, cJSON *to, const char *key, double v)
{
	put(s, to, key, cJSON_CreateNumber(v));
}

/* Only what was said. */
static void put_set(struct show *s, cJSON *to, const char *key, double v)
{
	if (v > 0)
		put_number(s, to, key, v);
}

static void put_list(struct show *s, cJSON *to, const char *key, char *const *v)
{
	cJSON *list = put_array(s, to, key);

	for (; v && *v; v++)
		put_text(s, list, NULL, *v);
}

static void put_some(struct show *s, cJSON *to, const char *key, char *const *v)
{
	if (v && *v)
		put_list(s, to, key, v);
}

static void put_mode(struct show *s, cJSON *to, uint32_t mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	put_text(s, to, "mode", text);
}

/* KEY=VALUE as a map. */
static void put_pairs(struct show *s, cJSON *to, const char *key, char *const *v, bool mask)
{
	cJSON *map = put_map(s, to, key);

	for (; v && *v; v++) {
		const char *eq = strchr(*v, '=');
		size_t n = eq ? (size_t)(eq - *v) : strlen(*v);
		cleanup_free char *name = strndup(*v, n);
		bool secret = mask && list_has(s->spec->x.secrets, *v, n);

		if (name)
			put_text(s, map, name, secret ? TEMPLATE_MASK : eq ? eq + 1 : "");
		else
			s->bad = true;
	}
}

/* What is said of that type only: volume: {nocopy, subpath}, bind: {propagation} ... */
static void put_mount_options(
	struct show *s, cJSON *to, const char *type, const struct spec_volume *v)
{
	cJSON *map;

	if (!v->nocopy && !v->subpath && !v->propagation && !v->tmpfs_size && !v->tmpfs_mode)
		return;
	map = put_map(s, to, type);
	if (v->nocopy)
		put(s, map, "nocopy", cJSON_CreateTrue());
	put_text(s, map, "subpath", v->subpath);
	put_text(s, map, "propagation", v->propagation);
	put_set(s, map, "size", (double)v->tmpfs_size);
	if (v->tmpfs_mode)
		put_mode(s, map, v->tmpfs_mode);
}

static void put_volumes(struct show *s, cJSON *to)
{
	static const char *const types[] = {"volume", "bind", "tmpfs"};
	cJSON *list = put_array(s, to, "volumes");

	for (size_t i = 0; i < s->spec->n_volumes; i++) {
		const struct spec_volume *v = &s->spec->volumes[i];
		cJSON *map = put_map(s, list, NULL);

		put_text(s, map, "type", types[v->type]);
		put_text(s, map, "source", v->source);
		put_text(s, map, "target", v->target);
		if (v->read_only)
			put(s, map, "read_only", cJSON_CreateTrue());
		put_mount_options(s, map, types[v->type], v);
	}
}

static void put_ports(struct show *s, cJSON *to)
{
	cJSON *list = s->spec->n_ports ? put_array(s, to, "ports") : NULL;

	for (size_t i = 0; i < s->spec->n_ports; i++) {
		const struct spec_port *p = &s->spec->ports[i];
		char published[16];
		cJSON *map = put_map(s, list, NULL);

		put_number(s, map, "target", p->target);
		snprintf(published, sizeof(published),
			p->published == p->published_last ? "%u" : "%u-%u", p->published,
			p->published_last);
		put_text(s, map, "published", published);
		put_text(s, map, "host_ip", p->host_ip ? p->host_ip : "127.0.0.1");
		put_text(s, map, "protocol", p->protocol);
	}
}

static void put_hardware(struct show *s, cJSON *to)
{
	const struct spec *spec = s->spec;
	cJSON *in;

	in = spec->n_ulimits ? put_map(s, to, "ulimits") : NULL;
	for (size_t i = 0; i < spec->n_ulimits; i++) {
		cJSON *map = put_map(s, in, spec->ulimits[i].name);

		put_number(s, map, "soft", (double)spec->ulimits[i].soft);
		put_number(s, map, "hard", (double)spec->ulimits[i].hard);
	}
	in = spec->n_devices ? put_array(s, to, "devices") : NULL;
	for (size_t i = 0; i < spec->n_devices; i++) {
		cJSON *map = put_map(s, in, NULL);

		put_text(s, map, "source", spec->devices[i].source);
		put_text(s, map, "target", spec->devices[i].target);
		put_text(s, map, "permissions", spec->devices[i].permissions);
	}
	in = spec->n_gpus ? put_array(s, to, "gpus") : NULL;
	for (size_t i = 0; i < spec->n_gpus; i++) {
		cJSON *map = put_map(s, in, NULL);

		put_text(s, map, "driver", spec->gpus[i].driver);
		if (spec->gpus[i].count)
			put_number(s, map, "count", spec->gpus[i].count);
		put_some(s, map, "device_ids", spec->gpus[i].device_ids);
		put_some(s, map, "capabilities", spec->gpus[i].capabilities);
		if (spec->gpus[i].options)
			put_pairs(s, map, "options", spec->gpus[i].options, false);
	}
}

static void put_setup(struct show *s, cJSON *to)
{
	const struct spec_x *x = &s->spec->x;
	cJSON *in;

	in = x->n_files ? put_map(s, to, "files") : NULL;
	for (size_t i = 0; i < x->n_files; i++) {
		cJSON *map = put_map(s, in, x->files[i].path);

		put_text(s, map, "source", x->files[i].source);
		if (x->files[i].content)
			put_number(s, map, "size", (double)strlen(x->files[i].content));
		if (x->files[i].has_mode)
			put_mode(s, map, x->files[i].mode);
		put_text(s, map, "owner", x->files[i].owner);
	}
	in = x->n_users ? put_array(s, to, "users") : NULL;
	for (size_t i = 0; i < x->n_users; i++) {
		cJSON *map = put_map(s, in, NULL);

		put_text(s, map, "name", x->users[i].name);
		if (x->users[i].uid != SPEC_ID_NONE)
			put_number(s, map, "uid", x->users[i].uid);
		if (x->users[i].gid != SPEC_ID_NONE)
			put_number(s, map, "gid", x->users[i].gid);
		put_some(s, map, "groups", x->users[i].groups);
		put_text(s, map, "home", x->users[i].home);
		put_text(s, map, "shell", x->users[i].shell);
	}
	in = x->n_groups ? put_array(s, to, "groups") : NULL;
	for (size_t i = 0; i < x->n_groups; i++) {
		cJSON *map = put_map(s, in, NULL);

		put_text(s, map, "name", x->groups[i].name);
		if (x->groups[i].gid != SPEC_ID_NONE)
			put_number(s, map, "gid", x->groups[i].gid);
	}
}

static void put_hooks(
	struct show *s, cJSON *to, const char *key, const struct spec_hook *hooks, size_t n)
{
	cJSON *list = n ? put_array(s, to, key) : NULL;

	for (size_t i = 0; i < n; i++) {
		cJSON *map = put_map(s, list, NULL);

		put_list(s, map, "command", hooks[i].command);
		put_text(s, map, "user", hooks[i].user);
		put_text(s, map, "working_dir", hooks[i].working_dir);
		if (hooks[i].environment)
			put_pairs(s, map, "environment", hooks[i].environment, true);
	}
}

static void put_declared(struct show *s, cJSON *to)
{
	cJSON *in = NULL;

	for (size_t i = 0; i < s->spec->n_volumes; i++) {
		const struct spec_volume *v = &s->spec->volumes[i];
		cJSON *map;

		if (!v->ours)
			continue;
		in = in ? in : put_map(s, to, "volumes");
		map = put_map(s, in, v->source);
		put_text(s, map, "driver", v->driver);
		if (v->driver_opts)
			put_pairs(s, map, "driver_opts", v->driver_opts, false);
		if (v->labels)
			put_pairs(s, map, "labels", v->labels, false);
	}
}

static void put_x(struct show *s, cJSON *to)
{
	static const char *const actions[] = {"pause", "stop", "remove"};
	const struct spec_x *x = &s->spec->x;

	put_set(s, to, "pool", x->pool);
	put_set(s, to, "idle_timeout", (double)x->idle_timeout_ms / 1e3);
	put_text(s, to, "idle_action", x->idle_timeout_ms ? actions[x->idle_action] : NULL);
	put_set(s, to, "ttl", (double)x->ttl_ms / 1e3);
	put_set(s, to, "timeout", (double)x->timeout_ms / 1e3);
	put_set(s, to, "max_wait", (double)x->max_wait_ms / 1e3);
	put_set(s, to, "output_limit", (double)x->output_limit);
	put_setup(s, to);
	put_declared(s, to);
	put_hooks(s, to, "post_start", x->post_start, x->n_post_start);
	put_hooks(s, to, "pre_stop", x->pre_stop, x->n_pre_stop);
	if (x->snapshot_on_stop)
		put(s, to, "snapshot_on_stop", cJSON_CreateTrue());
	put_some(s, to, "archive_exclude", x->archive_exclude);
	put_some(s, to, "secrets", x->secrets);
}

static void put_build(struct show *s, cJSON *to)
{
	const struct spec_build *b = &s->spec->build;
	cJSON *map = b->context ? put_map(s, to, "build") : NULL;

	if (!b->context)
		return;
	put_text(s, map, "context", b->context);
	put_text(s, map, "dockerfile", b->dockerfile);
	if (b->args)
		put_pairs(s, map, "args", b->args, true);
	put_text(s, map, "target", b->target);
}

/* As they hold: all are dropped, and these are there. */
static void put_caps(struct show *s, cJSON *to)
{
	char *const *add = s->spec->cap_add, *const *drop = s->spec->cap_drop;
	cJSON *list;

	if (caps_in(add, "ALL")) {
		put_list(s, to, "cap_add", add);
		put_list(s, to, "cap_drop", drop);
		return;
	}
	list = put_array(s, to, "cap_add");
	for (const char *const *c = caps_all; *c; c++)
		if (caps_has(add, drop, *c))
			put_text(s, list, NULL, *c);
	put_text(s, put_array(s, to, "cap_drop"), NULL, "ALL");
}

static void put_security(struct show *s, cJSON *to)
{
	cJSON *list = put_array(s, to, "security_opt");
	bool said = false;

	for (char *const *o = s->spec->security_opt; o && *o; o++) {
		said = said || strncmp(*o, "no-new-privileges", strlen("no-new-privileges")) == 0;
		put_text(s, list, NULL, *o);
	}
	if (!said)
		put_text(s, list, NULL, "no-new-privileges");
}

static void put_limits(struct show *s, cJSON *to)
{
	const struct spec *spec = s->spec;

	put_number(s, to, "mem_limit", (double)spec->mem_limit);
	put_number(s, to, "cpus", spec->cpus_milli / 1000.0);
	put_number(s, to, "pids_limit", spec->pids_limit);
	put_set(s, to, "shm_size", (double)spec->shm_size);
	if (spec->storage_opt)
		put_pairs(s, to, "storage_opt", spec->storage_opt, false);
}

cJSON *template_show(const struct spec *spec)
{
	struct show show = {.spec = spec}, *s = &show;
	cJSON *to = cJSON_CreateObject(), *x = cJSON_CreateObject();

	s->bad = !to || !x;
	put_text(s, to, "template", spec->template);
	put_text(s, to, "image", spec->image);
	put_build(s, to);
	put_text(s, to, "pull_policy", spec->pull_policy);
	put_text(s, to, "platform", spec->platform);
	put_text(s, to, "runtime", spec->runtime);
	put_text(s, to, "user", spec->user);
	put_some(s, to, "group_add", spec->group_add);
	put_text(s, to, "working_dir", spec->working_dir);
	put_text(s, to, "network_mode", spec->network_mode);
	put_text(s, to, "hostname", spec->hostname);
	put_some(s, to, "dns", spec->dns);
	put_some(s, to, "extra_hosts", spec->extra_hosts);
	put_ports(s, to);
	put_pairs(s, to, "environment", spec->environment, true);
	put_list(s, to, "command", spec->command);
	put_volumes(s, to);
	put_list(s, to, "tmpfs", spec->tmpfs);
	put_caps(s, to);
	put_security(s, to);
	put(s, to, "read_only", cJSON_CreateBool(spec->read_only));
	put_limits(s, to);
	put_hardware(s, to);
	if (spec->labels)
		put_pairs(s, to, "labels", spec->labels, false);
	put_x(s, x);
	if (x && x->child)
		put(s, to, "x-sandboxfs", steal_ptr(&x));
	cJSON_Delete(x);
	if (s->bad)
		cJSON_Delete(steal_ptr(&to));
	return to;
}
