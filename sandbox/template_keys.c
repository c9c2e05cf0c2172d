/* SPDX-License-Identifier: MIT */
/*
 * The keys of a template. Each key of a Compose service that we know has a line in the table `keys`
 * and a function that checks its value's form and puts it into the spec; what is not in the
 * table is an error. Owns nothing between calls, takes no lock; any thread.
 */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"
#include "sandbox/caps.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEM_MIN	  (6ull << 20) /* less no engine makes */
#define OUR_LABEL "sandboxfs."

static int key_image(struct template_parse *p, const cJSON *j, void *to)
{
	char **image = to, *real;
	int r = value_string(p, j, to);

	/* An archive on this machine, for engines that take one; "/" is the machine's own system.
	 */
	if (r == 0 && j->valuestring[0] == '/') {
		if (!j->valuestring[1] || (p->rules && p->rules->image &&
						  strcmp(j->valuestring, p->rules->image) == 0))
			return 0;
		r = value_host_path(p, j->valuestring, &real);
		if (r == 0) {
			free(*image);
			*image = real;
		}
		return r;
	}
	if (r == 0 && (!text_only(j->valuestring, "._-/:@") ||
			      !isalnum((unsigned char)j->valuestring[0])))
		r = value_bad(p, j->valuestring, "an image's name");
	return r;
}

static int key_pull_policy(struct template_parse *p, const cJSON *j, void *to)
{
	static const char *const words[] = {
		"if_not_present", "missing", "always", "never", "build", NULL};
	char **out = to;
	int n = value_word(p, j, words, "missing, always, never or build");

	if (n < 0)
		return n;
	*out = strdup(words[n ? n : 1]); /* the first two are the same */
	return *out ? 0 : value_no_memory(p);
}

static int key_entrypoint(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_words(p, j, &p->entrypoint);
}

static int key_command(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_words(p, j, &p->command);
}

/* Known ones only: a misspelt one in cap_drop would be kept, and nobody would know. */
static int key_caps(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_strings(p, j, to);

	for (int i = 0; r == 0 && *out && (*out)[i]; i++) {
		size_t was = place_item(p, i);

		if (!caps_known((*out)[i]))
			return value_bad(p, (*out)[i], "a capability");
		place_leave(p, was);
	}
	return r;
}

/* NAME, or NAME:VALUE, which becomes NAME=VALUE. */
static int check_security_opt(struct template_parse *p, char *s)
{
	size_t n = strcspn(s, ":=");
	char *value = s[n] ? s + n + 1 : NULL;

	if (value)
		s[n] = '=';
	if (n == strlen("no-new-privileges") && strncmp(s, "no-new-privileges", n) == 0)
		return !value || strcmp(value, "true") == 0 || strcmp(value, "false") == 0
			       ? 0
			       : value_bad(p, value, "true or false");
	if (!value || !*value)
		return value_bad(p, s, "NAME=VALUE or no-new-privileges");
	/* What the docker command reads from a file here, it sends as text. */
	if (strncmp(s, "seccomp=", n + 1) == 0)
		return strcmp(value, "unconfined") == 0 || strcmp(value, "builtin") == 0 ||
				       *value == '{'
			       ? 0
			       : value_bad(p, value, "unconfined, builtin or a profile's JSON");
	if (strncmp(s, "apparmor=", n + 1) == 0 || strncmp(s, "label=", n + 1) == 0 ||
		strcmp(s, "systempaths=unconfined") == 0)
		return 0;
	return value_bad(p, s, "one of no-new-privileges, seccomp, apparmor, label, systempaths");
}

static int key_security_opt(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_strings(p, j, to);

	for (int i = 0; r == 0 && *out && (*out)[i]; i++) {
		size_t was = place_item(p, i);

		r = check_security_opt(p, (*out)[i]);
		if (r == 0)
			place_leave(p, was);
	}
	return r;
}

static int key_mem_limit(struct template_parse *p, const cJSON *j, void *to)
{
	uint64_t *out = to;
	int r = value_size(p, j, to);

	if (r == 0 && *out && *out < MEM_MIN)
		r = value_fail(p, EINVAL, "must be at least 6m, or 0 for none");
	return r;
}

static int key_cpus(struct template_parse *p, const cJSON *j, void *to)
{
	uint32_t *out = to;
	const char *rest = "";
	double v = -1;

	if (cJSON_IsNumber(j))
		v = j->valuedouble;
	else if (!cJSON_IsString(j))
		return value_wrong_type(p, "a number", j);
	else if (text_decimal(j->valuestring, &v, &rest) && *rest)
		v = -1;
	if (!(v == 0 || (v >= 0.01 && v <= 65536)))
		return value_fail(p, EINVAL, "must be a number from 0.01 on, or 0 for all");
	*out = (uint32_t)(v * 1000 + 0.5);
	return 0;
}

static int key_pids_limit(struct template_parse *p, const cJSON *j, void *to)
{
	uint32_t *out = to;
	int64_t v;
	int r = value_whole(p, j, -1, 4194304, &v);

	if (r == 0)
		*out = v > 0 ? (uint32_t)v : 0;
	return r;
}

static int key_hostname(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && (!template_is_name(j->valuestring, strlen(j->valuestring)) ||
			      strlen(j->valuestring) > 63))
		r = value_bad(p, j->valuestring, "a host name");
	return r;
}

static int key_labels(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_pairs(p, j, to);

	for (char **l = *out; r == 0 && l && *l; l++)
		if (strncmp(*l, OUR_LABEL, strlen(OUR_LABEL)) == 0)
			r = value_fail(p, EPERM, "labels that begin with " OUR_LABEL " are ours");
	return r;
}

static int key_storage_opt(struct template_parse *p, const cJSON *j, void *to)
{
	return cJSON_IsObject(j) ? value_pairs(p, j, to) : value_wrong_type(p, "a map", j);
}

static int key_platform(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);
	const char *slash = r == 0 ? strchr(j->valuestring, '/') : NULL;

	if (r == 0 && (!text_only(j->valuestring, "_.-/") || j->valuestring[0] == '/' || !slash ||
			      !slash[1]))
		r = value_bad(p, j->valuestring, "a platform like linux/arm64");
	return r;
}

static int key_runtime(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && !template_is_name(j->valuestring, strlen(j->valuestring)))
		r = value_bad(p, j->valuestring, "a runtime's name");
	return r;
}

#define IN(field) offsetof(struct spec, field)

static const struct template_key keys[] = {
	{"image", key_image, IN(image)},
	{"build", key_build, IN(build)},
	{"pull_policy", key_pull_policy, IN(pull_policy)},
	{"entrypoint", key_entrypoint, 0},
	{"command", key_command, 0},
	{"environment", value_environment, IN(environment)},
	{"working_dir", value_path, IN(working_dir)},
	{"user", value_user, IN(user)},
	{"group_add", value_ids, IN(group_add)},
	{"volumes", key_volumes, 0},
	{"tmpfs", key_tmpfs, IN(tmpfs)},
	{"ports", key_ports, 0},
	{"network_mode", key_network_mode, IN(network_mode)},
	{"dns", key_dns, IN(dns)},
	{"extra_hosts", key_extra_hosts, IN(extra_hosts)},
	{"cap_add", key_caps, IN(cap_add)},
	{"cap_drop", key_caps, IN(cap_drop)},
	{"security_opt", key_security_opt, IN(security_opt)},
	{"read_only", value_bool, IN(read_only)},
	{"mem_limit", key_mem_limit, IN(mem_limit)},
	{"cpus", key_cpus, IN(cpus_milli)},
	{"pids_limit", key_pids_limit, IN(pids_limit)},
	{"shm_size", value_size, IN(shm_size)},
	{"ulimits", key_ulimits, 0},
	{"storage_opt", key_storage_opt, IN(storage_opt)},
	{"devices", key_devices, 0},
	{"gpus", key_gpus, 0},
	{"hostname", key_hostname, IN(hostname)},
	{"labels", key_labels, IN(labels)},
	{"platform", key_platform, IN(platform)},
	{"runtime", key_runtime, IN(runtime)},
	{"x-sandboxfs", key_x, 0},
};

/* A misspelt secret would be shown. What the daemon's environment gave is one too. */
static int settle_secrets(struct template_parse *p)
{
	struct list all = {.v = p->spec->x.secrets};
	int r = 0;

	for (; all.v && all.v[all.n]; all.n++) {
		const char *s = all.v[all.n];

		if (!list_has(p->env_names.v, s, strlen(s)))
			return err_set(p->err, EINVAL,
				"key x-sandboxfs.secrets[%zu]: no variable is called \"%.64s\"",
				all.n, s);
	}
	for (char **h = p->hidden.v; r == 0 && h && *h; h++)
		if (!list_has(all.v, *h, strlen(*h)))
			r = list_add(&all, strdup(*h));
	p->spec->x.secrets = all.v;
	return r == 0 ? 0 : value_no_memory(p);
}

static int fit_together(struct template_parse *p)
{
	const struct spec *s = p->spec;
	const char *net = s->network_mode ? s->network_mode : "none";

	if (s->n_ports && (strcmp(net, "none") == 0 || strcmp(net, "host") == 0))
		return err_set(p->err, EINVAL,
			"key ports: network_mode is %s, so nothing can be published; ctl/ports/N "
			"needs no network",
			net);
	if (s->pull_policy && strcmp(s->pull_policy, "build") == 0 && !s->build.context)
		return err_set(p->err, EINVAL, "key pull_policy: build needs the key build");
	if (s->pull_policy && strcmp(s->pull_policy, "always") == 0 && s->build.context)
		return err_set(p->err, EINVAL,
			"key pull_policy: always is for what is pulled; with the key build, build "
			"builds anew each time");
	return 0;
}

int template_set_keys(struct template_parse *p, const cJSON *root)
{
	int r = value_map(p, root, TEMPLATE_KEYS(keys), p->spec);

	if (r == 0)
		r = volumes_settle(p);
	if (r == 0)
		r = settle_secrets(p);
	return r == 0 ? fit_together(p) : r;
}
