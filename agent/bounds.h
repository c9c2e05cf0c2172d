/* SPDX-License-Identifier: MIT */
/* What this process and all that it starts can ever be able to do. */
#pragma once

#include "common/err.h"

/* Gives up every capability that is not in the list, a number in hexadecimal as in
 * /proc/PID/status, for good: programs by root inside get none of them back. One thread, first of
 * all; needs CAP_SETPCAP, which goes last. */
int bounds_keep(const char *list, struct err *err);
