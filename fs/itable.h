/* SPDX-License-Identifier: MIT */
/* The inside of a table of nodes: for inode.c, and for inode_place.c, which moves them. */
#pragma once

#include "fs/inode.h"

#define ITABLE_KEY_MAX (1 + 8 + PROTO_NAME_MAX)

struct itable {
	struct fs *fs;
	struct sandbox *sb;	 /* not a reference: its nodes hold one each */
	struct changes *changes; /* of a sandbox's table */
	uint64_t seed;
	pthread_mutex_t lock;
	struct inode *nodes;   /* protected by lock, as the next */
	struct inode *numbers; /* by the agent's number: what the kernel knows */
	struct seen *seen;     /* of a sandbox's table */
	_Atomic bool was_up;
	struct itable *prev, *next; /* in fs->tables; protected by fs->tables_lock */
};

/* All with the lock held. */

/* The key of a directory or symlink: its length. */
size_t itable_name_key(uint8_t *key, const struct inode *dir, const char *name);
struct inode *itable_find(struct itable *t, const uint8_t *key, size_t n);
/* False: no memory. */
bool itable_enter(struct inode *i, const uint8_t *key, size_t n);
/* Nobody finds it by its key any more. */
void itable_unkey(struct inode *i);
