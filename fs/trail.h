/* SPDX-License-Identifier: MIT */
/*
 * The audit trail of commands: exec-start when one has been started through this mount, exec-end
 * when it has ended, whoever waits for it or not. One struct a mount. Any thread; never blocks.
 */
#pragma once

#include "fs/inode.h"

#define TRAIL_HEAD 2048

/* Who writes a command, and how it begins. */
struct trail_text {
	uint32_t uid;
	int pid; /* on the host */
	uint64_t size;
	size_t len;
	char head[TRAIL_HEAD];
};

struct trail *trail_new(struct registry *r);
/* Nothing is told any more: what ends from now on ends with the mount. */
void trail_stop(struct trail *t);
/* After registry_close. */
void trail_free(struct trail *t);

struct op;

void trail_write(struct trail_text *x, uint64_t at, const void *data, size_t n);
/* As an op's data; NULL: no memory, and then only the text is missed. */
struct trail_text *trail_copy(const struct trail_text *x);
void trail_op_free(struct op *op);

/* It runs. The end will be told. */
void trail_started(struct inode *i, uint64_t job, const struct trail_text *x);
/* The agent can be asked, for the first time or again: what runs there is watched. What it says of
 * its jobs the first time has been seen. */
void trail_up(struct fs *fs, struct itable *table, struct sandbox *sb, bool first);
