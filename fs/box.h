/* SPDX-License-Identifier: MIT */
/* What the parts of a sandbox's directory share. */
#pragma once

#include "fs/inode.h"

/* Whether only empty directories are left of it (rmdir demo/ctl, before rmdir demo). */
bool box_is_husk(struct sandbox *sb);

/* Links whose text the daemon makes. */
enum { LINK_ROOTFS, LINK_WORKSPACE };
/* Directories that are shown empty. */
enum { EMPTY_PROC, EMPTY_SYS, EMPTY_DEV, EMPTY_HUSK };
