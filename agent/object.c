/* SPDX-License-Identifier: MIT */
/* Reaching a node's file. Any thread; an object is one request's own. */
#include "agent/object.h"

#include "agent/files.h"
#include "common/cleanup.h"

#include <stdio.h>

int object_open(struct request *r, uint64_t node, struct object *o)
{
	int ret = pin_node(r->session, node, &o->pin);

	if (ret < 0)
		return ret;
	o->handle = handle_of(r->session, o->pin.node);
	if (o->handle) {
		o->fd = o->handle->fd;
		return files_act(r);
	}
	unpin(&o->pin);
	ret = pin_open(r->session, node, &o->pin);
	if (ret < 0)
		return ret;
	o->fd = o->pin.fd;
	/* Leads to the file that fd is, a link itself too. */
	snprintf(o->path, sizeof(o->path), "/proc/self/fd/%d", o->fd);
	return files_act(r);
}

void object_close(struct object *o)
{
	handle_putp(&o->handle);
	unpin(&o->pin);
}
