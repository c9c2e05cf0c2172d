/* SPDX-License-Identifier: MIT */
/* What exec.c and exec_put.c share. */
#pragma once

#include "fs/ctl.h"

/* PROTO_START_*: what the text is. */
uint8_t exec_form(const struct inode *i);
/* The answer to JOB_OPEN: false if it cannot be. */
bool exec_reserved(struct inode *i, uint64_t job, const struct wire_in *body);
/* Nothing will be started. A named job stays as it is. */
void exec_unreserve(struct inode *i, uint64_t job);

/* Its start failed by r: nothing will be started, but of one that was under way when a connection
 * broke that is not known, and is asked. */
void exec_not_started(struct inode *i, uint64_t job, const struct call *start, int r);

/* exec_put.c */
void exec_put(fuse_req_t req, struct inode *i, const char *data, size_t size);
