/* SPDX-License-Identifier: MIT */
/* A job's output on the state volume: stdout, stderr, and both in order; head and tail of each. */
#pragma once

#include "common/proto.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct store_info {
	uint64_t size[PROTO_STREAMS], hole_from[PROTO_STREAMS], hole_to[PROTO_STREAMS];
	int error; /* 0, or why bytes were dropped: ENOSPC ... */
};

struct store {
	int dir_fd; /* the job's directory; owned */
	int fd[PROTO_STREAMS];
	uint64_t keep; /* bytes of a stream, half of it head, half tail */
	uint64_t punched_from[PROTO_STREAMS], punched[PROTO_STREAMS]; /* the hole on disk */
	bool no_punch;
	pthread_mutex_t lock;
	struct store_info info; /* protected by lock; only the output thread writes */
};

extern const char *const store_names[PROTO_STREAMS];

/* How much of a stream is kept, from now on; else 64 MiB. Before the first job. */
void store_set_keep(uint64_t bytes);

/* Takes dir_fd over. */
void store_init(struct store *s, int dir_fd);
void store_fini(struct store *s);
void store_close(struct store *s); /* no more will come: the files, not the numbers */

/* n bytes of stream (stdout or stderr). Never fails: what cannot be kept becomes the hole. */
void store_append(struct store *s, unsigned stream, const void *p, size_t n);

/* No stream keeps more than that many bytes from now on. The thread that appends. */
void store_limit(struct store *s, uint64_t keep);
/* The same for one that nobody appends to, in the job's directory. */
void store_shrink(int dir_fd, struct store_info *info, uint64_t keep);

void store_get(struct store *s, struct store_info *info);
