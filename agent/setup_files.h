/* SPDX-License-Identifier: MIT */
/* What the setup puts into the sandbox's file system: no link in the way is followed. */
#pragma once

#include "agent/setup_record.h"
#include "common/err.h"

/* Makes a DIR, FILE or LINK record true, beneath root_fd. */
int setup_file(int root_fd, const struct setup_record *r, struct err *err);

/* A directory, if there is none, with parents of the same owner. 1: it was there. */
int setup_dir(
	int root_fd, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, struct err *err);
