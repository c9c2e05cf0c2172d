/* SPDX-License-Identifier: MIT */
/*
 * What the kernel is told of changes: attributes, bytes and names that it must not believe any
 * more. Waits for the locks of directories, so for answers to others: only from a teller's thread
 * (changes.c).
 */
#pragma once

#include "fs/inode.h"

struct telling {
	struct fs *fs;
	struct itable *table;
	struct sandbox *sb;
	bool (*useless)(const void *arg); /* nobody is to hear the rest */
	const void *arg;
};

/* A node's number towards the kernel. */
fuse_ino_t tell_number(const struct inode *i);

/* What a well-formed answer to CHANGES says. True: that everything has changed. */
bool tell_body(const struct telling *t, const uint8_t *body, size_t len);
/* Nothing that the kernel knows of the sandbox's files holds any more. */
void tell_all(const struct telling *t);
/* The name in dir means something else now; same: it does not, but is to be looked up before it is
 * used again. */
void tell_name(const struct telling *t, struct inode *dir, const char *name, size_t len, bool same);
/* A rename out of dir has been answered: waits until the kernel is through with it, and settles
 * what it moved. */
void tell_moved(const struct telling *t, struct inode *dir, struct inode *moved);
