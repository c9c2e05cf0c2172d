/* SPDX-License-Identifier: MIT */
/* Writes a tree beneath one directory, by names that cannot be trusted. One thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct unpack_tree {
	int root; /* not owned */
	bool one_id;
	int parent_fd;	       /* of the last path; -1: none yet */
	char parent[PATH_MAX]; /* its path */
	struct buf dirs;       /* what directories get at the end: see unpack_tree_finish() */
	size_t n_dirs;
};

struct unpack_meta {
	mode_t mode; /* the permissions only */
	uid_t uid;
	gid_t gid;
	struct timespec times[2]; /* as utimensat(2) has them */
};

void unpack_tree_init(struct unpack_tree *t, int root, bool one_id);
void unpack_tree_fini(struct unpack_tree *t);

/* A member's name, without "." and needless slashes; "" is the root itself. -EINVAL: it would lead
 * out. */
int unpack_tree_path(const char *name, char path[PATH_MAX], struct err *err);

/* These take such paths. Directories above them that are not there yet are made; what is there by
 * that name is replaced, unless one of the two is a directory. -EINVAL: through a link. */
int unpack_tree_dir(
	struct unpack_tree *t, const char *path, const struct unpack_meta *m, struct err *err);
int unpack_tree_symlink(struct unpack_tree *t, const char *path, const char *text,
	const struct unpack_meta *m, struct err *err);
int unpack_tree_fifo(
	struct unpack_tree *t, const char *path, const struct unpack_meta *m, struct err *err);
int unpack_tree_link(struct unpack_tree *t, const char *path, const char *to, struct err *err);

/* An empty file, open for writing. Its owner and mode come after its content and before extended
 * attributes (a chown takes capabilities away), its times after all else: the caller sets them. */
int unpack_tree_file(struct unpack_tree *t, const char *path, struct err *err);
int unpack_tree_give(const struct unpack_tree *t, int fd, const char *path,
	const struct unpack_meta *m, struct err *err);

/* A directory that is there, to be given extended attributes. */
int unpack_tree_open_dir(struct unpack_tree *t, const char *path, struct err *err);

/* Modes and times of all directories, which only now can be final. */
int unpack_tree_finish(struct unpack_tree *t, struct err *err);
