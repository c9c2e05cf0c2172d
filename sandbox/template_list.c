/* SPDX-License-Identifier: MIT */
/* Lists of strings, command lines, and variables with their values. Owns nothing between calls,
 * takes no lock; any thread. */
#include "sandbox/template_value.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 9007199254740992.0

/* A list under way, and where it is to be. What there is of it is the spec's at once. */
struct adding {
	struct list l;
	char ***to;
	bool numbers;	  /* too */
	bool from_daemon; /* a variable without a value is the daemon's own */
};

static int add(struct template_parse *p, struct adding *a, char *s)
{
	int r = list_add(&a->l, s);

	*a->to = a->l.v;
	return r == 0 ? 0 : value_no_memory(p);
}

/* A string, number or truth value as text, in number where it needs room. */
static int scalar(struct template_parse *p, const cJSON *j, char number[32], const char **text)
{
	if (cJSON_IsString(j)) {
		*text = j->valuestring;
	} else if (cJSON_IsBool(j)) {
		*text = cJSON_IsTrue(j) ? "true" : "false";
	} else if (cJSON_IsNumber(j)) {
		double v = j->valuedouble;

		if (!(v >= -EXACT_MAX && v <= EXACT_MAX))
			return value_fail(p, EINVAL, "too large, write it as a string");
		snprintf(number, 32, v == (double)(int64_t)v ? "%.0f" : "%.15g", v);
		*text = number;
	} else {
		return value_wrong_type(p, "a string, a number or null", j);
	}
	return 0;
}

static int add_string(struct template_parse *p, const cJSON *j, void *arg)
{
	struct adding *a = arg;
	char number[32];
	const char *s = "";
	int r;

	if (!cJSON_IsString(j) && !(a->numbers && cJSON_IsNumber(j)))
		return value_wrong_type(p, a->numbers ? "a string or a number" : "a string", j);
	r = scalar(p, j, number, &s);
	if (r < 0)
		return r;
	if (!*s)
		return value_fail(p, EINVAL, "is empty");
	return add(p, a, strdup(s));
}

int value_strings(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to};

	return value_each(p, j, "a list of strings", false, add_string, &a);
}

int value_one_or_more(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to};

	return value_each(p, j, "a string or a list of strings", true, add_string, &a);
}

static int add_id(struct template_parse *p, const cJSON *j, void *arg)
{
	if (cJSON_IsNumber(j)) {
		int64_t id;
		int r = value_whole(p, j, 0, UINT32_MAX - 1, &id);

		if (r < 0)
			return r;
	} else if (cJSON_IsString(j) && !text_only(j->valuestring, "_.-")) {
		return value_bad(p, j->valuestring, "a group's name or number");
	}
	return add_string(p, j, arg);
}

int value_ids(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to, .numbers = true};

	return value_each(p, j, "a list of names or numbers", false, add_id, &a);
}

/* Splits like a shell, without expansions: blanks, quotes, backslashes. */
static int split_words(struct template_parse *p, const char *s, struct adding *a)
{
	while (*s) {
		char *word, *to, quote = 0;
		int r;

		while (*s == ' ' || *s == '\t' || *s == '\n')
			s++;
		if (!*s)
			break;
		word = to = malloc(strlen(s) + 1);
		if (!word)
			return value_no_memory(p);
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
			return value_fail(p, EINVAL, "a %c is not closed", quote);
		}
		r = add(p, a, word);
		if (r < 0)
			return r;
	}
	return 0;
}

/* An argument may be empty. */
static int add_word(struct template_parse *p, const cJSON *j, void *arg)
{
	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	return add(p, arg, strdup(j->valuestring));
}

int value_words(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to};
	int r;

	if (cJSON_IsString(j))
		r = split_words(p, j->valuestring, &a);
	else
		r = value_each(p, j, "a string or a list of strings", false, add_word, &a);
	if (r == 0 && a.l.n && !a.l.v[0][0])
		r = value_fail(p, EINVAL, "the program's name is empty");
	return r;
}

static bool pair_is_there(char *const *v, const char *name, size_t n)
{
	for (; v && *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return true;
	return false;
}

/* Notes a variable's name, and that its value is to be masked. */
static int note_name(struct template_parse *p, const char *name, size_t n, bool hide)
{
	if (!list_has(p->env_names.v, name, n) && list_add(&p->env_names, strndup(name, n)) != 0)
		return value_no_memory(p);
	if (hide && !list_has(p->hidden.v, name, n) && list_add(&p->hidden, strndup(name, n)) != 0)
		return value_no_memory(p);
	return 0;
}

/* Adds NAME=value; without a value it is the daemon's own, or empty. */
static int add_pair(
	struct template_parse *p, struct adding *a, const char *name, size_t n, const char *value)
{
	cleanup_free char *key = strndup(name, n);
	bool hide = a->from_daemon && !value;
	char *line;
	int r;

	if (!key)
		return value_no_memory(p);
	if (!n || memchr(name, '=', n))
		return value_fail(p, EINVAL, "not a variable's name");
	if (pair_is_there(a->l.v, name, n))
		return value_fail(p, EINVAL, "%.64s stands there twice", key);
	r = a->from_daemon ? note_name(p, name, n, hide) : 0;
	if (r < 0)
		return r;
	if (!value)
		value = a->from_daemon ? getenv(key) : "";
	if (!value) /* Compose: then it is not set inside either */
		return 0;
	if (asprintf(&line, "%s=%s", key, value) < 0)
		line = NULL;
	return add(p, a, line);
}

static int pair_line(struct template_parse *p, const cJSON *j, void *arg)
{
	const char *s = j->valuestring, *eq;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	eq = strchr(s, '=');
	return add_pair(p, arg, s, eq ? (size_t)(eq - s) : strlen(s), eq ? eq + 1 : NULL);
}

static int pair_member(struct template_parse *p, const cJSON *j, void *arg)
{
	const char *value = NULL;
	char number[32];
	int r = cJSON_IsNull(j) ? 0 : scalar(p, j, number, &value);

	return r < 0 ? r : add_pair(p, arg, j->string, strlen(j->string), value);
}

static int get_pairs(struct template_parse *p, const cJSON *j, struct adding *a)
{
	static const char want[] = "a map or a list of strings";

	return cJSON_IsArray(j) ? value_each(p, j, want, false, pair_line, a)
				: value_members(p, j, want, pair_member, a);
}

int value_pairs(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to};

	return get_pairs(p, j, &a);
}

int value_environment(struct template_parse *p, const cJSON *j, void *to)
{
	struct adding a = {.to = to, .from_daemon = true};

	return get_pairs(p, j, &a);
}
