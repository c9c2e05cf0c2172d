/* SPDX-License-Identifier: MIT */
/* The docker command's directory: $DOCKER_CONFIG, or ~/.docker. Read anew each time. Any thread. */
#pragma once

#include "common/err.h"

#include <cjson/cJSON.h>

/* An absolute path of what is there by that name, a new string; NULL: out of memory. */
char *config_path(const char *name);

/* A file that holds one JSON object of at most 1 MiB. *out NULL: there is no such file. What was
 * read may have secrets: config_wipe it before cJSON_Delete. */
int config_load(const char *path, cJSON **out, struct err *err);
void config_wipe(cJSON *j);
