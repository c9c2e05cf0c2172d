/* SPDX-License-Identifier: MIT */
/* The socket that the agent serves on. */
#pragma once

#include "common/err.h"

/* A new one in the state directory, for root only; its descriptor, or -errno. */
int listen_at(const char *dir);

/* The one whose descriptor number `number` is, inherited from whoever started the agent. Before
 * anything else is opened: every other descriptor above 2 is closed, since what the launcher had
 * open is not for the sandbox. -EINVAL: it is no such socket, and nothing was closed. */
int listen_inherited(const char *number, struct err *err);
