/* SPDX-License-Identifier: MIT */
/* Trees that a sandbox could write to, for the launcher: paths in them lead nowhere else. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* A new O_PATH descriptor of `path` as the sandbox sees it: links in it are followed below root_fd
 * only. What is missing is made, as a directory or (`file`) an empty file at the end, and belongs
 * to owner; a link to nowhere is missing, and goes. */
int tree_make(int root_fd, const char *path, bool file, uid_t owner, struct err *err);

/* `name` directly in root_fd is a directory, whatever it was: a link would lead bwrap astray. */
int tree_make_plain(int root_fd, const char *name, uid_t owner, struct err *err);

/* Empties the directory; its depth does not matter. */
int tree_empty(int fd, struct err *err);
