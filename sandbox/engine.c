/* SPDX-License-Identifier: MIT */
/* The values that cross the seam: who copies and frees them. */
#include "sandbox/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void engine_box_fini(struct engine_box *box)
{
	free(box->id);
	free(box->name);
	free(box->template);
	free(box->config);
	free(box->image_id);
	free(box->error);
	free(box->ports);
	memset(box, 0, sizeof(*box));
}

void engine_place_fini(struct engine_place *place)
{
	free(place->host);
	free(place->why);
	free(place->ca);
	free(place->cert);
	free(place->key);
	memset(place, 0, sizeof(*place));
}

static char *dup_or_empty(const char *s)
{
	return strdup(s ? s : "");
}

int engine_box_copy(struct engine_box *to, const struct engine_box *from)
{
	struct engine_box b = *from;

	b.id = dup_or_empty(from->id);
	b.name = dup_or_empty(from->name);
	b.template = dup_or_empty(from->template);
	b.config = dup_or_empty(from->config);
	b.image_id = dup_or_empty(from->image_id);
	b.error = dup_or_empty(from->error);
	b.ports = calloc(from->n_ports + 1, sizeof(*b.ports));
	if (b.ports && from->n_ports)
		memcpy(b.ports, from->ports, from->n_ports * sizeof(*b.ports));
	if (!b.ports || !b.id || !b.name || !b.template || !b.config || !b.image_id || !b.error) {
		engine_box_fini(&b);
		return -ENOMEM;
	}
	*to = b;
	return 0;
}
