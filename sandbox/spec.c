/* SPDX-License-Identifier: MIT */
/* Who frees what a spec holds. */
#include "sandbox/spec.h"

#include <stdlib.h>
#include <string.h>

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

static void free_hooks(struct spec_hook *hooks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free_list(hooks[i].command);
		free(hooks[i].user);
		free(hooks[i].working_dir);
		free_list(hooks[i].environment);
	}
	free(hooks);
}

void spec_x_fini(struct spec_x *x)
{
	for (size_t i = 0; i < x->n_files; i++) {
		free(x->files[i].path);
		free(x->files[i].content);
		free(x->files[i].source);
		free(x->files[i].owner);
	}
	free(x->files);
	for (size_t i = 0; i < x->n_users; i++) {
		free(x->users[i].name);
		free_list(x->users[i].groups);
		free(x->users[i].home);
		free(x->users[i].shell);
	}
	free(x->users);
	for (size_t i = 0; i < x->n_groups; i++)
		free(x->groups[i].name);
	free(x->groups);
	free_hooks(x->post_start, x->n_post_start);
	free_hooks(x->pre_stop, x->n_pre_stop);
	free_list(x->archive_exclude);
	free_list(x->secrets);
	memset(x, 0, sizeof(*x));
}

static void free_volumes(struct spec *spec)
{
	for (size_t i = 0; i < spec->n_volumes; i++) {
		struct spec_volume *v = &spec->volumes[i];

		free(v->source);
		free(v->target);
		free(v->driver);
		free_list(v->driver_opts);
		free_list(v->labels);
		free(v->subpath);
		free(v->propagation);
	}
	free(spec->volumes);
}

static void free_hardware(struct spec *spec)
{
	for (size_t i = 0; i < spec->n_ports; i++)
		free(spec->ports[i].host_ip);
	free(spec->ports);
	for (size_t i = 0; i < spec->n_ulimits; i++)
		free(spec->ulimits[i].name);
	free(spec->ulimits);
	for (size_t i = 0; i < spec->n_devices; i++) {
		free(spec->devices[i].source);
		free(spec->devices[i].target);
		free(spec->devices[i].permissions);
	}
	free(spec->devices);
	for (size_t i = 0; i < spec->n_gpus; i++) {
		free(spec->gpus[i].driver);
		free_list(spec->gpus[i].device_ids);
		free_list(spec->gpus[i].capabilities);
		free_list(spec->gpus[i].options);
	}
	free(spec->gpus);
}

void spec_fini(struct spec *spec)
{
	char *owned[] = {spec->namespace, spec->name, spec->template, spec->image,
		spec->pull_policy, spec->build.context, spec->build.dockerfile, spec->build.target,
		spec->user, spec->working_dir, spec->network_mode, spec->hostname, spec->platform,
		spec->runtime, spec->config};
	char **lists[] = {spec->build.args, spec->environment, spec->command, spec->group_add,
		spec->tmpfs, spec->dns, spec->extra_hosts, spec->cap_add, spec->cap_drop,
		spec->security_opt, spec->storage_opt, spec->labels};

	for (size_t i = 0; i < sizeof(owned) / sizeof(*owned); i++)
		free(owned[i]);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		free_list(lists[i]);
	free_volumes(spec);
	free_hardware(spec);
	spec_x_fini(&spec->x);
	memset(spec, 0, sizeof(*spec));
}

bool spec_beneath(const char *path, const char *dir, size_t len)
{
	while (len > 1 && dir[len - 1] == '/')
		len--;
	if (len == 1)
		return true;
	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/');
}

bool spec_usable(const char *path, size_t len)
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
		if (part == path + 1 && n + 1 == strlen(SPEC_OURS) &&
			!memcmp(path, SPEC_OURS, n + 1))
			return false;
	}
	return true;
}
