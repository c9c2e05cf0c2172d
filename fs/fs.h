/* SPDX-License-Identifier: MIT */
/* The mount: what every kind of node can reach. One struct fs a daemon. */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "fs/options.h"
#include "sandbox/registry.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

struct inode;
struct itable;
struct op_table;
struct doing;
struct scratch_store;
struct template_names;
struct trail;
struct vacant;

struct fs {
	const struct options *options;
	struct registry *registry;
	struct itable *
		tables; /* every table there is, this mount's own first; protected by tables_lock */
	pthread_mutex_t tables_lock;
	struct itable *table; /* of the nodes that belong to no sandbox */
	struct inode *root;
	struct op_table *ops; /* requests that wait for an agent */
	struct fuse_session *session;
	struct changes_threads *threads;  /* who tell the kernel of changes */
	struct scratch_store *scratch;	  /* scratch files */
	struct template_names *templates; /* what has a node in .sandboxfs/templates */
	struct vacant *vacant;		  /* names of control files that were removed */
	struct doing *doing;		  /* who acts for .sandboxfs/do */
	struct trail *trail;		  /* of commands */
	_Atomic uint64_t next_id;	  /* node and handle numbers; never used twice */
	_Atomic uint64_t generation;	  /* of nodes towards the kernel; never used twice */
	_Atomic uint64_t freed, trimmed;  /* nodes so far, and when memory was given back last */
	_Atomic bool trimming;		  /* somebody will give it back */
	uint32_t mounter_uid, mounter_gid;
	struct timespec mounted;
};

enum answer { ANSWER_ATTR, ANSWER_ENTRY };

/*
 * What a kind of node can do: the low-level operations with the node in place of its number. A
 * member that is NULL fails with the errno that a Unix user would expect (ops.c). Each must reply
 * exactly once, now or later.
 */
struct node_ops {
	uint8_t kind;  /* one letter each: part of a fixed node's identity */
	bool mounters; /* of who mounted alone, whatever uid= says */
	void (*lookup)(fuse_req_t req, struct inode *dir, const char *name);
	void (*getattr)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	/* Fixed files in place of getattr: finds the size out and answers by inode_answer. A lookup
	 * must say it too: sendfile believes it. */
	void (*measure)(
		fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how);
	void (*setattr)(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
		struct fuse_file_info *fi);
	void (*access)(fuse_req_t req, struct inode *i, int mask);
	void (*readlink)(fuse_req_t req, struct inode *i);
	void (*mknod)(fuse_req_t req, struct inode *dir, const char *name, mode_t mode);
	void (*mkdir)(fuse_req_t req, struct inode *dir, const char *name, mode_t mode);
	void (*unlink)(fuse_req_t req, struct inode *dir, const char *name);
	void (*rmdir)(fuse_req_t req, struct inode *dir, const char *name);
	void (*symlink)(fuse_req_t req, struct inode *dir, const char *name, const char *text);
	void (*rename)(fuse_req_t req, struct inode *dir, const char *name, struct inode *to,
		const char *new_name, unsigned flags);
	void (*link)(fuse_req_t req, struct inode *i, struct inode *to, const char *name);
	void (*open)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	void (*create)(fuse_req_t req, struct inode *dir, const char *name, mode_t mode,
		struct fuse_file_info *fi);
	void (*read)(
		fuse_req_t req, struct inode *i, size_t size, off_t off, struct fuse_file_info *fi);
	void (*write)(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
		struct fuse_file_info *fi);
	/* Control files: acts as opening it, writing all of this and closing it, but waits for
	 * nothing that it starts. Answers with fuse_reply_err. (A scratch file was renamed.) */
	void (*put)(fuse_req_t req, struct inode *i, const char *data, size_t size);
	/* Directories with scratch files: the control file of that name, as inode_fixed; NULL:
	 * none.
	 */
	struct inode *(*control)(struct inode *dir, const char *name);
	/* ph: fuse_pollhandle_destroy() it; tell it once when the answer changes. NULL: the kernel
	 * does not ask to be told. */
	void (*poll)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi,
		struct fuse_pollhandle *ph);
	void (*flush)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	void (*release)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	void (*fsync)(fuse_req_t req, struct inode *i, int data_only, struct fuse_file_info *fi);
	void (*getlk)(
		fuse_req_t req, struct inode *i, struct fuse_file_info *fi, struct flock *lock);
	void (*setlk)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi,
		struct flock *lock, int wait);
	void (*flock)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi, int op);
	void (*opendir)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	void (*readdir)(fuse_req_t req, struct inode *i, size_t size, off_t off,
		struct fuse_file_info *fi, bool plus);
	void (*releasedir)(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
	void (*statfs)(fuse_req_t req, struct inode *i);
	/* size 0 asks for the length. XATTR_CAPABILITY comes to none of the four. */
	void (*getxattr)(fuse_req_t req, struct inode *i, const char *name, size_t size);
	void (*setxattr)(fuse_req_t req, struct inode *i, const char *name, const char *value,
		size_t size, int flags);
	void (*listxattr)(fuse_req_t req, struct inode *i, size_t size);
	void (*removexattr)(fuse_req_t req, struct inode *i, const char *name);
	void (*fallocate)(fuse_req_t req, struct inode *i, int mode, off_t off, off_t length,
		struct fuse_file_info *fi);
	/* SEEK_DATA and SEEK_HOLE only: the kernel does the others. */
	void (*lseek)(
		fuse_req_t req, struct inode *i, off_t off, int whence, struct fuse_file_info *fi);
	/* copy_file_range; EXDEV makes the kernel read and write. */
	void (*copy)(fuse_req_t req, struct inode *i, off_t off, struct fuse_file_info *fi,
		struct inode *to, off_t off_to, struct fuse_file_info *fi_to, size_t length);
};

/* File capabilities: nothing on a nosuid mount, but asked for before each write. */
#define XATTR_CAPABILITY "security.capability"

/* One file a kind of node. */
extern const struct node_ops root_ops;	     /* root.c: the mount's root */
extern const struct node_ops text_ops;	     /* text.c: README, .sandboxfs/version ... */
extern const struct node_ops dot_ops;	     /* dot.c: .sandboxfs */
extern const struct node_ops events_ops;     /* events.c: .sandboxfs/events */
extern const struct node_ops do_ops;	     /* do.c: .sandboxfs/do */
extern const struct node_ops scratch_ops;    /* scratch.c: files of no meaning */
extern const struct node_ops dot_rootfs_ops; /* dot.c: .sandboxfs/rootfs */
extern const struct node_ops sandbox_ops;    /* box.c: a sandbox's directory */
extern const struct node_ops empty_ops;	     /* box.c: a directory with nothing in it */
extern const struct node_ops fixed_link_ops; /* box.c: rootfs, and the workspace within it */
extern const struct node_ops ctl_ops;	     /* ctl.c: ctl/ */
extern const struct node_ops ctl_text_ops;   /* ctl_text.c: result, summary, state ... */
extern const struct node_ops ctl_state_ops;  /* ctl_text.c: state */
extern const struct node_ops ctl_stream_ops; /* ctl_stream.c: stdout, stderr, output */
extern const struct node_ops log_ops;	     /* log.c: log */
extern const struct node_ops exec_ops;	     /* exec.c: exec, argv */
extern const struct node_ops limit_ops;	     /* limits.c: memory.max, cpu.max, pids.max */
extern const struct node_ops ports_ops;	     /* ports.c: ctl/ports */
extern const struct node_ops port_ops;	     /* ports.c: a port in it */
extern const struct node_ops stdin_ops;	     /* stdin.c: stdin */
extern const struct node_ops settings_ops;   /* settings.c: timeout, user, tty ... */
extern const struct node_ops signal_ops;     /* signal.c: signal */
extern const struct node_ops wait_ops;	     /* wait.c: wait */
extern const struct node_ops jobs_ops;	     /* jobs.c: ctl/jobs/ */
extern const struct node_ops job_ops;	     /* jobs.c: a job's directory */
extern const struct node_ops last_ops;	     /* jobs.c: ctl/jobs/last */
extern const struct node_ops tree_ops;	     /* tree.c: whatever lives in the sandbox */

extern const struct node_ops templates_ops;	/* template_dir.c: .sandboxfs/templates */
extern const struct node_ops template_file_ops; /* template_file.c: a template in it */

extern const struct fuse_lowlevel_ops fs_lowlevel_ops; /* ops.c */

struct fs *fs_of(fuse_req_t req);

/* The words go to .sandboxfs/errors (and ctl/error, where sb is not NULL), the errno to the caller,
 * if there still is one. */
void fs_fail(struct fs *fs, fuse_req_t req, struct sandbox *sb, const char *op, const char *path,
	const struct err *err);
