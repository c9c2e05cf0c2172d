/* SPDX-License-Identifier: MIT */
/* Places, errors, maps, lists and the plain values of templates. Owns nothing between calls, takes
 * no lock; any thread. */
#include "sandbox/template_value.h"

#include "common/cleanup.h"
#include "sandbox/template_keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PATH_LEN_MAX 4096
#define EXACT_MAX    9007199254740992.0 /* 2^53: a larger number in JSON may not be exact */
#define TIME_MAX_MS  (100ull * 365 * 86400 * 1000)

static bool is_whole(double v)
{
	return v >= -EXACT_MAX && v <= EXACT_MAX && v == (double)(int64_t)v;
}

int value_fail(struct template_parse *p, int code, const char *fmt, ...)
{
	char words[ERR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	return err_set(p->err, code, "key %s: %s", p->place, words);
}

int value_no_memory(struct template_parse *p)
{
	return err_set(p->err, ENOMEM, "out of memory");
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

int value_wrong_type(struct template_parse *p, const char *want, const cJSON *got)
{
	return value_fail(p, EINVAL, "must be %s, not %s", want, type_name(got));
}

int value_bad(struct template_parse *p, const char *value, const char *want)
{
	return value_fail(p, EINVAL, "\"%.200s\" is not %s", value, want);
}

static size_t place_add(struct template_parse *p, const char *text)
{
	size_t was = p->place_len;

	snprintf(p->place + was, sizeof(p->place) - was, "%s", text);
	p->place_len = strlen(p->place);
	return was;
}

size_t place_member(struct template_parse *p, const char *key)
{
	char text[72];

	snprintf(text, sizeof(text), "%s%.64s", p->place_len ? "." : "", key);
	return place_add(p, text);
}

size_t place_item(struct template_parse *p, int i)
{
	char text[16];

	snprintf(text, sizeof(text), "[%d]", i);
	return place_add(p, text);
}

void place_leave(struct template_parse *p, size_t len)
{
	p->place[len] = 0;
	p->place_len = len;
}

int list_add(struct list *l, char *s)
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

bool list_has(char *const *v, const char *s, size_t n)
{
	for (; v && *v; v++)
		if (strncmp(*v, s, n) == 0 && !(*v)[n])
			return true;
	return false;
}

void list_free(char **v)
{
	for (char **s = v; s && *s; s++)
		free(*s);
	free(v);
}

void *array_grow(void *array, size_t *n, size_t size)
{
	char *v;

	memcpy(&v, array, sizeof(v)); /* whatever it points to */
	v = realloc(v, (*n + 1) * size);
	if (!v)
		return NULL;
	memcpy(array, &v, sizeof(v));
	return memset(v + size * (*n)++, 0, size);
}

static const struct template_key *find_key(
	const struct template_key *keys, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static bool stands_before(const cJSON *map, const cJSON *item)
{
	for (const cJSON *i = map->child; i != item; i = i->next)
		if (strcmp(i->string, item->string) == 0)
			return true;
	return false;
}

int value_map(struct template_parse *p, const cJSON *j, const struct template_key *keys, size_t n,
	void *to)
{
	const cJSON *item;
	int r = 0;

	if (!cJSON_IsObject(j))
		return value_wrong_type(p, "a map", j);
	cJSON_ArrayForEach (item, j) {
		const struct template_key *k = find_key(keys, n, item->string);
		size_t was = place_member(p, item->string);

		if (!k)
			return err_set(p->err, EINVAL, "unknown key %s", p->place);
		if (stands_before(j, item))
			return err_set(p->err, EINVAL, "key %s stands there twice", p->place);
		r = k->set(p, item, (char *)to + k->offset);
		if (r < 0)
			return r;
		place_leave(p, was);
	}
	return 0;
}

int value_each(struct template_parse *p, const cJSON *j, const char *want, bool or_one,
	int (*each)(struct template_parse *p, const cJSON *j, void *arg), void *arg)
{
	const cJSON *item;
	int i = 0, r;

	if (or_one && cJSON_IsString(j))
		return each(p, j, arg);
	if (!cJSON_IsArray(j))
		return value_wrong_type(p, want, j);
	cJSON_ArrayForEach (item, j) {
		size_t was = place_item(p, i);

		if (++i > TEMPLATE_ITEMS_MAX)
			return value_fail(p, EINVAL, "too many entries");
		r = each(p, item, arg);
		if (r < 0)
			return r;
		place_leave(p, was);
	}
	return 0;
}

int value_members(struct template_parse *p, const cJSON *j, const char *want,
	int (*each)(struct template_parse *p, const cJSON *j, void *arg), void *arg)
{
	const cJSON *item;
	int i = 0, r;

	if (!cJSON_IsObject(j))
		return value_wrong_type(p, want, j);
	cJSON_ArrayForEach (item, j) {
		size_t was = place_member(p, item->string);

		if (++i > TEMPLATE_ITEMS_MAX)
			return value_fail(p, EINVAL, "too many entries");
		if (stands_before(j, item))
			return err_set(p->err, EINVAL, "key %s stands there twice", p->place);
		r = each(p, item, arg);
		if (r < 0)
			return r;
		place_leave(p, was);
	}
	return 0;
}

int value_string(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	if (!j->valuestring[0])
		return value_fail(p, EINVAL, "is empty");
	*out = strdup(j->valuestring);
	return *out ? 0 : value_no_memory(p);
}

int value_bool(struct template_parse *p, const cJSON *j, void *to)
{
	bool *out = to;

	if (!cJSON_IsBool(j))
		return value_wrong_type(p, "true or false", j);
	*out = cJSON_IsTrue(j);
	return 0;
}

int value_word(struct template_parse *p, const cJSON *j, const char *const *words, const char *want)
{
	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	for (int i = 0; words[i]; i++)
		if (strcmp(j->valuestring, words[i]) == 0)
			return i;
	return value_bad(p, j->valuestring, want);
}

int value_whole(struct template_parse *p, const cJSON *j, int64_t least, int64_t most, int64_t *to)
{
	if (!cJSON_IsNumber(j))
		return value_wrong_type(p, "a number", j);
	if (!is_whole(j->valuedouble) || j->valuedouble < (double)least ||
		j->valuedouble > (double)most)
		return value_fail(p, EINVAL, "must be a whole number from %lld to %lld",
			(long long)least, (long long)most);
	*to = (int64_t)j->valuedouble;
	return 0;
}

bool text_decimal(const char *s, double *value, const char **rest)
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

int value_size(struct template_parse *p, const cJSON *j, void *to)
{
	static const char *const units[] = {"b", "k", "m", "g", "t"};
	uint64_t *out = to;
	const char *rest = "";
	double v = -1;

	if (cJSON_IsNumber(j)) {
		v = j->valuedouble;
	} else if (!cJSON_IsString(j)) {
		return value_wrong_type(p, "bytes or a size like \"512m\"", j);
	} else if (text_decimal(j->valuestring, &v, &rest) && *rest) {
		double scale = 0, f = 1;

		for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++, f *= 1024)
			if (strncasecmp(rest, units[i], 1) == 0 &&
				(!rest[1] || (i && strcasecmp(rest + 1, "b") == 0)))
				scale = f;
		v = scale > 0 && v * scale <= EXACT_MAX ? (double)(uint64_t)(v * scale) : -1;
	}
	if (!is_whole(v) || v < 0)
		return value_fail(p, EINVAL, "must be bytes or a size like \"512m\"");
	*out = (uint64_t)v;
	return 0;
}

/* "1h30m", "500ms", "90" (seconds); -1 if it is no such thing. */
static double time_text(const char *s)
{
	static const struct {
		const char *unit;
		double ms;
	} units[] = {{"h", 3600e3}, {"m", 60e3}, {"s", 1e3}, {"ms", 1}};
	double all = 0, v = 0, last = 1e18;

	if (text_decimal(s, &v, &s) && !*s)
		return v * 1e3;
	for (;;) {
		size_t n = strcspn(s, "0123456789"), k = 0;

		while (k < 4 && (strlen(units[k].unit) != n || strncmp(s, units[k].unit, n) != 0))
			k++;
		if (k == 4 || units[k].ms >= last) /* each unit once, from large to small */
			return -1;
		last = units[k].ms;
		all += v * last;
		s += n;
		if (!*s)
			return all;
		if (!text_decimal(s, &v, &s))
			return -1;
	}
}

int value_time(struct template_parse *p, const cJSON *j, void *to)
{
	uint64_t *out = to;
	double v = -1;

	if (cJSON_IsNumber(j))
		v = j->valuedouble * 1e3;
	else if (!cJSON_IsString(j))
		return value_wrong_type(p, "seconds or a time like \"1h30m\"", j);
	else if (isdigit((unsigned char)j->valuestring[0]))
		v = time_text(j->valuestring);
	if (!(v >= 0 && v <= (double)TIME_MAX_MS) || (v > 0 && v < 1))
		return value_fail(p, EINVAL, "must be seconds or a time like \"1h30m\"");
	*out = (uint64_t)v;
	return 0;
}

/* A string: JSON has no octal numbers, and 644 would be taken for what it looks like. */
int value_mode(struct template_parse *p, const cJSON *j, void *to)
{
	uint32_t *out = to;
	size_t n;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "an octal mode as a string, like \"0644\"", j);
	n = strspn(j->valuestring, "01234567");
	if (n < 3 || n > 5 || j->valuestring[n] || strtoul(j->valuestring, NULL, 8) > 07777)
		return value_bad(p, j->valuestring, "an octal mode like \"0644\"");
	*out = (uint32_t)strtoul(j->valuestring, NULL, 8);
	return 0;
}

bool text_only(const char *s, const char *more)
{
	for (const char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr(more, *c))
			return false;
	return *s != 0;
}

/* Drops slashes that mean nothing from the first n bytes; what follows moves up. */
static size_t tidy_path(char *text, size_t n)
{
	size_t to = 0;

	for (size_t at = 0; at < n; at++)
		if (text[at] != '/' || !to || text[to - 1] != '/')
			text[to++] = text[at];
	if (to > 1 && text[to - 1] == '/')
		to--;
	memmove(text + to, text + n, strlen(text + n) + 1);
	return to;
}

int text_path(struct template_parse *p, char *text, size_t n)
{
	if (n < 1 || text[0] != '/' || n >= PATH_LEN_MAX)
		return value_fail(p, EINVAL, "\"%.*s\" is not an absolute path",
			(int)(n < 200 ? n : 200), text);
	n = tidy_path(text, n);
	for (size_t at = 0; at < n;) {
		const char *part = text + at + 1;
		size_t len = 0;

		while (at + 1 + len < n && part[len] != '/')
			len++;
		if ((len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
			return value_fail(p, EINVAL, "a path may not have . or .. in it");
		if (len == strlen(".sandboxfs") && memcmp(part, ".sandboxfs", len) == 0)
			return value_fail(p, EPERM, "/.sandboxfs is the agent's");
		at += len + 1;
	}
	return 0;
}

int value_path(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to;
	int r = value_string(p, j, to);

	return r < 0 || !*out ? r : text_path(p, *out, strlen(*out));
}

int value_user(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && (!text_only(j->valuestring, "_.-:") || j->valuestring[0] == ':'))
		r = value_bad(p, j->valuestring, "NAME, UID, NAME:GROUP or UID:GID");
	return r;
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
