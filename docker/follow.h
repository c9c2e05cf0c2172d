/* SPDX-License-Identifier: MIT */
/* Answers that go on for long and are read as they come: events, the progress of a pull, a build,
 * whose request has a body that is made as it is sent. */
#pragma once

#include "common/err.h"
#include "docker/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct follow_request {
	const char *method, *path;
	const char *header; /* one more line, or NULL */
	/* A body of type `type`: up to n bytes to p, 0 at its end, -errno to end it all with that;
	 * or NULL for none. */
	ssize_t (*body)(void *arg, void *p, size_t n);
	const char *type;
	unsigned timeout_s; /* until the answer's end; 0: none */
	/* An engine that does not answer, or with 502 to 504, is asked again; then again() is
	 * called before (it may be NULL), so that body() begins anew. */
	bool retry;
	int (*again)(void *arg);
};

struct follow_sink {
	void (*head)(void *arg);			 /* a good status has come; may be NULL */
	int (*data)(void *arg, const void *p, size_t n); /* not 0: ends it with that */
	void *arg;					 /* of the request's functions too */
	int stop_fd; /* readable: follow() returns 0; -1: none */
};

/* Until the body's end (0), an error, or the sink's wish. */
int follow(struct http *h, const struct follow_request *req, const struct follow_sink *sink,
	struct err *err);
/* Whether fd, a stop_fd, is readable: the end that follow() came to was asked for. */
bool follow_stopped(int fd);
