/* SPDX-License-Identifier: MIT */
/* The files of ctl/: one table (ctl.c) says which there are. To add one, add a line there. */
#pragma once

#include "fs/op.h"

enum ctl_file {
	CTL_EXEC,
	CTL_ARGV,
	CTL_STDOUT,
	CTL_STDERR,
	CTL_OUTPUT,
	CTL_EXIT_CODE,
	CTL_RESULT,
	CTL_SUMMARY,
	CTL_STATE,
	CTL_ERROR,
	CTL_CONFIG,
	CTL_FILES
};

/* Name and mode of one. */
const char *ctl_name(unsigned which);
mode_t ctl_mode(unsigned which);
/* Answers a measure(). */
void ctl_answer(fuse_req_t req, struct inode *i, uint64_t size, enum answer how);

/* A question about a job (0: the newest) whose answer is a struct proto_job, asked without waiting.
 */
struct op *ctl_ask_job(fuse_req_t req, struct inode *i, uint64_t job,
	enum op_outcome (*reply)(struct op *op, fuse_req_t req, struct wire_in *body),
	enum op_outcome (*failed)(struct op *op, fuse_req_t req, int r));

/* Answers a read with bytes of a job's stream (PROTO_STREAM_*), without waiting for the sandbox.
 * Job 0 has none. */
void ctl_read(
	fuse_req_t req, struct inode *i, uint64_t job, uint8_t stream, size_t size, off_t off);

/* A request to the agent that nobody waits for. Fields follow the job's number: extra bytes as they
 * are. */
void ctl_tell(struct sandbox *sb, uint16_t type, uint64_t job, const struct buf *extra);

/* Whether a job's files can be asked for: not before the sandbox runs, and then there is no job
 * yet. */
bool ctl_no_job_yet(struct sandbox *sb);
