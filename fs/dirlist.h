/* SPDX-License-Identifier: MIT */
/* A directory whose entries the daemon knows: rendered once per opendir, then served by offset. */
#pragma once

#include "fs/inode.h"

struct dirlist;

/* Starts with "." and "..". NULL: no memory. */
struct dirlist *dirlist_new(void);
void dirlist_add(struct dirlist *d, const char *name, uint64_t ino, mode_t type);

void dirlist_free(struct dirlist *d); /* NULL is fine */

/* Answers opendir with d (NULL: ENOMEM), which releasedir frees. */
void dirlist_reply_open(fuse_req_t req, struct dirlist *d, struct fuse_file_info *fi);
void dirlist_readdir(fuse_req_t req, struct inode *i, size_t size, off_t off,
	struct fuse_file_info *fi, bool plus);
void dirlist_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
