/* SPDX-License-Identifier: MIT */
/* Templates: whatever is accepted has all that an engine needs, and a config that is JSON; what is
 * refused has words. The same bytes also serve as a directory name. */
#include "sandbox/template.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_spec(const struct spec *s)
{
	cJSON *j = cJSON_Parse(s->config);

	if (!j || !s->image || !s->template || !s->pull_policy || !s->working_dir ||
		!s->network_mode || s->working_dir[0] != '/')
		abort();
	for (size_t i = 0; i < s->n_volumes; i++)
		if (s->volumes[i].target[0] != '/' ||
			(s->volumes[i].source && strchr("/.~", s->volumes[i].source[0])))
			abort();
	cJSON_Delete(j);
}

static void check_split(const uint8_t *data, size_t size)
{
	char name[200], *t;
	struct err err;
	bool snapshot;

	if (size >= sizeof(name))
		return;
	memcpy(name, data, size);
	name[size] = 0;
	if (template_split(name, &t, &snapshot, &err) < 0)
		return;
	if (!*t || strchr(t, '/') || strchr(t, '@') || (strchr(t, ':') != NULL) != snapshot)
		abort();
	free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct spec spec;

	check_split(data, size);
	if (template_parse("default", (const char *)data, size, NULL, &spec, &err) == 0) {
		check_spec(&spec);
		spec_fini(&spec);
	} else if (!err.code || !err.msg[0]) {
		abort();
	}
	return 0;
}
