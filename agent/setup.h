/* SPDX-License-Identifier: MIT */
/* What the template wants done before the sandbox serves, and before it stops: docs/setup.md. In
 * this order, from the main thread, which becomes the loop's. */
#pragma once

#include "agent/launch.h"
#include "agent/request.h"

/* Reads the file in state_fd, and makes users and groups beneath root_fd. expected: there must be
 * one. */
int setup_begin(int state_fd, int root_fd, bool expected, struct err *err);
/* The sandbox's user and workspace are there: the files. */
int setup_files(int root_fd, struct err *err);
/* So are the jobs: the settings of ctl/, the limit. */
int setup_defaults(struct err *err);
/* The loop will run: post_start, and the end of the setup. */
void setup_start(const struct launch_config *config);
/* It has failed before that; HELLO says why. */
void setup_give_up(void);

/* TERM: pre_stop. False: there is nothing to be done. */
bool setup_stop(void);
bool setup_stopping(void); /* and that still goes on */

/* After each round of the loop; ms until it must be called again, or -1. */
int setup_tick(void);

int setup_ask(struct request *r);
void setup_cancel(const struct conn *c, uint64_t id);
