/* SPDX-License-Identifier: MIT */
/* Answers that go on for long and are read as they come: events, the progress of a pull. */
#pragma once

#include "common/err.h"
#include "docker/http.h"

#include <stddef.h>

struct follow_sink {
	void (*head)(void *arg);			 /* a good status has come; may be NULL */
	int (*data)(void *arg, const void *p, size_t n); /* not 0: ends it with that */
	int (*tick)(void *arg); /* once a second while nothing comes; the same; may be NULL */
	void *arg;
	int stop_fd; /* readable: follow() returns 0; -1: none */
};

/* Until the body's end (0), an error, or the sink's wish. */
int follow(struct http *h, const char *method, const char *path, const struct follow_sink *sink,
	struct err *err);
