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
	memset(box, 0, sizeof(*box));
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
	if (!b.id || !b.name || !b.template || !b.config || !b.image_id || !b.error) {
		engine_box_fini(&b);
		return -ENOMEM;
	}
	*to = b;
	return 0;
}

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void spec_fini(struct spec *spec)
{
	free(spec->namespace);
	free(spec->name);
	free(spec->template);
	free(spec->image);
	free(spec->pull_policy);
	free(spec->user);
	free(spec->working_dir);
	free_list(spec->environment);
	free_list(spec->command);
	free_list(spec->tmpfs);
	for (size_t i = 0; i < spec->n_volumes; i++) {
		free(spec->volumes[i].source);
		free(spec->volumes[i].target);
	}
	free(spec->volumes);
	free_list(spec->cap_add);
	free_list(spec->cap_drop);
	free(spec->network_mode);
	free(spec->hostname);
	free(spec->config);
	memset(spec, 0, sizeof(*spec));
}
