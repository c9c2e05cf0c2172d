/* SPDX-License-Identifier: MIT */
/* The table of a template's keys: only for template.c. */
#pragma once

#include "common/err.h"
#include "sandbox/engine.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* One resolution under way. The caller frees what it holds, also after a failure. */
struct template_parse {
	struct spec *spec;
	struct err *err;
	char **entrypoint, **command; /* to be joined */
	cJSON *env_shown;	      /* an object: the environment, secrets masked */
};

/* Puts each key of root, an object, into p. The first that is unknown, double or of the wrong form
 * ends it, and err names it. */
int template_set_keys(struct template_parse *p, const cJSON *root);

/* [A-Za-z0-9][A-Za-z0-9_.-]* of n bytes. */
bool template_is_name(const char *s, size_t n);
