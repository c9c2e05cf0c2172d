/* SPDX-License-Identifier: MIT */
/* The protocol's server: the listening socket, the table of messages, HELLO. */
#pragma once

#include <stdint.h>

struct server_config {
	uint32_t uid, gid; /* the sandbox's user */
	const char *workspace;
	const char *trouble; /* "" or words; all constant while it serves */
};

/* listen_fd: bound and listening, non-blocking. config is kept. */
int server_init(int listen_fd, const struct server_config *config);
