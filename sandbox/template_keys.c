/* SPDX-License-Identifier: MIT */
/*
 * The keys of a template. Each key of a Compose service that we know has a line in the table `keys`
 * and a function that checks its value's form and puts it into the spec; what is not in the
 * table is an error. Owns nothing between calls, takes no lock; any thread.
 */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX    4096 /* in one list; bounds the quadratic search for duplicates */
#define PATH_LEN_MAX 4096
#define EXACT_MAX    9007199254740992.0 /* 2^53: a larger number in JSON may not be exact */
#define MASK	     "***"

struct list {
	char **v;
	size_t n;
};

static bool is_whole(double v)
{
	return v >= -EXACT_MAX && v <= EXACT_MAX && v == (double)(int64_t)v;
}

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* Takes s, also when it fails; NULL is an allocation that failed. */
static int list_add(struct list *l, char *s)
{
	char **v = s ? realloc(l->v, (l->n + 2) * sizeof(*v)) : NULL;

	if (!v) {
		free(s);
		return -ENOMEM;
	}
	v[l->n++] = s;
	v[l->n] = NULL;
	l->v = v;
	return 0;
}

static const char *type_name(const cJSON *j)
{
	if (cJSON_IsString(j))
		return "a string";
	if (cJSON_IsNumber(j))
		return "a number";
	if (cJSON_IsBool(j))
		return "true or false";
	if (cJSON_IsArray(j))
		return "a list";
	return cJSON_IsNull(j) ? "null" : "a map";
}

static int wrong_type(struct template_parse *p, const char *key, const char *want, const cJSON *got)
{
	return err_set(p->err, EINVAL, "key %s: must be %s, not %s", key, want, type_name(got));
}

bool template_is_name(const char *s, size_t n)
{
	if (n < 1 || !isalnum((unsigned char)s[0]))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i]))
			return false;
	return true;
}

static bool only(const char *s, const char *more)
{
	for (const char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(more, *c))
			return false;
	return *s != 0;
}

/* An absolute path that is what it looks like, and none of ours. */
static int check_path(struct template_parse *p, const char *key, const char *path, size_t n)
{
	if (n < 1 || path[0] != '/' || n >= PATH_LEN_MAX)
		return err_set(p->err, EINVAL, "key %s: \"%.*s\" is not an absolute path", key,
			(int)(n < 200 ? n : 200), path);
	for (size_t at = 0; at < n;) {
		const char *part = path + at + 1;
		size_t len = 0;

		while (at + 1 + len < n && part[len] != '/')
			len++;
		if ((len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
			return err_set(
				p->err, EINVAL, "key %s: a path may not have . or .. in it", key);
		if (len == strlen(".sandboxfs") && memcmp(part, ".sandboxfs", len) == 0)
			return err_set(p->err, EPERM, "key %s: /.sandboxfs is the agent's", key);
		at += len + 1;
	}
	return 0;
}

/* Splits like a shell, without expansions: blanks, quotes, backslashes. */
static int split_words(struct template_parse *p, const char *key, const char *s, struct list *out)
{
	while (*s) {
		char *word, *to, quote = 0;

		while (*s == ' ' || *s == '\t' || *s == '\n')
			s++;
		if (!*s)
			break;
		word = to = malloc(strlen(s) + 1);
		if (!word)
			return no_memory(p->err);
		for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
			if (*s == '\\' && quote != '\'' && s[1] &&
				(!quote || strchr("\"\\$`\n", s[1])))
				*to++ = *++s;
			else if (quote && *s == quote)
				quote = 0;
			else if (!quote && (*s == '"' || *s == '\''))
				quote = *s;
			else
				*to++ = *s;
		}
		*to = 0;
		if (quote) {
			free(word);
			return err_set(p->err, EINVAL, "key %s: a %c is not closed", key, quote);
		}
		if (list_add(out, word) != 0)
			return no_memory(p->err);
	}
	return 0;
}

/* A list of strings, each passed to each(); place is "key[i]" for messages. */
static int for_strings(struct template_parse *p, const char *key, const cJSON *j,
	int (*each)(struct template_parse *p, const char *place, const char *s, void *arg),
	void *arg)
{
	const cJSON *item;
	char place[64];
	int i = 0, r;

	if (!cJSON_IsArray(j))
		return wrong_type(p, key, "a list of strings", j);
	cJSON_ArrayForEach (item, j) {
		snprintf(place, sizeof(place), "%s[%d]", key, i);
		if (++i > ITEMS_MAX)
			return err_set(p->err, EINVAL, "key %s: too many entries", key);
		if (!cJSON_IsString(item))
			return wrong_type(p, place, "a string", item);
		r = each(p, place, item->valuestring, arg);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_any(struct template_parse *p, const char *place, const char *s, void *arg)
{
	return list_add(arg, strdup(s)) == 0 ? 0 : no_memory(p->err);
}

static int get_words(struct template_parse *p, const char *key, const cJSON *j, char ***out)
{
	struct list l = {0};
	int r;

	if (cJSON_IsString(j))
		r = split_words(p, key, j->valuestring, &l);
	else if (cJSON_IsArray(j))
		r = for_strings(p, key, j, add_any, &l);
	else
		r = wrong_type(p, key, "a string or a list of strings", j);
	if (r == 0 && l.n && !l.v[0][0])
		r = err_set(p->err, EINVAL, "key %s: the program's name is empty", key);
	*out = l.v;
	return r;
}

static int set_entrypoint(struct template_parse *p, const char *key, const cJSON *j)
{
	return get_words(p, key, j, &p->entrypoint);
}

static int set_command(struct template_parse *p, const char *key, const cJSON *j)
{
	return get_words(p, key, j, &p->command);
}

static int get_string(struct template_parse *p, const char *key, const cJSON *j, char **out)
{
	if (!cJSON_IsString(j))
		return wrong_type(p, key, "a string", j);
	if (!j->valuestring[0])
		return err_set(p->err, EINVAL, "key %s: is empty", key);
	*out = strdup(j->valuestring);
	return *out ? 0 : no_memory(p->err);
}

static int bad_value(struct template_parse *p, const char *key, const char *value, const char *want)
{
	return err_set(p->err, EINVAL, "key %s: \"%.200s\" is not %s", key, value, want);
}

static int set_image(struct template_parse *p, const char *key, const cJSON *j)
{
	int r = get_string(p, key, j, &p->spec->image);

	if (r == 0 && (!only(p->spec->image, "._-/:@") || !isalnum((unsigned char)*p->spec->image)))
		r = bad_value(p, key, p->spec->image, "an image's name");
	return r;
}

static int set_pull_policy(struct template_parse *p, const char *key, const cJSON *j)
{
	const char *s;

	if (!cJSON_IsString(j))
		return wrong_type(p, key, "a string", j);
	s = strcmp(j->valuestring, "if_not_present") == 0 ? "missing" : j->valuestring;
	if (strcmp(s, "missing") != 0 && strcmp(s, "always") != 0 && strcmp(s, "never") != 0)
		return bad_value(p, key, s, "missing, always or never");
	p->spec->pull_policy = strdup(s);
	return p->spec->pull_policy ? 0 : no_memory(p->err);
}

/* Adds NAME=value, or takes the daemon's own where value is NULL. */
static int add_env(struct template_parse *p, const char *place, const char *name, size_t n,
	const char *value, struct list *l)
{
	cleanup_free char *key = strndup(name, n);
	const char *shown = value ? value : MASK;
	char *line;

	if (!key)
		return no_memory(p->err);
	if (!n || memchr(name, '=', n))
		return err_set(p->err, EINVAL, "key %s: not a variable's name", place);
	if (cJSON_GetObjectItemCaseSensitive(p->env_shown, key))
		return err_set(p->err, EINVAL, "key %s: %s stands there twice", place, key);
	if (!value)
		value = getenv(key);
	if (!value) /* Compose: then it is not set inside either */
		return 0;
	if (asprintf(&line, "%s=%s", key, value) < 0)
		line = NULL;
	if (list_add(l, line) != 0 || !cJSON_AddStringToObject(p->env_shown, key, shown))
		return no_memory(p->err);
	return 0;
}

static int env_line(struct template_parse *p, const char *place, const char *s, void *arg)
{
	const char *eq = strchr(s, '=');

	return add_env(p, place, s, eq ? (size_t)(eq - s) : strlen(s), eq ? eq + 1 : NULL, arg);
}

static int env_item(struct template_parse *p, const cJSON *item, struct list *l)
{
	char number[32], place[128];
	const char *name = item->string, *value = NULL;

	snprintf(place, sizeof(place), "environment.%s", name);
	if (cJSON_IsString(item)) {
		value = item->valuestring;
	} else if (cJSON_IsBool(item)) {
		value = cJSON_IsTrue(item) ? "true" : "false";
	} else if (cJSON_IsNumber(item)) {
		if (!(item->valuedouble >= -EXACT_MAX && item->valuedouble <= EXACT_MAX))
			return err_set(
				p->err, EINVAL, "key %s: too large, write it as a string", place);
		snprintf(number, sizeof(number), "%.15g", item->valuedouble);
		if (is_whole(item->valuedouble))
			snprintf(number, sizeof(number), "%.0f", item->valuedouble);
		value = number;
	} else if (!cJSON_IsNull(item)) {
		return wrong_type(p, place, "a string, a number or null", item);
	}
	return add_env(p, place, name, strlen(name), value, l);
}

static int set_environment(struct template_parse *p, const char *key, const cJSON *j)
{
	struct list l = {0};
	const cJSON *item;
	int r = 0, i = 0;

	if (cJSON_IsObject(j)) {
		cJSON_ArrayForEach (item, j) {
			r = ++i > ITEMS_MAX
				    ? err_set(p->err, EINVAL, "key %s: too many entries", key)
				    : env_item(p, item, &l);
			if (r < 0)
				break;
		}
	} else if (cJSON_IsArray(j)) {
		r = for_strings(p, key, j, env_line, &l);
	} else {
		r = wrong_type(p, key, "a map or a list of strings", j);
	}
	p->spec->environment = l.v;
	return r;
}

static int set_working_dir(struct template_parse *p, const char *key, const cJSON *j)
{
	int r = get_string(p, key, j, &p->spec->working_dir);

	return r < 0 ? r : check_path(p, key, p->spec->working_dir, strlen(p->spec->working_dir));
}

static int set_user(struct template_parse *p, const char *key, const cJSON *j)
{
	int r = get_string(p, key, j, &p->spec->user);

	if (r == 0 && (!only(p->spec->user, "_.-:") || p->spec->user[0] == ':'))
		r = bad_value(p, key, p->spec->user, "NAME, UID, NAME:GROUP or UID:GID");
	return r;
}

static int add_volume(struct template_parse *p, const char *place, const char *s, void *arg)
{
	struct spec *spec = p->spec;
	const char *colon = strchr(s, ':'), *target = s, *mode;
	struct spec_volume *v;
	size_t n;
	int r;

	if (*s == '~' || *s == '.' || (*s == '/' && colon))
		return err_set(p->err, EPERM,
			"key %s: \"%.200s\" is a host path, which this mount does not allow", place,
			s);
	if (*s != '/') {
		if (!colon || !template_is_name(s, (size_t)(colon - s)))
			return bad_value(p, place, s, "NAME:/PATH[:ro|rw] or /PATH");
		target = colon + 1;
	}
	mode = strchr(target, ':');
	n = mode ? (size_t)(mode - target) : strlen(target);
	if (mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0)
		return bad_value(p, place, mode + 1, "ro or rw");
	r = check_path(p, place, target, n);
	if (r < 0)
		return r;
	if (strspn(target, "/") == n)
		return bad_value(p, place, s, "a volume below /");
	v = realloc(spec->volumes, (spec->n_volumes + 1) * sizeof(*v));
	if (!v)
		return no_memory(p->err);
	spec->volumes = v;
	v += spec->n_volumes++;
	v->source = target == s ? NULL : strndup(s, (size_t)(colon - s));
	v->target = strndup(target, n);
	v->read_only = mode && strcmp(mode, ":ro") == 0;
	return v->target && (v->source || target == s) ? 0 : no_memory(p->err);
}

static int set_volumes(struct template_parse *p, const char *key, const cJSON *j)
{
	return for_strings(p, key, j, add_volume, NULL);
}

static int add_tmpfs(struct template_parse *p, const char *place, const char *s, void *arg)
{
	size_t n = strcspn(s, ":");
	int r = check_path(p, place, s, n);

	if (r == 0 && strspn(s, "/") == n)
		r = bad_value(p, place, s, "a directory below /");
	return r < 0 ? r : add_any(p, place, s, arg);
}

static int set_tmpfs(struct template_parse *p, const char *key, const cJSON *j)
{
	struct list l = {0};
	int r = cJSON_IsString(j) ? add_tmpfs(p, key, j->valuestring, &l)
				  : for_strings(p, key, j, add_tmpfs, &l);

	p->spec->tmpfs = l.v;
	return r;
}

static int set_network_mode(struct template_parse *p, const char *key, const cJSON *j)
{
	int r = get_string(p, key, j, &p->spec->network_mode);

	if (r == 0 && !template_is_name(p->spec->network_mode, strlen(p->spec->network_mode)))
		r = bad_value(p, key, p->spec->network_mode, "none, bridge, host or a network");
	return r;
}

static int add_cap(struct template_parse *p, const char *place, const char *s, void *arg)
{
	if (!only(s, "_"))
		return bad_value(p, place, s, "a capability");
	return add_any(p, place, s, arg);
}

static int get_caps(struct template_parse *p, const char *key, const cJSON *j, char ***out)
{
	struct list l = {0};
	int r = for_strings(p, key, j, add_cap, &l);

	*out = l.v;
	return r;
}

static int set_cap_add(struct template_parse *p, const char *key, const cJSON *j)
{
	return get_caps(p, key, j, &p->spec->cap_add);
}

static int set_cap_drop(struct template_parse *p, const char *key, const cJSON *j)
{
	return get_caps(p, key, j, &p->spec->cap_drop);
}

static int set_read_only(struct template_parse *p, const char *key, const cJSON *j)
{
	if (!cJSON_IsBool(j))
		return wrong_type(p, key, "true or false", j);
	p->spec->read_only = cJSON_IsTrue(j);
	return 0;
}

/* Digits, perhaps with a fraction; *rest is what follows. False if it is no such thing. */
static bool get_decimal(const char *s, double *value, const char **rest)
{
	double v = 0, unit = 1;
	const char *c = s;

	for (; isdigit((unsigned char)*c); c++)
		v = v * 10 + (*c - '0');
	if (c == s)
		return false;
	if (*c == '.' && isdigit((unsigned char)c[1]))
		for (c++; isdigit((unsigned char)*c); c++)
			v += (*c - '0') * (unit /= 10);
	*value = v;
	*rest = c;
	return true;
}

static int set_mem_limit(struct template_parse *p, const char *key, const cJSON *j)
{
	static const char *const units[] = {"b", "k", "m", "g", "t"};
	const char *rest = "";
	double v = -1;

	if (cJSON_IsNumber(j)) {
		v = j->valuedouble;
	} else if (!cJSON_IsString(j)) {
		return wrong_type(p, key, "bytes or a size like \"512m\"", j);
	} else if (get_decimal(j->valuestring, &v, &rest) && *rest) {
		double scale = 0, f = 1;

		for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++, f *= 1024)
			if (strncasecmp(rest, units[i], 1) == 0 &&
				(!rest[1] || (i && strcasecmp(rest + 1, "b") == 0)))
				scale = f;
		v = scale > 0 && v * scale <= EXACT_MAX ? (double)(uint64_t)(v * scale) : -1;
	}
	if (!is_whole(v) || v < 0)
		return err_set(
			p->err, EINVAL, "key %s: must be bytes or a size like \"512m\"", key);
	p->spec->mem_limit = (uint64_t)v;
	return 0;
}

static int set_cpus(struct template_parse *p, const char *key, const cJSON *j)
{
	const char *rest = "";
	double v = -1;

	if (cJSON_IsNumber(j))
		v = j->valuedouble;
	else if (!cJSON_IsString(j))
		return wrong_type(p, key, "a number", j);
	else if (get_decimal(j->valuestring, &v, &rest) && *rest)
		v = -1;
	if (!(v == 0 || (v >= 0.01 && v <= 65536)))
		return err_set(
			p->err, EINVAL, "key %s: must be a number from 0.01 on, or 0 for all", key);
	p->spec->cpus_milli = (uint32_t)(v * 1000 + 0.5);
	return 0;
}

static int set_pids_limit(struct template_parse *p, const char *key, const cJSON *j)
{
	double v;

	if (!cJSON_IsNumber(j))
		return wrong_type(p, key, "a number", j);
	v = j->valuedouble;
	if (!is_whole(v) || v < -1 || v > 4194304)
		return err_set(
			p->err, EINVAL, "key %s: must be a whole number, or -1 for none", key);
	p->spec->pids_limit = v > 0 ? (uint32_t)v : 0;
	return 0;
}

static int set_hostname(struct template_parse *p, const char *key, const cJSON *j)
{
	int r = get_string(p, key, j, &p->spec->hostname);

	if (r == 0 && (!template_is_name(p->spec->hostname, strlen(p->spec->hostname)) ||
			      strlen(p->spec->hostname) > 63))
		r = bad_value(p, key, p->spec->hostname, "a host name");
	return r;
}

static const struct key {
	const char *name;
	int (*set)(struct template_parse *p, const char *key, const cJSON *j); /* NULL: not yet */
} keys[] = {
	{"image", set_image},
	{"pull_policy", set_pull_policy},
	{"entrypoint", set_entrypoint},
	{"command", set_command},
	{"environment", set_environment},
	{"working_dir", set_working_dir},
	{"user", set_user},
	{"volumes", set_volumes},
	{"tmpfs", set_tmpfs},
	{"network_mode", set_network_mode},
	{"cap_add", set_cap_add},
	{"cap_drop", set_cap_drop},
	{"read_only", set_read_only},
	{"mem_limit", set_mem_limit},
	{"cpus", set_cpus},
	{"pids_limit", set_pids_limit},
	{"hostname", set_hostname},
	{"build", NULL},
	{"group_add", NULL},
	{"ports", NULL},
	{"dns", NULL},
	{"extra_hosts", NULL},
	{"security_opt", NULL},
	{"shm_size", NULL},
	{"ulimits", NULL},
	{"storage_opt", NULL},
	{"devices", NULL},
	{"gpus", NULL},
	{"labels", NULL},
	{"platform", NULL},
	{"runtime", NULL},
	{"x-sandboxfs", NULL},
};

#define N_KEYS (sizeof(keys) / sizeof(*keys))

int template_set_keys(struct template_parse *p, const cJSON *root)
{
	bool seen[N_KEYS] = {false};
	const cJSON *item;
	size_t i;
	int r;

	cJSON_ArrayForEach (item, root) {
		for (i = 0; i < N_KEYS && strcmp(keys[i].name, item->string) != 0; i++)
			;
		if (i == N_KEYS)
			return err_set(p->err, EINVAL, "unknown key %.100s", item->string);
		if (seen[i])
			return err_set(p->err, EINVAL, "key %s stands there twice", keys[i].name);
		seen[i] = true;
		if (!keys[i].set)
			return err_set(p->err, EINVAL, "key %s is not supported yet", keys[i].name);
		r = keys[i].set(p, keys[i].name, item);
		if (r < 0)
			return r;
	}
	return 0;
}
