/* SPDX-License-Identifier: MIT */
/* Reading JSON that may be wrong in any way, and building it without losing an allocation failure.
 * Pure. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

static inline void cleanup_jsonp(cJSON **j)
{
	cJSON_Delete(*j);
}

#define cleanup_json __attribute__((cleanup(cleanup_jsonp)))

/* The member (case-sensitive), or NULL where it is missing or of another type; o may be NULL. */
const cJSON *json_object(const cJSON *o, const char *key);
const cJSON *json_array(const cJSON *o, const char *key);
const char *json_string(const cJSON *o, const char *key);
bool json_true(const cJSON *o, const char *key);
/* False where it is no whole number of at most 2^53. */
bool json_int(const cJSON *o, const char *key, int64_t *v);

/* A builder: with bad set, nothing more is built and everything returns NULL. */
struct json_builder {
	bool bad;
};

cJSON *json_new(struct json_builder *b); /* an object; cJSON_Delete it */
cJSON *json_add_object(struct json_builder *b, cJSON *to, const char *key); /* key NULL: array */
cJSON *json_add_array(struct json_builder *b, cJSON *to, const char *key);
/* to may be an array, key is NULL then */
void json_add_string(struct json_builder *b, cJSON *to, const char *key, const char *s);
void json_add_bool(struct json_builder *b, cJSON *to, const char *key, bool v);
void json_add_uint(struct json_builder *b, cJSON *to, const char *key, uint64_t v);
void json_add_int(struct json_builder *b, cJSON *to, const char *key, int64_t v);
