/* SPDX-License-Identifier: MIT */
/* What the files of a tree (workspace/, rootfs/) share among tree.c, tree_file.c and tree_dir.c. */
#pragma once

#include "fs/op.h"

/* An open file or directory: fi->fh. */
struct handle {
	uint64_t fh; /* its number towards the agent */
	uint32_t epoch;
	bool local;		      /* a directory without an agent: nothing in it */
	bool append;		      /* opened so: the agent's is too */
	_Atomic bool flocked, ranged; /* there were locks through it: flocks, byte ranges */
	_Atomic uint64_t owner;	      /* who asked for a byte range last */
	_Atomic bool leaving;	      /* counted in its node's */
};

struct handle *handle_of(const struct fuse_file_info *fi);
/* Tells the agent to close what it opened. */
void handle_close(struct sandbox *sb, uint64_t fh, uint32_t epoch);

/* An op on dir and name whose answer is the new node of that name. */
struct op *tree_new_node(fuse_req_t req, struct inode *dir, const char *name, uint16_t type);
/* The mode of a new file as the message has it: with the umask, and what that took. */
uint32_t tree_mode(fuse_req_t req, mode_t mode);
/* Its reply: the node becomes the kernel's. */
enum op_outcome tree_reply_entry(struct op *op, fuse_req_t req, struct wire_in *body);
/* It was made, and its caller was told EINTR meanwhile. */
void tree_made_unseen(struct op *op);
/* Reads an attr as the whole body. */
bool tree_get_attr(struct wire_in *body, struct proto_attr *a);

/* The node and its attributes from an answer; false after NULL or a type that cannot be. */
struct inode *tree_found(struct op *op, const struct proto_attr *a, struct stat *st);

/* tree_file.c */
void tree_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
/* PROTO_OPEN or PROTO_OPENDIR. */
void tree_open_as(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, uint16_t type);
void tree_create(fuse_req_t req, struct inode *dir, const char *name, mode_t mode,
	struct fuse_file_info *fi);
void tree_read(fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi);
void tree_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi);
void tree_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
void tree_fsync(fuse_req_t req, struct inode *i, int data_only, struct fuse_file_info *fi);
/* An op on an open file: valid as long as the session that opened it. */
struct op *tree_on_handle(fuse_req_t req, struct inode *i, const struct handle *h, uint16_t type,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body));

/* tree_lock.c */
void tree_getlk(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct flock *l);
void tree_setlk(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct flock *l, int wait);
void tree_flock(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, int how);
void tree_flush(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
/* The release of a handle that had locks. */
void tree_release_locked(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);

/* tree_dir.c */
void tree_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
void tree_readdir(fuse_req_t req, struct inode *i, size_t size, off_t off,
	struct fuse_file_info *fi, bool plus);
/* Whether a name in a rootfs tree is one of ours, and if so answers the lookup. */
bool tree_special(fuse_req_t req, struct inode *dir, const char *name);
bool tree_is_special(struct inode *dir, const char *name, size_t len);

/* tree_range.c */
void tree_fallocate(fuse_req_t req, struct inode *i, int mode, off_t off, off_t length,
	struct fuse_file_info *fi);
void tree_lseek(fuse_req_t req, struct inode *i, off_t off, int whence, struct fuse_file_info *fi);
void tree_copy(fuse_req_t req, struct inode *i, off_t off, struct fuse_file_info *fi,
	struct inode *to, off_t off_to, struct fuse_file_info *fi_to, size_t length);

/* tree_xattr.c */
void tree_getxattr(fuse_req_t req, struct inode *i, const char *name, size_t size);
void tree_setxattr(fuse_req_t req, struct inode *i, const char *name, const char *value,
	size_t size, int flags);
void tree_listxattr(fuse_req_t req, struct inode *i, size_t size);
void tree_removexattr(fuse_req_t req, struct inode *i, const char *name);

/* tree_link.c */
void tree_readlink(fuse_req_t req, struct inode *i);
void tree_symlink(fuse_req_t req, struct inode *dir, const char *name, const char *text);
