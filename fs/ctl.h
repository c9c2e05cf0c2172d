/* SPDX-License-Identifier: MIT */
/* The files of ctl/ and of a job's directory: one table (ctl.c) says which there are, and where. To
 * add one, add a line there. */
#pragma once

#include "fs/op.h"

enum ctl_file {
	CTL_EXEC,
	CTL_ARGV,
	CTL_STDIN,
	CTL_STDOUT,
	CTL_STDERR,
	CTL_OUTPUT,
	CTL_EXIT_CODE,
	CTL_RESULT,
	CTL_SUMMARY,
	CTL_TIMEOUT, /* the settings, in the order of enum proto_set */
	CTL_MAX_WAIT,
	CTL_USER,
	CTL_CWD,
	CTL_ENV,
	CTL_SHELL,
	CTL_TTY,
	CTL_WAIT,
	CTL_SIGNAL,
	CTL_PID,
	CTL_STATE,
	CTL_ERROR,
	CTL_CONFIG,
	CTL_MEMORY_MAX,
	CTL_CPU_MAX,
	CTL_PIDS_MAX,
	CTL_LOG,
	CTL_STATS,
	CTL_PS,
	CTL_FILES
};

struct dirlist;
struct poller;

/* Name and mode of one; which of them has a name in ctl/, or in a job's directory (-1: none). */
const char *ctl_name(unsigned which);
mode_t ctl_mode(unsigned which);
int ctl_find(const char *name, bool in_job);
void ctl_list(struct dirlist *d, bool in_job);
/* node_ops' control of both directories. */
struct inode *ctl_control(struct inode *dir, const char *name);
/* Answers a lookup of one of them in dir. */
void ctl_reply_file(fuse_req_t req, struct inode *dir, unsigned which);
/* Answers getattr of ctl/, jobs/ and a job's directory. */
void ctl_dir_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi);
/* Answers a measure(). */
void ctl_answer(fuse_req_t req, struct inode *i, uint64_t size, enum answer how);
/* setattr of a file that a shell's `>` truncates to no effect: answers with its size. */
void ctl_setattr(fuse_req_t req, struct inode *i, const struct stat *st, int to_set,
	struct fuse_file_info *fi);

/* Fails a request with words in ctl/error and .sandboxfs/errors. The second is for who would write
 * what can only be read, the third a struct op's failed(). */
void ctl_fail(fuse_req_t req, struct inode *i, const struct err *err);
void ctl_read_only(fuse_req_t req, struct inode *i);
enum op_outcome ctl_failed(struct op *op, fuse_req_t req, int r);

/* A question about a job (0: the newest) whose answer is a struct proto_job, asked without waiting.
 * get_job reads the answer and remembers it; false: it is malformed. */
struct op *ctl_ask_job(fuse_req_t req, struct inode *i, uint64_t job,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body),
	enum op_outcome (*failed)(struct op *op, fuse_req_t req, int r));
bool ctl_get_job(struct op *op, struct wire_in *body, struct proto_job *j);

/* Answers a read with bytes of a job's stream (PROTO_STREAM_*), without waiting for the sandbox.
 * Job 0 has none but what was written to ctl/stdin. p, if not NULL, is told how far. */
void ctl_read(fuse_req_t req, struct inode *i, uint64_t job, uint8_t stream, size_t size, off_t off,
	struct poller *p);

/* A request to the agent that nobody waits for. Fields follow the job's number: extra bytes as they
 * are. False: there is no connection. */
bool ctl_tell(struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra);
/* The same; without a connection it is kept until there is one. */
void ctl_tell_surely(
	struct itable *t, struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra);
/* Drops a job that may have been started, if it was not. Kept in the same way. */
void ctl_drop_new(struct itable *t, struct sandbox *sb, uint64_t job);
/* There is a connection: tells what was kept. */
void ctl_up(struct itable *t, struct sandbox *sb);

/* Whether a job's files can be asked for: not before the sandbox runs, and then there is no job
 * yet. */
bool ctl_no_job_yet(struct sandbox *sb);
/* Whether it does not run, and nothing in it. */
bool ctl_is_down(struct sandbox *sb);
