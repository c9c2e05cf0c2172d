/* SPDX-License-Identifier: MIT */
/* A root file system out of a tar archive, compressed or not. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The archive is hostile: whatever is in it, nothing outside of dir_fd is touched, and memory is
 * bounded. dir_fd is an empty directory that nobody else writes to or can enter, since there will
 * be set-user-ID programs in it. For a program of one thread, whose umask counts for nothing.
 *
 * Owners are numbers of the caller's user namespace; with one_id all belongs to the caller. Of the
 * extended attributes user.* and security.capability are kept, where the file system has such.
 * progress (may be NULL) is told how many bytes of the archive, as it lies there, were read so far.
 *
 * Anything that does not fit is refused as a whole, in words that name the member: what was written
 * by then stays, for the caller to remove. -EINVAL: no archive, an empty one, or a member that
 * cannot be; -EBADMSG: cut off or damaged; -EPERM: a device; -E2BIG: too many members; else what
 * the file system says. */
int unpack_archive(int tar_fd, int dir_fd, bool one_id, void (*progress)(void *arg, uint64_t bytes),
	void *arg, struct err *err);
