/* SPDX-License-Identifier: MIT */
/* cJSON with types checked at every step. Any thread. */
#include "docker/json.h"

#include <inttypes.h>
#include <stdio.h>

static const cJSON *member(const cJSON *o, const char *key)
{
	return cJSON_IsObject(o) ? cJSON_GetObjectItemCaseSensitive(o, key) : NULL;
}

const cJSON *json_object(const cJSON *o, const char *key)
{
	const cJSON *m = member(o, key);

	return cJSON_IsObject(m) ? m : NULL;
}

const cJSON *json_array(const cJSON *o, const char *key)
{
	const cJSON *m = member(o, key);

	return cJSON_IsArray(m) ? m : NULL;
}

const char *json_string(const cJSON *o, const char *key)
{
	const cJSON *m = member(o, key);

	return cJSON_IsString(m) ? m->valuestring : NULL;
}

bool json_true(const cJSON *o, const char *key)
{
	return cJSON_IsTrue(member(o, key));
}

bool json_int(const cJSON *o, const char *key, int64_t *v)
{
	const cJSON *m = member(o, key);
	double limit = 9007199254740992.0;

	if (!cJSON_IsNumber(m) || !(m->valuedouble >= -limit && m->valuedouble <= limit))
		return false;
	if ((double)(int64_t)m->valuedouble != m->valuedouble)
		return false;
	*v = (int64_t)m->valuedouble;
	return true;
}

/* Takes item over, whatever happens. */
static cJSON *put(struct json_builder *b, cJSON *to, const char *key, cJSON *item)
{
	cJSON_bool done = false;

	if (item && to && !b->bad)
		done = key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item);
	if (done)
		return item;
	cJSON_Delete(item);
	b->bad = true;
	return NULL;
}

cJSON *json_new(struct json_builder *b)
{
	cJSON *o = cJSON_CreateObject();

	if (!o)
		b->bad = true;
	return o;
}

cJSON *json_add_object(struct json_builder *b, cJSON *to, const char *key)
{
	return put(b, to, key, cJSON_CreateObject());
}

cJSON *json_add_array(struct json_builder *b, cJSON *to, const char *key)
{
	return put(b, to, key, cJSON_CreateArray());
}

void json_add_string(struct json_builder *b, cJSON *to, const char *key, const char *s)
{
	put(b, to, key, cJSON_CreateString(s));
}

void json_add_bool(struct json_builder *b, cJSON *to, const char *key, bool v)
{
	put(b, to, key, cJSON_CreateBool(v));
}

/* As text: cJSON would print a large number with an exponent, which no engine reads as an int. */
void json_add_uint(struct json_builder *b, cJSON *to, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	put(b, to, key, cJSON_CreateRaw(text));
}

void json_add_int(struct json_builder *b, cJSON *to, const char *key, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, v);
	put(b, to, key, cJSON_CreateRaw(text));
}
