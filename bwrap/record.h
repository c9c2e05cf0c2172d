/* SPDX-License-Identifier: MIT */
/* What a sandbox's directory remembers: the file `box.json`, replaced as a whole, and bwrap's
 * `status` of its last run. */
#pragma once

#include "sandbox/engine.h"

#include <sys/types.h>

/* What bwrap writes of a run; the other name until all is in it that says which process it is. */
#define STATUS_FILE "status"
#define STATUS_NEW  ".status"

/* Owns its strings, which are never NULL after a read. */
struct record {
	char *name;
	enum engine_mark mark;
	uint32_t owner;
	char *template, *config, *image_id, *error;
	int64_t created;
	struct engine_limits limits;
	bool paused;
};

/* Whoever reads a record to change it holds this lock meanwhile: a descriptor to close. Held for
 * moments, by daemons and threads. */
int record_lock(int box_fd, struct err *err);
int record_read(int box_fd, struct record *r, struct err *err);
/* As a whole or not at all, but on a full disk, where it is written over if it has become no
 * longer. */
int record_write(int box_fd, const struct record *r, struct err *err);
void record_fini(struct record *r);

struct status {
	bool started; /* it ran, in this life of the machine or an earlier one */
	bool alive;
	bool unknown;  /* whether it is alive could not be found out: no memory, no descriptor */
	pid_t pid;     /* where it is alive: of its PID 1 */
	bool has_code; /* bwrap saw it end */
	int exit_code; /* of its PID 1 */
};

void status_read(int box_fd, struct status *s);
/* Puts that of a new run in the place of the old one's, where there is one. With the box's lock. */
void status_settle(int box_fd);
