/* SPDX-License-Identifier: MIT */
/* The sums are made anew from the layers each time: there are few of them. */
#include "docker/progress.h"

#include "docker/json.h"

#include <stdio.h>
#include <string.h>

#define BYTES_MAX (1ll << 50) /* of a layer; so the sums fit */

static struct progress_layer *layer(struct progress *p, const char *id)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strncmp(p->layers[i].id, id, sizeof(p->layers[i].id) - 1))
			return &p->layers[i];
	if (p->n == PROGRESS_LAYERS_MAX)
		return NULL;
	snprintf(p->layers[p->n].id, sizeof(p->layers[p->n].id), "%s", id);
	return &p->layers[p->n++];
}

/* The total grows as layers begin; until all have, the rest are taken to be of the usual size. */
static void sum(struct progress *p)
{
	size_t known = 0, wanted = 0;
	int64_t bytes = 0, total = 0;
	double part;

	for (size_t i = 0; i < p->n; i++) {
		const struct progress_layer *l = &p->layers[i];

		wanted += !l->here;
		known += !l->here && l->total;
		bytes += l->bytes;
		total += l->total;
	}
	p->bytes = bytes > p->bytes ? bytes : p->bytes;
	p->total = total > p->total ? total : p->total;
	if (!known)
		return;
	part = (double)bytes * (double)known / ((double)total * (double)wanted);
	if ((int)(part * 100) > p->percent)
		p->percent = part < 0.99 ? (int)(part * 100) : 99;
}

bool progress_feed(struct progress *p, const cJSON *o)
{
	const char *id = json_string(o, "id"), *status = json_string(o, "status");
	const cJSON *detail = json_object(o, "progressDetail");
	struct progress before;
	struct progress_layer *l;
	int64_t current, total;

	if (!id || !*id || !status || !strncmp(status, "Pulling from", 12) || !(l = layer(p, id)))
		return false;
	before.bytes = p->bytes, before.total = p->total, before.percent = p->percent;
	if (!strcmp(status, "Already exists"))
		l->here = true;
	/* Extracting counts the same bytes once more. */
	if (!strcmp(status, "Downloading") && json_int(detail, "total", &total) &&
		total > l->total && total <= BYTES_MAX)
		l->total = total;
	if (!strcmp(status, "Downloading") && json_int(detail, "current", &current) &&
		current > l->bytes)
		l->bytes = current < l->total ? current : l->total;
	if (!strcmp(status, "Download complete") || !strcmp(status, "Pull complete"))
		l->bytes = l->total;
	sum(p);
	return p->bytes != before.bytes || p->total != before.total || p->percent != before.percent;
}
