/* SPDX-License-Identifier: MIT */
/* The values that a template's keys are made of: only for template*.c. Each value_* function checks
 * the form of j, puts what it says into *to, or says what is wrong and where (p->place). What it
 * made, also by half, is in the spec, which the caller frees. */
#pragma once

#include "common/err.h"
#include "sandbox/template.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE_ITEMS_MAX 4096 /* in one list; bounds the quadratic search for duplicates */
#define TEMPLATE_MASK	   "***"

struct list {
	char **v; /* NULL-terminated, or NULL */
	size_t n;
};

/* One resolution under way. */
struct template_parse {
	struct spec *spec;
	const struct template_rules *rules;
	struct err *err;
	char place[160]; /* "volumes[1].target" */
	size_t place_len;
	char **entrypoint, **command;  /* to be joined */
	struct list env_names, hidden; /* all variables that are named; those to be masked */
	struct spec_volume *declared;  /* x-sandboxfs.volumes: source is the name */
	size_t n_declared;
};

/* A key of a map: what takes its value, and where in the struct that it is put. */
struct template_key {
	const char *name;
	int (*set)(struct template_parse *p, const cJSON *j, void *to);
	size_t offset;
};
#define TEMPLATE_KEYS(table) (table), sizeof(table) / sizeof(*(table))

/* Each key of the map j; one that is unknown or stands there twice is an error. */
int value_map(struct template_parse *p, const cJSON *j, const struct template_key *keys, size_t n,
	void *to);
/* Calls each() for the items of a list, or for j alone where one is allowed in place of a list. */
int value_each(struct template_parse *p, const cJSON *j, const char *want, bool or_one,
	int (*each)(struct template_parse *p, const cJSON *j, void *arg), void *arg);
/* Calls each() for the members of a map, at their place. */
int value_members(struct template_parse *p, const cJSON *j, const char *want,
	int (*each)(struct template_parse *p, const cJSON *j, void *arg), void *arg);

int value_string(struct template_parse *p, const cJSON *j, void *to);	   /* char *; not empty */
int value_bool(struct template_parse *p, const cJSON *j, void *to);	   /* bool */
int value_size(struct template_parse *p, const cJSON *j, void *to);	   /* uint64_t, bytes */
int value_time(struct template_parse *p, const cJSON *j, void *to);	   /* uint64_t, ms */
int value_mode(struct template_parse *p, const cJSON *j, void *to);	   /* uint32_t */
int value_strings(struct template_parse *p, const cJSON *j, void *to);	   /* char **, a list */
int value_one_or_more(struct template_parse *p, const cJSON *j, void *to); /* or a string */
int value_ids(struct template_parse *p, const cJSON *j, void *to);   /* char **, numbers too */
int value_words(struct template_parse *p, const cJSON *j, void *to); /* char **, argv */
int value_pairs(struct template_parse *p, const cJSON *j, void *to); /* char **, KEY=VALUE */
int value_environment(struct template_parse *p, const cJSON *j, void *to); /* the same */
int value_path(struct template_parse *p, const cJSON *j, void *to);	   /* char *, inside */
int value_user(struct template_parse *p, const cJSON *j, void *to);	   /* char * */
/* One of the words, of which the last is NULL: which; want names them all. */
int value_word(
	struct template_parse *p, const cJSON *j, const char *const *words, const char *want);
/* A whole number from least to most. */
int value_whole(struct template_parse *p, const cJSON *j, int64_t least, int64_t most, int64_t *to);
/* A real path on this machine that the mount allows; a new string. */
int value_host_path(struct template_parse *p, const char *path, char **real);

/* "key PLACE: " and the words; -code. */
int value_fail(struct template_parse *p, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int value_wrong_type(struct template_parse *p, const char *want, const cJSON *got);
int value_bad(struct template_parse *p, const char *value, const char *want);
int value_no_memory(struct template_parse *p);

/* Goes into a member or an item; leave with what was returned. */
size_t place_member(struct template_parse *p, const char *key);
size_t place_item(struct template_parse *p, int i);
void place_leave(struct template_parse *p, size_t len);

/* Takes s, also when it fails; NULL is an allocation that failed. */
int list_add(struct list *l, char *s);
bool list_has(char *const *v, const char *s, size_t n);
void list_free(char **v);
/* A new zeroed element at the end of *array (a pointer to any struct), or NULL. */
void *array_grow(void *array, size_t *n, size_t size);

/* Digits, perhaps with a fraction; *rest is what follows. False if it is no such thing. */
bool text_decimal(const char *s, double *value, const char **rest);
/* Letters, digits and the bytes of more; not empty. */
bool text_only(const char *s, const char *more);
/* An absolute path inside the sandbox that is what it looks like, and none of ours: the first n
 * bytes of text, which loses the slashes that mean nothing ("/a//b/" is /a/b). */
int text_path(struct template_parse *p, char *text, size_t n);
