/* SPDX-License-Identifier: MIT */
/*
 * Nodes that the kernel knows. Two lifetimes: the kernel's lookup count, and references for use in
 * flight. A node's number towards the kernel is its address; numbers towards the agent are never
 * used twice.
 */
#pragma once

#include "common/proto.h"
#include "fs/fs.h"

#include <limits.h>
#include <uthash.h>

struct forget;

enum tree { TREE_NONE, TREE_WORKSPACE, TREE_ROOTFS };

struct inode {
	_Atomic int refs;
	const struct node_ops *ops;
	struct fs *fs;
	struct itable *table;
	struct sandbox *sb;  /* a reference, or NULL */
	unsigned which;	     /* fixed nodes: which of its kind */
	uint64_t job;	     /* files of ctl/jobs/: whose; 0: ctl/ itself */
	uint64_t ino;	     /* st_ino */
	uint64_t generation; /* an address may be another node's later, but not with this */

	/* Of what lives in a sandbox. */
	enum tree tree;	       /* in which it was found first; a root: which it is */
	_Atomic uint64_t node; /* its number towards the agent */
	uint32_t epoch;	       /* the agent's session that knows it; 0: always valid */
	uint32_t type;	       /* S_IFMT bits */
	uint64_t dev, real_ino;
	struct proto_time btime;
	_Atomic bool locked;	  /* a byte range of it was ever locked: a close must say so */
	_Atomic unsigned leaving; /* handles with locks that may be closing: see tree_lock.c */
	uint64_t at; /* a hash of where it was last found; protected by the table's lock */

	/* Protected by the table's lock. */
	uint64_t lookups;
	struct inode *parent; /* as the kernel was told; directories and symlinks; a reference */
	char *name;
	uint8_t *key;	    /* NULL when not in the table */
	unsigned unsettled; /* moves down that the kernel may not have made yet */
	unsigned floor;	    /* while there are such: the least depth that it has had meanwhile */
	UT_hash_handle hh;
	UT_hash_handle by_node; /* of what lives in a sandbox, as long as the kernel knows it */
};

struct itable *itable_new(struct fs *fs, struct sandbox *sb);
/* Frees every node: only when no request can come any more. */
void itable_clear(struct itable *t);
void itable_free(struct itable *t);
/* All tables, one after another; NULL begins and ends. */
struct itable *itable_next(struct fs *fs, struct itable *t);
/* What was last heard of its jobs; NULL for the mount's own table. */
struct seen *itable_seen(struct itable *t);
/* What the kernel is told of changes in the sandbox; NULL for the mount's own table. */
struct changes *itable_changes(struct itable *t);
/* The table of a sandbox, made when first asked for. NULL: no memory. */
struct itable *itable_of(struct fs *fs, struct sandbox *sb);

struct inode *inode_of(fuse_req_t req, fuse_ino_t ino);
void inode_get(struct inode *i);
void inode_put(struct inode *i);
void inode_forget(struct inode *i, uint64_t n);
/* One more lookup of a node that has some; false: it has been forgotten. */
bool inode_remember(struct inode *i);
/* The same as inode_forget(), of one of many. */
void inode_forget_some(struct inode *i, uint64_t n, struct forget *f);

/* A node that is always there: kind and index in a table. With a lookup count of the kernel's
 * added; NULL: no memory. */
struct inode *inode_fixed(struct itable *t, const struct node_ops *ops, unsigned which);
/* The same of a job: its number is part of what the node is. */
struct inode *inode_fixed_job(
	struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job);
/* Its st_ino, whether the kernel knows it or not. */
uint64_t inode_fixed_ino(
	struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job);
/* The kernel takes this one as removed: whoever looks it up again gets another. */
void inode_fixed_renew(struct itable *t, const struct node_ops *ops, unsigned which, uint64_t job);
/* A tree's root: the workspace or the whole file system. The same. */
struct inode *inode_tree(struct itable *t, enum tree tree);

/* The node of what the agent found as `name` in dir, under the number that it was given. Finds the
 * one that the kernel has already (the surplus number is then added to f), or makes it. With a
 * lookup count of the kernel's added; NULL: no memory. */
struct inode *inode_found(struct inode *dir, const char *name, uint64_t node, uint32_t epoch,
	const struct proto_attr *attr, struct forget *f);

/* The st_ino of what has that inode number inside, on the directory's device. */
uint64_t inode_listed_ino(struct inode *dir, uint64_t ino);

/* The node that the agent knows by that number: a new reference; NULL: the kernel has none. */
struct inode *inode_by_node(struct itable *t, uint64_t node);
/* All that live in the sandbox: references, in an array to be freed. -ENOMEM. */
int inode_all(struct itable *t, struct inode ***all, size_t *n);
/* How often the kernel was told of it and has not forgotten. */
bool inode_is_known(struct inode *i);
/* A fixed node, if the kernel knows it: a new reference. */
struct inode *inode_fixed_known(struct itable *t, const struct node_ops *ops, unsigned which);

/* After the host moved or removed a name. Moved: to be answered with success now; the directories
 * that went down come back in unsettled (references, or NULL): for each, when the kernel has moved
 * it for certain, somebody calls inode_settled(). */
void inode_moved(struct inode *dir, const char *name, struct inode *to, const char *new_name,
	bool exchange, struct inode *unsettled[2]);
void inode_settled(struct inode *i);
void inode_removed(struct inode *dir, const char *name);

/* Where a directory is, along the parents that the kernel was told. */
struct place {
	enum tree tree;	     /* the one that it is in now: it may have been moved from the other */
	unsigned depth;	     /* directories between it and its tree's root (the root: 0) */
	unsigned least;	     /* it is at least so deep for the kernel, whatever is under way */
	bool sure;	     /* the kernel has it there, and nowhere else */
	char path[PATH_MAX]; /* from the root, a leading '/' for each part ("" for the root) */
};

/* -ENAMETOOLONG. */
int inode_place(struct inode *i, struct place *p);
/* The place of a symlink's directory, as far as it holds for the link. The same, and -ESTALE. */
int inode_link_place(struct inode *link, struct place *p);

/* A directory's or symlink's parent as the kernel was told: a new reference; NULL for a tree's
 * root. */
struct inode *inode_parent(struct inode *i);

/* Attributes as the kernel wants them. -EIO if they cannot be. */
int inode_stat(const struct inode *i, const struct proto_attr *a, struct stat *st);
/* Of a fixed node. */
void inode_fixed_stat(const struct inode *i, mode_t mode, size_t size, struct stat *st);

/* How long the kernel may keep what comes with these PROTO_CACHE_* bits. */
/* All that the kernel hears of a node but its attributes and how long those hold. */
struct fuse_entry_param inode_entry(const struct inode *i, uint32_t cache);
double inode_name_timeout(const struct inode *i, uint32_t cache);
double inode_attr_timeout(const struct inode *i, uint32_t cache);
/* The same for a fixed directory's attributes. */
double inode_fixed_timeout(const struct inode *i, mode_t mode);

/* Answers a lookup with a node that has had a count added; takes it back if the kernel has gone. */
void inode_reply_entry(fuse_req_t req, struct inode *i, const struct stat *st, uint32_t cache);
/* The same for a fixed directory or link; NULL is ENOMEM. */
void inode_reply_fixed(fuse_req_t req, struct inode *i, mode_t mode, size_t size);
/* The same for a fixed file, which finds out its size first. */
void inode_reply_file(fuse_req_t req, struct inode *i);
/* What a file's measure() ends in. */
void inode_answer(fuse_req_t req, struct inode *i, mode_t mode, uint64_t size, enum answer how);
