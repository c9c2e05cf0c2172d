/* SPDX-License-Identifier: MIT */
/* A sandbox's log, for the launcher. */
#pragma once

#include "common/err.h"

#include <sys/types.h>

/* Starts a process that writes what comes through a pipe into the file log_fd, each line with the
 * time (RFC 3339, UTC) before it, and ends when the last writer has gone. The pipe's end to write
 * to; the pipe is the caller's as its files are. */
int logger_start(int log_fd, pid_t *pid, struct err *err);

/* The last line of a log, without its time; "" where there is none. */
void logger_last(int log_fd, char *text, size_t size);
