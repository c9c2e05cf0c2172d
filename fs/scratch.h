/* SPDX-License-Identifier: MIT */
/*
 * Scratch files: in ctl/, in a job's directory and in .sandboxfs/ any name that is no control
 * file's can be made, for tools that write beside a file and rename. A directory's kind hands over
 * what it does not know by name itself; its node_ops have `control`.
 */
#pragma once

#include "fs/dirlist.h"
#include "fs/scratch_store.h"

/* Each answers. lookup, unlink: ENOENT where there is none. */
void scratch_lookup(fuse_req_t req, struct inode *dir, const char *name);
void scratch_unlink(fuse_req_t req, struct inode *dir, const char *name);

/* Members of node_ops as they are. */
void scratch_mknod(fuse_req_t req, struct inode *dir, const char *name, mode_t mode);
void scratch_create(fuse_req_t req, struct inode *dir, const char *name, mode_t mode,
	struct fuse_file_info *fi);
void scratch_rename(fuse_req_t req, struct inode *dir, const char *name, struct inode *to,
	const char *new_name, unsigned flags);

/* For a lookup and an unlink in such a directory, before anything else: see vacant.h. */
bool scratch_is_vacant(fuse_req_t req, struct inode *dir, const char *name);
void scratch_note_unlink(fuse_req_t req, struct inode *dir, const char *name);

/* Adds those of the directory to a listing. */
void scratch_list(struct inode *dir, struct dirlist *d);

/* A sandbox's are gone, or those of one of its jobs. */
void scratch_drop_table(struct fs *fs, struct itable *t, uint64_t job);
