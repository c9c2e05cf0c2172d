/* SPDX-License-Identifier: MIT */
/* Which engine serves the mount, and why that one. Once, before there are threads. */
#pragma once

#include "fs/options.h"
#include "sandbox/engine.h"

/* Is it a word for -o engine=? 0, or -EINVAL after a message on stderr. NULL: nothing was said. */
int choose_check(const char *word);

/* Opens the first engine that the options allow and that answers; on stderr stands which and why,
 * or where it was looked for and what helps. *why: the reason in words, a new string. */
int choose_engine(const struct options *o, const char *agent, const char *launch, struct engine **e,
	char **why);
