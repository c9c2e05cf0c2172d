/* SPDX-License-Identifier: MIT */
/* A build's context: a directory of this machine as a tar that is made while it is read. One thread
 * at a time. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

#include <sys/types.h>

struct context;

/* dir: a path without links. Reads .dockerignore. dockerfile, a path below dir, and .dockerignore
 * itself are packed whatever that says. Both strings are used until context_close. stop_fd, if not
 * -1, is looked at while a tree is walked. */
int context_open(const char *dir, const char *dockerfile, int stop_fd, struct context **out,
	struct err *err);
void context_close(struct context *c);

/* The next bytes of the tar, at most n: how many, 0 at its end, -errno with words (-EINTR:
 * stop_fd was readable). Links are packed as links, whatever they lead to; sockets and devices are
 * left out. */
ssize_t context_read(struct context *c, void *p, size_t n, struct err *err);
/* From the beginning again. */
int context_rewind(struct context *c, struct err *err);

/* The text of the Dockerfile, appended to out. */
int context_dockerfile(struct context *c, struct buf *out, struct err *err);
