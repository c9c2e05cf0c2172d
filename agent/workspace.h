/* SPDX-License-Identifier: MIT */
/* The directory that commands start in. */
#pragma once

#include "agent/user.h"

/* mkdir -p, where what is new belongs to the sandbox's user. Before anything runs. */
int workspace_make(const char *path, const struct user *user);
