/* SPDX-License-Identifier: MIT */
/* Finds where an object ends by its braces, strings aside; cJSON reads it. */
#include "docker/objects.h"

#include <errno.h>

void objects_init(struct objects *o, int (*each)(void *arg, const cJSON *object), void *arg)
{
	*o = (struct objects){.each = each, .arg = arg};
	buf_init(&o->text, OBJECTS_MAX);
}

void objects_fini(struct objects *o)
{
	buf_fini(&o->text);
}

static int complete(struct objects *o)
{
	cJSON *object = cJSON_ParseWithLength((const char *)o->text.data, o->text.len);
	int rc = -EPROTO;

	if (cJSON_IsObject(object))
		rc = o->each(o->arg, object);
	cJSON_Delete(object);
	buf_reset(&o->text);
	return rc;
}

/* Follows one byte; true when it ends an object. */
static bool step(struct objects *o, uint8_t c)
{
	if (o->string) {
		if (o->escaped)
			o->escaped = false;
		else if (c == '\\')
			o->escaped = true;
		else if (c == '"')
			o->string = false;
		return false;
	}
	if (c == '"')
		o->string = true;
	else if (c == '{')
		o->depth++;
	else if (c == '}')
		return --o->depth == 0;
	return false;
}

int objects_feed(struct objects *o, const void *p, size_t n)
{
	const uint8_t *s = p;
	size_t from = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		if (!o->depth) {
			from = i;
			if (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n')
				continue;
			if (s[i] != '{')
				return -EPROTO;
		}
		if (!step(o, s[i]))
			continue;
		rc = buf_append(&o->text, s + from, i + 1 - from);
		rc = rc ? rc : complete(o);
		if (rc)
			return rc == -E2BIG ? -EPROTO : rc;
	}
	if (!o->depth)
		return 0;
	rc = buf_append(&o->text, s + from, n - from);
	return rc == -E2BIG ? -EPROTO : rc;
}
