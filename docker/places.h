/* SPDX-License-Identifier: MIT */
/* What the ways to an engine have in common. */
#pragma once

#include "sandbox/engine.h"

/* As the docker command: tcp://NAME is port 2375, or 2376 with TLS. 0 or -ENOMEM. */
int place_add_port(struct engine_place *p);
