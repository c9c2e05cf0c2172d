/* SPDX-License-Identifier: MIT */
/* The pipes that a command writes to. */
#pragma once

#include <stddef.h>

/* A FIFO without a name, made in memory or else in dir_fd, that holds one packet of up to a page.
 * The writing end, or -errno; *in is the reading one, which never blocks. */
int pipe_fifo(int dir_fd, size_t page, int *in);
/* The same as an ordinary pipe. */
int pipe_plain(int *in);
/* How many bytes can be read from a pipe, or inotify's descriptor; of none (-1) 0. */
size_t pipe_waiting(int fd);
