/* SPDX-License-Identifier: MIT */
/*
 * Who acts for .sandboxfs/do: threads that give the lines to the process of doer.h and answer. They
 * may wait for the mount; nobody in the mount waits for them.
 */
#pragma once

#include "fs/doer.h"
#include "fs/inode.h"

#define DOING_LINE_MAX 16384

struct doing;

/* With whose rights: who opened the file, as for any descriptor that is handed on. */
void doing_caller(fuse_req_t req, struct doer_order *who);

/* NULL: no memory. */
struct doing *doing_new(struct fs *fs, const struct doer *doer);
/* Answers whoever waits: before the unmount. */
void doing_stop(struct doing *d);
/* Waits for the threads: after it, when no call on the mount can hang any more. */
void doing_free(struct doing *d);

/* Acts line by line, up to the first that fails, and answers: a write with `written` bytes, else
 * (0) with success. With no wait it is answered at once. Takes the text; -ENOMEM has been answered.
 */
void doing_run(fuse_req_t req, struct inode *i, const struct doer_order *who, char *text,
	size_t written, bool wait);
