/* SPDX-License-Identifier: MIT */
/* The messages about ranges of open files whose bytes stay inside. */
#pragma once

#include "agent/request.h"

int range_allocate(struct request *r);
int range_seek(struct request *r);
int range_copy(struct request *r);
