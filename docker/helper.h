/* SPDX-License-Identifier: MIT */
/* A credential helper of the docker command: the program docker-credential-NAME. Any thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

/* `docker-credential-NAME get` with `server` as its input, no shell between: what it printed, in
 * out. -ENOENT: it says that it has none for this server. -ETIMEDOUT, -EINTR (stop_fd): it was
 * killed. Others: it cannot be run, or failed, in words. */
int helper_get(const char *name, const char *server, int stop_fd, struct buf *out, struct err *err);
