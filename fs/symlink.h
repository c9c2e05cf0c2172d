/* SPDX-License-Identifier: MIT */
/*
 * What a symbolic link in a sandbox may say to the host. The host's kernel resolves link texts on
 * the host, so a text passes only if it cannot lead out of the sandbox's tree. Pure functions.
 */
#pragma once

#include "fs/inode.h"

/* Where a link stands: as the kernel was told, never as the sandbox says. */
struct link_place {
	enum tree tree;
	unsigned depth;	     /* directories between the tree's root and the link's directory */
	unsigned least;	     /* the same, at least: where it is on its way */
	bool sure;	     /* it is there, and not on its way; else least counts */
	const char *dir;     /* absolute path of that directory inside the sandbox */
	const char *sandbox; /* name of the sandbox's directory */
};

/* The text to show for `text`, a new string in *out. Relative, with `..` only at its start and not
 * above the tree: unchanged. Absolute or climbing: the relative path of the same object under
 * .sandboxfs/rootfs/. -EPERM: it cannot be made safe. -ESTALE: not as long as nobody is sure where
 * the link is; the kernel then looks for it once more. -ENAMETOOLONG. */
int symlink_show(const struct link_place *at, const char *text, char **out);

/* The text to store for a link that the host makes: a path into .sandboxfs/rootfs/SANDBOX/ is the
 * absolute target that it stands for, anything else stays as it is. */
int symlink_store(const struct link_place *at, const char *text, char **out);
