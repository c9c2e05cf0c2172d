/* SPDX-License-Identifier: MIT */
/* Pure functions of the options and of the sandbox's user; any thread. */
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

/* An ordinary user's own mount: whoever works there is that user, and acts as the sandbox's. */
static bool has_two_names(const struct fs *fs, struct sandbox *sb, struct sandbox_info *user)
{
	if (!fs->mounter_uid || fs->options->allow_other || !sb)
		return false;
	sandbox_numbers(sb, user);
	return true;
}

void shown_attr(const struct fs *fs, struct sandbox *sb, struct stat *st)
{
	const struct options *o = fs->options;
	struct sandbox_info user;

	if (has_two_names(fs, sb, &user)) {
		if (st->st_uid == user.uid)
			st->st_uid = fs->mounter_uid;
		if (st->st_gid == user.gid)
			st->st_gid = fs->mounter_gid;
	}
	shown_ids(fs, st);
	if (o->has_umask) /* as libfuse's high-level library does it */
		st->st_mode = (st->st_mode & S_IFMT) | (0777 & ~o->umask);
}

bool shown_as_one(const struct fs *fs)
{
	return fs->options->has_uid || fs->options->has_gid;
}

bool shown_lists(const struct fs *fs)
{
	return fs->options->allow_other && !shown_as_one(fs) && !fs->options->has_umask;
}

int shown_chown(const struct fs *fs, struct sandbox *sb, struct stat *st, int *to_set)
{
	const struct options *o = fs->options;
	struct sandbox_info user;

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
	if (has_two_names(fs, sb, &user)) {
		if (st->st_uid == fs->mounter_uid)
			st->st_uid = user.uid;
		if (st->st_gid == fs->mounter_gid)
			st->st_gid = user.gid;
	}
	return 0;
}
