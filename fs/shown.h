/* SPDX-License-Identifier: MIT */
/* The options uid=, gid= and umask=: as whose files, with which permissions, everything is shown.
 */
#pragma once

#include "fs/fs.h"

#include <sys/stat.h>

/* The ids, of any node. */
void shown_ids(const struct fs *fs, struct stat *st);
/* Ids and permissions, of what lives in a sandbox. */
void shown_attr(const struct fs *fs, struct stat *st);

/* A caller's ids mean nothing where all belongs to one user: it acts as the sandbox's user. */
bool shown_as_one(const struct fs *fs);

/* A chown to the id that is shown changes nothing: takes that out of to_set (FUSE_SET_ATTR_*).
 * -EPERM: to any other. */
int shown_chown(const struct fs *fs, const struct stat *st, int *to_set);
