/* SPDX-License-Identifier: MIT */
/*
 * Templates: names, files, defaults, and the resolved result as JSON. The keys themselves are in
 * template_keys.c. Owns nothing between calls, takes no lock; any thread.
 */
#include "sandbox/template.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "sandbox/template_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILTIN_IMAGE	"debian:stable-slim"
#define DIRNAME_MAX	128
#define FILE_MAX	(1u << 20)
#define DEFAULT_MEM	(1ull << 30)
#define DEFAULT_MILLI	2000
#define DEFAULT_PIDS	512
#define DEFAULT_WORKDIR "/workspace"

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

int template_split(const char *dirname, char **template, bool *snapshot, struct err *err)
{
	size_t len = strnlen(dirname, DIRNAME_MAX + 1);
	const char *at = strchr(dirname, '@'), *name = at ? at + 1 : dirname;
	const char *colon = at ? memchr(dirname, ':', (size_t)(at - dirname)) : NULL;
	size_t head = at ? (size_t)((colon ? colon : at) - dirname) : 0;
	char *got;

	if (len > DIRNAME_MAX)
		return err_set(err, EINVAL, "a sandbox's name has at most %d bytes", DIRNAME_MAX);
	if (!template_is_name(name, strlen(name)) || (at && !template_is_name(dirname, head)) ||
		(colon && !template_is_name(colon + 1, (size_t)(at - colon - 1))))
		return err_set(err, EINVAL,
			"\"%s\" is not NAME, TEMPLATE@NAME or NAME:TAG@NAME, each part letters, "
			"digits, and after the first _ . -",
			dirname);
	got = at ? strndup(dirname, (size_t)(at - dirname)) : strdup("default");
	if (!got)
		return no_memory(err);
	*template = got;
	*snapshot = colon != NULL;
	return 0;
}

/* How many bytes the UTF-8 character at p has, of n; 0 if it is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	unsigned c = p[0], v, least;
	size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (len < 2)
		return len;
	if (len > n)
		return 0;
	v = c & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (p[i] & 0x3f);
	}
	least = len == 2 ? 0x80 : len == 3 ? 0x800 : 0x10000;
	return v < least || v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? 0 : len;
}

/* What cJSON lets through: bytes that are not UTF-8, and NULs, at which it would cut a string. */
static int check_text(const char *text, size_t len, struct err *err)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len((const unsigned char *)text + i, len - i);
		if (!n)
			return err_set(err, EINVAL, "not UTF-8 at byte %zu", i);
		if (!text[i] || (len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0))
			return err_set(err, EINVAL, "a NUL at byte %zu", i);
		if (text[i] == '\\' && len - i > 1 && (unsigned char)text[i + 1] < 0x80)
			n = 2;
	}
	return 0;
}

static int parse_json(const char *text, size_t len, cJSON **root, struct err *err)
{
	const char *end = NULL;
	unsigned line = 1;
	cJSON *j;
	int r;

	if (len > FILE_MAX)
		return err_set(err, EINVAL, "larger than 1 MiB");
	r = check_text(text, len, err);
	if (r < 0)
		return r;
	j = cJSON_ParseWithLengthOpts(text, len, &end, 0);
	while (j && end < text + len && strchr(" \t\r\n", *end))
		end++;
	if (cJSON_IsObject(j) && end == text + len) {
		*root = j;
		return 0;
	}
	for (const char *c = text; end && c < end && c < text + len; c++)
		line += *c == '\n';
	if (!j || end < text + len)
		r = err_set(err, EINVAL, "not JSON at line %u", line);
	else
		r = err_set(err, EINVAL, "must be a map");
	cJSON_Delete(j);
	return r;
}

static int dup_default(char **field, const char *value, struct err *err)
{
	if (!*field && value)
		*field = strdup(value);
	return *field || !value ? 0 : no_memory(err);
}

static size_t list_len(char **v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* entrypoint and command become one argv. */
static int join_command(struct template_parse *p)
{
	size_t a = list_len(p->entrypoint), b = list_len(p->command);
	char **v;

	if (a + b == 0)
		return 0;
	v = calloc(a + b + 1, sizeof(*v));
	if (!v)
		return no_memory(p->err);
	if (a)
		memcpy(v, p->entrypoint, a * sizeof(*v));
	if (b)
		memcpy(v + a, p->command, b * sizeof(*v));
	free(steal_ptr(&p->entrypoint));
	free(steal_ptr(&p->command));
	p->spec->command = v;
	return 0;
}

static bool add_list(cJSON *to, const char *key, char **v)
{
	cJSON *list = cJSON_AddArrayToObject(to, key), *item;

	for (; list && v && *v; v++) {
		item = cJSON_CreateString(*v);
		if (!item || !cJSON_AddItemToArray(list, item))
			return false;
	}
	return list != NULL;
}

static bool add_text(cJSON *to, const char *key, const char *value)
{
	return !value || cJSON_AddStringToObject(to, key, value);
}

static bool add_volumes(cJSON *to, const struct spec *spec)
{
	cJSON *list = cJSON_AddArrayToObject(to, "volumes"), *item;

	for (size_t i = 0; list && i < spec->n_volumes; i++) {
		const struct spec_volume *v = &spec->volumes[i];
		cleanup_free char *text = NULL;

		if (asprintf(&text, "%s%s%s%s", v->source ? v->source : "", v->source ? ":" : "",
			    v->target, v->read_only ? ":ro" : "") < 0) {
			text = NULL; /* not defined after a failure */
			return false;
		}
		item = cJSON_CreateString(text);
		if (!item || !cJSON_AddItemToArray(list, item))
			return false;
	}
	return list != NULL;
}

static bool show(struct template_parse *p, cJSON *to)
{
	const struct spec *s = p->spec;

	if (!add_text(to, "template", s->template) || !add_text(to, "image", s->image) ||
		!add_text(to, "pull_policy", s->pull_policy) || !add_text(to, "user", s->user) ||
		!add_text(to, "working_dir", s->working_dir) ||
		!add_text(to, "network_mode", s->network_mode) ||
		!add_text(to, "hostname", s->hostname))
		return false;
	if (!cJSON_AddItemToObject(to, "environment", p->env_shown))
		return false;
	p->env_shown = NULL;
	return add_list(to, "command", s->command) && add_volumes(to, s) &&
	       add_list(to, "tmpfs", s->tmpfs) && add_list(to, "cap_add", s->cap_add) &&
	       add_list(to, "cap_drop", s->cap_drop) &&
	       cJSON_AddBoolToObject(to, "read_only", s->read_only) &&
	       cJSON_AddNumberToObject(to, "mem_limit", (double)s->mem_limit) &&
	       cJSON_AddNumberToObject(to, "cpus", s->cpus_milli / 1000.0) &&
	       cJSON_AddNumberToObject(to, "pids_limit", s->pids_limit);
}

/* The resolved template as JSON, allocated by malloc whatever cJSON's own hooks are. */
static int make_config(struct template_parse *p)
{
	cJSON *to = cJSON_CreateObject();
	char *text = to && show(p, to) ? cJSON_PrintUnformatted(to) : NULL;

	cJSON_Delete(to);
	if (text)
		p->spec->config = strdup(text);
	cJSON_free(text);
	return p->spec->config ? 0 : no_memory(p->err);
}

static int resolve(
	struct template_parse *p, const char *name, const cJSON *root, const char *default_image)
{
	struct spec *spec = p->spec;
	struct err *err = p->err;
	int r;

	spec->mem_limit = DEFAULT_MEM;
	spec->cpus_milli = DEFAULT_MILLI;
	spec->pids_limit = DEFAULT_PIDS;
	p->env_shown = cJSON_CreateObject();
	if (!p->env_shown)
		return no_memory(err);
	r = template_set_keys(p, root);
	if (r < 0)
		return r;
	if (!spec->image && strcmp(name, "default") != 0)
		return err_set(err, EINVAL, "key image is missing");
	if (dup_default(&spec->template, name, err) < 0 ||
		dup_default(&spec->image, default_image ? default_image : BUILTIN_IMAGE, err) < 0 ||
		dup_default(&spec->pull_policy, "missing", err) < 0 ||
		dup_default(&spec->working_dir, DEFAULT_WORKDIR, err) < 0 ||
		dup_default(&spec->network_mode, "none", err) < 0)
		return -ENOMEM;
	r = join_command(p);
	return r < 0 ? r : make_config(p);
}

static void free_list(char **v)
{
	for (char **s = v; s && *s; s++)
		free(*s);
	free(v);
}

int template_parse(const char *name, const char *text, size_t len, const char *default_image,
	struct spec *spec, struct err *err)
{
	struct err own = {0};
	struct spec made = {0};
	struct template_parse p = {.spec = &made, .err = err ? err : &own};
	cJSON *root = NULL;
	int r;

	if (!template_is_name(name, strlen(name)))
		return err_set(err, EINVAL, "\"%.200s\" is not a template's name", name);
	r = parse_json(text, len, &root, p.err);
	if (r == 0)
		r = resolve(&p, name, root, default_image);
	cJSON_Delete(root);
	cJSON_Delete(p.env_shown);
	free_list(p.entrypoint);
	free_list(p.command);
	if (r < 0) {
		spec_fini(&made);
		return err_prefix(p.err, "template %s", name);
	}
	*spec = made;
	return 0;
}

/* 1 and the whole text, 0 if there is no such file, or -errno. */
static int read_file(const char *dir, const char *name, struct buf *text, struct err *err)
{
	cleanup_free char *path = NULL;
	cleanup_close int fd = -1;
	struct stat st;
	ssize_t n;

	if (asprintf(&path, "%s/%s.json", dir, name) < 0) {
		path = NULL;
		return no_memory(err);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "template %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "template %s: not a regular file", path);
	do {
		uint8_t *to = buf_reserve(text, 16384);

		n = to ? read(fd, to, 16384) : 0;
		if (n < 0)
			return err_set(err, errno, "template %s: %s", path, strerror(errno));
		text->len += (size_t)n;
	} while (n > 0 && text->len <= FILE_MAX);
	if (text->error)
		return no_memory(err);
	return 1;
}

int template_resolve(const char *name, const char *const *dirs, const char *default_image,
	struct spec *spec, struct err *err)
{
	struct buf text;
	int r = 0;

	if (!template_is_name(name, strlen(name)) || strlen(name) > DIRNAME_MAX)
		return err_set(err, EINVAL, "\"%.200s\" is not a template's name", name);
	buf_init(&text, FILE_MAX + 32768);
	for (; r == 0 && dirs && *dirs; dirs++)
		r = read_file(*dirs, name, &text, err);
	if (r == 0 && strcmp(name, "default") == 0)
		r = buf_puts(&text, "{}") == 0 ? 1 : no_memory(err);
	if (r == 0)
		r = err_set(err, ENOENT, "no template %s", name);
	if (r > 0)
		r = template_parse(
			name, (const char *)text.data, text.len, default_image, spec, err);
	buf_fini(&text);
	return r;
}
