/* SPDX-License-Identifier: MIT */
/* Pure functions of the options; any thread. */
#include "fs/shown.h"

#include <errno.h>

void shown_ids(const struct fs *fs, struct stat *st)
{
	const struct options *o = fs->options;

	if (o->has_uid)
		st->st_uid = o->uid;
	if (o->has_gid)
		st->st_gid = o->gid;
}

void shown_attr(const struct fs *fs, struct stat *st)
{
	const struct options *o = fs->options;

	shown_ids(fs, st);
	if (o->has_umask) /* as libfuse's high-level library does it */
		st->st_mode = (st->st_mode & S_IFMT) | (0777 & ~o->umask);
}

bool shown_as_one(const struct fs *fs)
{
	return fs->options->has_uid || fs->options->has_gid;
}

int shown_chown(const struct fs *fs, const struct stat *st, int *to_set)
{
	const struct options *o = fs->options;

	if ((*to_set & FUSE_SET_ATTR_UID) && o->has_uid) {
		if (st->st_uid != o->uid)
			return -EPERM;
		*to_set &= ~FUSE_SET_ATTR_UID;
	}
	if ((*to_set & FUSE_SET_ATTR_GID) && o->has_gid) {
		if (st->st_gid != o->gid)
			return -EPERM;
		*to_set &= ~FUSE_SET_ATTR_GID;
	}
	return 0;
}
