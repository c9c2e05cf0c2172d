/* SPDX-License-Identifier: MIT */
/*
 * The mount is about to go and no worker reads requests any more, but whoever made one still holds
 * a directory's lock, and a teller may wait for that. So they are all answered ENOTCONN.
 */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

struct drain;

/* From the end of the loop until the mount is unmounted. NULL: no memory, or no thread. */
struct drain *drain_start(struct fuse_session *se);
/* NULL does nothing. */
void drain_stop(struct drain *d);
