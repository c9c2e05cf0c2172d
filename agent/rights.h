/* SPDX-License-Identifier: MIT */
/* Whether the agent may become a user: it can lack the capabilities, or the ids. */
#pragma once

#include "agent/user.h"

/* 0, or -EPERM with words. */
int rights_become(const struct user *user, struct err *err);
