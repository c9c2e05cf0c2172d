/* SPDX-License-Identifier: MIT */
/* What a sandbox gets from outside of its image: volumes in both of Compose's forms, tmpfs, the
 * build's context; and which paths of this machine may be used. Reads no file, but resolves links
 * on this machine; owns nothing between calls, takes no lock; any thread. */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Is path dir itself, or below it? */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return n == 1 || (strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/'));
}

int value_host_path(struct template_parse *p, const char *path, char **real)
{
	const char *const *dir = p->rules ? p->rules->allow_binds : NULL;
	cleanup_free char *got = NULL;

	if (!dir || !*dir)
		return value_fail(p, EPERM,
			"\"%.200s\" is a host path, and this mount allows none (-o allow_binds=)",
			path);
	if (path[0] != '/')
		return value_fail(p, EPERM, "\"%.200s\" is a host path that is not absolute", path);
	got = realpath(path, NULL);
	if (!got && errno == ENOMEM)
		return value_no_memory(p);
	for (; got && *dir; dir++) {
		cleanup_free char *real_dir = realpath(*dir, NULL);

		if (real_dir && is_below(got, real_dir)) {
			*real = steal_ptr(&got);
			return 0;
		}
	}
	/* What is not there is only told to those who may look. */
	for (dir = p->rules->allow_binds; !got && *dir; dir++)
		if (is_below(path, *dir) && !strstr(path, "/.."))
			return value_fail(
				p, EINVAL, "host path \"%.200s\": %s", path, strerror(errno));
	return value_fail(
		p, EPERM, "\"%.200s\" is a host path that allow_binds does not have", path);
}

/* The first n bytes of text are the place. */
static int check_target(struct template_parse *p, char *text, size_t n)
{
	int r = text_path(p, text, n);

	if (r == 0 && (!text[1] || text[1] == ':'))
		r = value_fail(p, EINVAL, "\"/\" is not a place below /");
	return r;
}

static int check_name(struct template_parse *p, const char *name)
{
	if (!template_is_name(name, strlen(name)))
		return value_bad(p, name, "a volume's name");
	if (strncmp(name, SPEC_OUR_VOLUMES, strlen(SPEC_OUR_VOLUMES)) == 0)
		return value_fail(p, EPERM, "volume %.64s belongs to sandboxfs", name);
	return 0;
}

static struct spec_volume *new_volume(struct template_parse *p)
{
	return array_grow(&p->spec->volumes, &p->spec->n_volumes, sizeof(struct spec_volume));
}

/* "ro", "rw", "nocopy", with commas between. */
static int short_options(struct template_parse *p, struct spec_volume *v, const char *s)
{
	for (;;) {
		size_t n = strcspn(s, ",");

		if (n == 2 && memcmp(s, "ro", n) == 0)
			v->read_only = true;
		else if (n == 6 && memcmp(s, "nocopy", n) == 0 && v->type == SPEC_VOLUME)
			v->nocopy = true;
		else if (n != 2 || memcmp(s, "rw", n) != 0)
			return value_bad(
				p, s, v->type == SPEC_BIND ? "ro or rw" : "ro, rw or nocopy");
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

/* [SOURCE:]TARGET[:OPTIONS] */
static int short_volume(struct template_parse *p, const char *s)
{
	const char *colon = strchr(s, ':'), *target = s, *options;
	struct spec_volume *v = new_volume(p);
	int r = 0;

	if (!v)
		return value_no_memory(p);
	if (*s == '~' || *s == '.' || (*s == '/' && colon)) {
		cleanup_free char *path = strndup(s, strcspn(s, ":"));

		if (!path)
			return value_no_memory(p);
		v->type = SPEC_BIND;
		r = value_host_path(p, path, &v->source);
		if (r < 0)
			return r;
		if (!colon)
			return value_bad(p, s, "SOURCE:/PATH");
	} else if (*s != '/') {
		if (!colon || !template_is_name(s, (size_t)(colon - s)))
			return value_bad(p, s, "NAME:/PATH[:ro|rw] or /PATH");
		v->source = strndup(s, (size_t)(colon - s));
		r = v->source ? check_name(p, v->source) : value_no_memory(p);
	}
	if (r < 0)
		return r;
	target = *s == '/' && !colon ? s : colon + 1;
	options = strchr(target, ':');
	v->target = strndup(target, strcspn(target, ":"));
	if (!v->target)
		return value_no_memory(p);
	r = check_target(p, v->target, strlen(v->target));
	return r == 0 && options ? short_options(p, v, options + 1) : r;
}

static int volume_type(struct template_parse *p, const cJSON *j, void *to)
{
	static const char *const words[] = {"volume", "bind", "tmpfs", NULL};
	enum spec_mount *type = to;
	int n = value_word(p, j, words, "volume, bind or tmpfs");

	if (n >= 0)
		*type = (enum spec_mount)n;
	return n < 0 ? n : 0;
}

static int volume_target(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to;
	int r = value_string(p, j, to);

	return r < 0 || !*out ? r : check_target(p, *out, strlen(*out));
}

static int propagation(struct template_parse *p, const cJSON *j, void *to)
{
	static const char *const words[] = {
		"private", "rprivate", "shared", "rshared", "slave", "rslave", NULL};
	int r = value_word(p, j, words, "a propagation like rprivate");

	return r < 0 ? r : value_string(p, j, to);
}

static int create_host_path(struct template_parse *p, const cJSON *j, void *to)
{
	bool create;
	int r = value_bool(p, j, &create);

	(void)to;
	return r == 0 && create ? value_fail(p, EPERM, "no host path is made by a template") : r;
}

static int bind_map(struct template_parse *p, const cJSON *j, void *to)
{
	static const struct template_key keys[] = {
		{"propagation", propagation, offsetof(struct spec_volume, propagation)},
		{"create_host_path", create_host_path, 0},
	};
	struct spec_volume *v = to;

	return v->type == SPEC_BIND ? value_map(p, j, TEMPLATE_KEYS(keys), to)
				    : value_fail(p, EINVAL, "needs type bind");
}

static int subpath(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && (j->valuestring[0] == '/' || strstr(j->valuestring, "..")))
		r = value_bad(p, j->valuestring, "a path inside the volume");
	return r;
}

static int volume_map(struct template_parse *p, const cJSON *j, void *to)
{
	static const struct template_key keys[] = {
		{"nocopy", value_bool, offsetof(struct spec_volume, nocopy)},
		{"subpath", subpath, offsetof(struct spec_volume, subpath)},
	};
	struct spec_volume *v = to;

	return v->type == SPEC_VOLUME ? value_map(p, j, TEMPLATE_KEYS(keys), to)
				      : value_fail(p, EINVAL, "needs type volume");
}

static int tmpfs_map(struct template_parse *p, const cJSON *j, void *to)
{
	static const struct template_key keys[] = {
		{"size", value_size, offsetof(struct spec_volume, tmpfs_size)},
		{"mode", value_mode, offsetof(struct spec_volume, tmpfs_mode)},
	};
	struct spec_volume *v = to;

	return v->type == SPEC_TMPFS ? value_map(p, j, TEMPLATE_KEYS(keys), to)
				     : value_fail(p, EINVAL, "needs type tmpfs");
}

/* The source was taken as it stands there. */
static int check_source(struct template_parse *p, struct spec_volume *v)
{
	cleanup_free char *path = NULL;

	if (v->type != SPEC_VOLUME && !v->source)
		return v->type == SPEC_TMPFS ? 0
					     : value_fail(p, EINVAL, "a bind needs the key source");
	if (!v->source)
		return 0;
	place_member(p, "source");
	if (v->type == SPEC_TMPFS)
		return value_fail(p, EINVAL, "a tmpfs has none");
	if (v->type == SPEC_VOLUME)
		return check_name(p, v->source);
	path = steal_ptr(&v->source);
	return value_host_path(p, path, &v->source);
}

static int long_volume(struct template_parse *p, const cJSON *j)
{
	static const struct template_key keys[] = {
		{"type", volume_type, offsetof(struct spec_volume, type)},
		{"source", value_string, offsetof(struct spec_volume, source)},
		{"target", volume_target, offsetof(struct spec_volume, target)},
		{"read_only", value_bool, offsetof(struct spec_volume, read_only)},
		{"bind", bind_map, 0},
		{"volume", volume_map, 0},
		{"tmpfs", tmpfs_map, 0},
	};
	struct spec_volume *v = new_volume(p);
	size_t was = p->place_len;
	const cJSON *type;
	int r;

	if (!v)
		return value_no_memory(p);
	type = cJSON_GetObjectItemCaseSensitive(j, "type");
	if (!type)
		return value_fail(p, EINVAL, "the key type is missing");
	place_member(p, "type"); /* first: the others depend on it */
	r = volume_type(p, type, &v->type);
	if (r < 0)
		return r;
	place_leave(p, was);
	r = value_map(p, j, TEMPLATE_KEYS(keys), v);
	if (r < 0)
		return r;
	if (!v->target)
		return value_fail(p, EINVAL, "the key target is missing");
	r = check_source(p, v);
	if (r == 0)
		place_leave(p, was);
	return r;
}

static int add_volume(struct template_parse *p, const cJSON *j, void *arg)
{
	(void)arg;
	if (cJSON_IsObject(j))
		return long_volume(p, j);
	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string or a map", j);
	return short_volume(p, j->valuestring);
}

int key_volumes(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_each(p, j, "a list of volumes", false, add_volume, NULL);
}

int key_tmpfs(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_one_or_more(p, j, to);

	for (int i = 0; r == 0 && *out && (*out)[i]; i++) {
		size_t was = cJSON_IsArray(j) ? place_item(p, i) : p->place_len;

		r = check_target(p, (*out)[i], strcspn((*out)[i], ":"));
		if (r == 0)
			place_leave(p, was);
	}
	return r;
}

static int context(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to;
	struct stat st;
	int r;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	r = value_host_path(p, j->valuestring, out);
	if (r == 0 && (stat(*out, &st) < 0 || !S_ISDIR(st.st_mode)))
		r = value_bad(p, j->valuestring, "a directory");
	return r;
}

static int dockerfile(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && (j->valuestring[0] == '/' || strncmp(j->valuestring, "../", 3) == 0 ||
			      strstr(j->valuestring, "/..")))
		r = value_bad(p, j->valuestring, "a path inside the context");
	return r;
}

int key_build(struct template_parse *p, const cJSON *j, void *to)
{
	static const struct template_key keys[] = {
		{"context", context, offsetof(struct spec_build, context)},
		{"dockerfile", dockerfile, offsetof(struct spec_build, dockerfile)},
		{"args", value_environment, offsetof(struct spec_build, args)},
		{"target", value_string, offsetof(struct spec_build, target)},
	};
	struct spec_build *b = to;
	int r;

	if (cJSON_IsString(j))
		return context(p, j, &b->context);
	if (!cJSON_IsObject(j))
		return value_wrong_type(p, "a string or a map", j);
	r = value_map(p, j, TEMPLATE_KEYS(keys), b);
	if (r == 0 && !b->context)
		r = value_fail(p, EINVAL, "the key context is missing");
	return r;
}

static int declare(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"driver", value_string, offsetof(struct spec_volume, driver)},
		{"driver_opts", value_pairs, offsetof(struct spec_volume, driver_opts)},
		{"labels", value_pairs, offsetof(struct spec_volume, labels)},
	};
	struct spec_volume *v = array_grow(&p->declared, &p->n_declared, sizeof(*v));
	int r;

	(void)arg;
	if (!v)
		return value_no_memory(p);
	r = check_name(p, j->string);
	if (r < 0)
		return r;
	v->source = strdup(j->string);
	if (!v->source)
		return value_no_memory(p);
	return cJSON_IsNull(j) ? 0 : value_map(p, j, TEMPLATE_KEYS(keys), v);
}

int key_declared(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_members(p, j, "a map of volumes", declare, NULL);
}

static const char *option(char *const *list, const char *name)
{
	size_t n = strlen(name);

	for (; list && *list; list++)
		if (strncmp(*list, name, n) == 0 && (*list)[n] == '=')
			return *list + n + 1;
	return NULL;
}

/* Has the list of words, with commas between, one that mounts what is there already? */
static bool is_bind(const char *words)
{
	static const char *const bad[] = {"bind", "rbind", "move", "remount"};

	for (const char *w = words; w && *w; w += strspn(w, ",")) {
		size_t n = strcspn(w, ",");

		for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
			if (n == strlen(bad[i]) && memcmp(w, bad[i], n) == 0)
				return true;
		w += n;
	}
	return false;
}

/* The engine's own driver is mount(8) by another name: what it would mount of the engine's machine
 * is a host path. */
static int check_driver(struct template_parse *p, const struct spec_volume *v)
{
	const char *type = option(v->driver_opts, "type"), *words = option(v->driver_opts, "o"),
		   *device = option(v->driver_opts, "device");
	cleanup_free char *real = NULL;

	if ((v->driver && strcmp(v->driver, "local") != 0) || (!type && !device && !words))
		return 0;
	place_member(p, "x-sandboxfs");
	place_member(p, "volumes");
	place_member(p, v->source);
	place_member(p, "driver_opts");
	if (type && !is_bind(words) &&
		(strcmp(type, "tmpfs") == 0 || strcmp(type, "nfs") == 0 ||
			strcmp(type, "nfs4") == 0 || strcmp(type, "cifs") == 0)) {
		place_leave(p, 0);
		return 0;
	}
	if (!type || strcmp(type, "none") != 0 || !device || !is_bind(words))
		return value_fail(p, EPERM,
			"type must be tmpfs, nfs, nfs4, cifs, or none with o=bind and a device");
	place_member(p, "device");
	if (value_host_path(p, device, &real) < 0)
		return -p->err->code;
	if (real && strcmp(real, device) != 0)
		return value_fail(p, EPERM, "\"%.200s\" passes through a link", device);
	place_leave(p, 0);
	return 0;
}

int volumes_settle(struct template_parse *p)
{
	for (size_t d = 0; d < p->n_declared; d++) {
		struct spec_volume *from = &p->declared[d], *found = NULL;

		if (check_driver(p, from) < 0)
			return -p->err->code;
		for (size_t i = 0; i < p->spec->n_volumes; i++) {
			struct spec_volume *v = &p->spec->volumes[i];

			if (v->type != SPEC_VOLUME || !v->source ||
				strcmp(v->source, from->source) != 0)
				continue;
			/* It is made with the container and has no name of its own there. */
			if (found)
				return err_set(p->err, EINVAL,
					"key volumes[%zu]: %.64s is under x-sandboxfs.volumes, and "
					"such a one can stand in one place only",
					i, from->source);
			found = v;
		}
		if (!found)
			return err_set(p->err, EINVAL,
				"key x-sandboxfs.volumes.%.64s: the key volumes does not use it",
				from->source);
		found->ours = true;
		found->driver = steal_ptr(&from->driver);
		found->driver_opts = steal_ptr(&from->driver_opts);
		found->labels = steal_ptr(&from->labels);
	}
	return 0;
}
