/* SPDX-License-Identifier: MIT */
/*
 * As whose files, with which permissions, everything is shown: the options uid=, gid= and umask=.
 * Without these, root's mounts show the sandbox's ids as they are. In the mount of an ordinary user
 * what belongs to the sandbox's user belongs to them (sshfs calls that idmap=user): git refuses to
 * work in a directory that is somebody else's.
 */
#pragma once

#include "fs/fs.h"

#include <sys/stat.h>

/* The ids, of any node. */
void shown_ids(const struct fs *fs, struct stat *st);
/* Ids and permissions, of what lives in a sandbox. */
void shown_attr(const struct fs *fs, struct sandbox *sb, struct stat *st);

/* A caller's ids mean nothing where all belongs to one user: it acts as the sandbox's user. */
bool shown_as_one(const struct fs *fs);

/* Whether the kernel decides by access lists: it checks all callers, and what it is shown is what
 * the lists were made for. */
bool shown_lists(const struct fs *fs);

/* What a chown to ids that are shown is inside. With uid= or gid= it changes nothing: that is taken
 * out of to_set (FUSE_SET_ATTR_*); to any other id it is -EPERM. */
int shown_chown(const struct fs *fs, struct sandbox *sb, struct stat *st, int *to_set);
