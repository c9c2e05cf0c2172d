/* SPDX-License-Identifier: MIT */
/* Parts of docker/build.c that are pure, for tests too. */
#pragma once

#include "sandbox/engine.h"

#define BUILD_LINE_MAX 1024

/* A log that comes in pieces, told to fetcher->built by whole lines. Begins as zeroes. */
struct build_log {
	const struct engine_fetcher *fetcher;
	char line[BUILD_LINE_MAX], last[BUILD_LINE_MAX];
	size_t n;
	bool escape;
};
void build_log_text(struct build_log *l, const char *text);

/* The registries that the FROM lines of a Dockerfile name, at most max, each once; new strings. */
size_t build_registries(const char *dockerfile, char **to, size_t max);
