/* SPDX-License-Identifier: MIT */
/* A stream of JSON objects (events, pull progress) cut into single ones, however the bytes arrive.
 * Pure, one thread at a time; an object has at most OBJECTS_MAX bytes. */
#pragma once

#include "common/buf.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

#define OBJECTS_MAX (4u << 20)

struct objects {
	struct buf text; /* of the object under way */
	unsigned depth;
	bool string, escaped; /* inside a string, behind a backslash */
	/* Called with each object; anything but 0 ends objects_feed with that. */
	int (*each)(void *arg, const cJSON *object);
	void *arg;
};

void objects_init(struct objects *o, int (*each)(void *arg, const cJSON *object), void *arg);
void objects_fini(struct objects *o);

/* 0, -EPROTO for what is no JSON object, -ENOMEM, or what each() said. */
int objects_feed(struct objects *o, const void *p, size_t n);
