/* SPDX-License-Identifier: MIT */
/* A node's file at hand, whichever way it can be reached: by a handle that is open, since the file
 * may have lost its name, else by the node's own O_PATH descriptor. Links are not followed. */
#pragma once

#include "agent/handles.h"
#include "agent/request.h"

#define OBJECT_PATH 48

struct object {
	struct handle *handle; /* counted, or NULL */
	struct pin pin;
	int fd;
	char path[OBJECT_PATH]; /* names the file itself; "": fd is no O_PATH, use that */
};

#define OBJECT_NONE ((struct object){.pin = {.fd = -1}, .fd = -1})
#define auto_object __attribute__((cleanup(object_close)))

/* The thread has the caller's rights afterwards. */
int object_open(struct request *r, uint64_t node, struct object *o);
void object_close(struct object *o);

/* The messages by node that need no more than that: access.c, xattr.c. */
int access_check(struct request *r);
int xattr_get(struct request *r);
int xattr_set(struct request *r);
int xattr_list(struct request *r);
int xattr_remove(struct request *r);
