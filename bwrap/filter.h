/* SPDX-License-Identifier: MIT */
/* The system calls that no sandbox has. */
#pragma once

#include "common/err.h"

/* A descriptor to read a seccomp program from, for bwrap. */
int filter_open(struct err *err);
