/* SPDX-License-Identifier: MIT */
/*
 * Templates: names, files, defaults, and the resolved result as JSON. The keys themselves are in
 * template_keys.c. Owns nothing between calls, takes no lock; any thread.
 */
#include "sandbox/template.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "sandbox/engine.h"
#include "sandbox/template_keys.h"
#include "sandbox/template_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILTIN_IMAGE	"debian:stable-slim"
#define BUILD_IMAGE	"sandboxfs-build"
#define FNV_START	0xcbf29ce484222325u
#define FNV_PRIME	0x100000001b3u
#define DIRNAME_MAX	TEMPLATE_NAME_MAX
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

	if (len > TEMPLATE_FILE_MAX)
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

/* The resolved template as JSON, allocated by malloc whatever cJSON's own hooks are. */
static int make_config(struct template_parse *p)
{
	cJSON *to = template_show(p->spec);
	char *text = to ? cJSON_PrintUnformatted(to) : NULL;

	cJSON_Delete(to);
	if (text)
		p->spec->config = strdup(text);
	cJSON_free(text);
	return p->spec->config ? 0 : no_memory(p->err);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	for (; s && *s; s++)
		h = (h ^ (uint8_t)*s) * FNV_PRIME;
	return h * FNV_PRIME;
}

/* The image that a build without one makes: the template's name, for people, and a hash of all that
 * the build is told, since an engine may have another template by that name. */
static int name_build(struct spec *spec, struct err *err)
{
	const struct spec_build *b = &spec->build;
	uint64_t h = FNV_START;

	if (!b->context || spec->image)
		return 0;
	h = hash_text(hash_text(h, b->context), b->dockerfile);
	h = hash_text(hash_text(h, b->target), spec->platform);
	for (char **a = b->args; a && *a; a++)
		h = hash_text(h, *a);
	if (asprintf(&spec->image, BUILD_IMAGE ":%.100s-%012" PRIx64, spec->template,
		    h & 0xffffffffffff) < 0) {
		spec->image = NULL; /* not defined after a failure */
		return no_memory(err);
	}
	return 0;
}

static int resolve(struct template_parse *p, const char *name, const cJSON *root)
{
	const char *image = p->rules && p->rules->image ? p->rules->image : BUILTIN_IMAGE;
	unsigned lacking = p->rules ? p->rules->no_limits : 0;
	struct spec *spec = p->spec;
	struct err *err = p->err;
	int r;

	spec->mem_limit = lacking & ENGINE_LIMIT_MEMORY ? 0 : DEFAULT_MEM;
	spec->cpus_milli = lacking & ENGINE_LIMIT_CPU ? 0 : DEFAULT_MILLI;
	spec->pids_limit = lacking & ENGINE_LIMIT_PIDS ? 0 : DEFAULT_PIDS;
	r = template_set_keys(p, root);
	if (r < 0)
		return r;
	if (dup_default(&spec->template, name, err) < 0 || name_build(spec, err) < 0 ||
		dup_default(&spec->image, image, err) < 0 ||
		dup_default(&spec->pull_policy, "missing", err) < 0 ||
		dup_default(&spec->working_dir, DEFAULT_WORKDIR, err) < 0 ||
		dup_default(&spec->network_mode, "none", err) < 0)
		return -ENOMEM;
	r = join_command(p);
	return r < 0 ? r : make_config(p);
}

static void parse_fini(struct template_parse *p)
{
	struct spec left = {.volumes = p->declared, .n_volumes = p->n_declared};

	spec_fini(&left);
	list_free(p->entrypoint);
	list_free(p->command);
	list_free(p->env_names.v);
	list_free(p->hidden.v);
}

int template_parse(const char *name, const char *text, size_t len,
	const struct template_rules *rules, struct spec *spec, struct err *err)
{
	struct err own = {0};
	struct spec made = {0};
	struct template_parse p = {.spec = &made, .rules = rules, .err = err ? err : &own};
	cJSON *root = NULL;
	int r;

	if (!template_is_name(name, strlen(name)))
		return err_set(err, EINVAL, "\"%.200s\" is not a template's name", name);
	r = parse_json(text, len, &root, p.err);
	if (r == 0)
		r = resolve(&p, name, root);
	cJSON_Delete(root);
	parse_fini(&p);
	if (r < 0) {
		spec_fini(&made);
		return err_prefix(p.err, "template %s", name);
	}
	*spec = made;
	return 0;
}

int template_resolve(
	const char *name, const struct template_rules *rules, struct spec *spec, struct err *err)
{
	struct template_stat st;
	struct buf text;
	int r;

	buf_init(&text, TEMPLATE_FILE_MAX + 32768);
	r = template_read(name, rules, &text, &st, err);
	if (r == 0)
		r = template_parse(name, (const char *)text.data, text.len, rules, spec, err);
	buf_fini(&text);
	return r;
}
