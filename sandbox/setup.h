/* SPDX-License-Identifier: MIT */
/* What x-sandboxfs of a template makes of a sandbox before it serves: packed into one file for the
 * agent (common/setup_file.h). Reads host files; blocks. */
#pragma once

#include "common/buf.h"
#include "common/err.h"
#include "sandbox/spec.h"

/* Whether there is anything to pack. */
bool setup_needed(const struct spec *spec);

/* A new descriptor of an unlinked file that holds it all, or -errno with words. */
int setup_pack(const struct spec *spec, struct err *err);

/* A new temporary file on disk, without a name, so that nothing is left of it. */
int setup_temporary(struct err *err);

/* The file while it is written: setup.c and setup_tree.c. */
struct setup_pack {
	int fd;
	uint64_t written; /* and flushed */
	struct buf b;	  /* what comes next */
	struct err *err;
};

/* Writes out what has gathered; with the limit. */
int setup_flush(struct setup_pack *p);
/* A file or directory of the host, with all that is in it. */
int setup_put_source(struct setup_pack *p, const struct spec_file *f);
