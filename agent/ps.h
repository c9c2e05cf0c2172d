/* SPDX-License-Identifier: MIT */
/* The sandbox's processes, and which job each belongs to. */
#pragma once

#include "agent/request.h"

#include <sys/types.h>

/* A job's supervisor has come, or gone. */
void ps_add(pid_t supervisor, const char *job);
void ps_del(pid_t supervisor);

/* PROTO_PS; a worker's. root_fd (constant): where etc/passwd is. */
void ps_init(int root_fd);
int ps_answer(struct request *r);
