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
	uint64_t punched[PROTO_STREAMS]; /* the hole's end on disk */
	bool no_punch;
	pthread_mutex_t lock;
	struct store_info info; /* protected by lock; only the output thread writes */
};

extern const char *const store_names[PROTO_STREAMS];

/* Takes dir_fd over. */
void store_init(struct store *s, int dir_fd);
void store_fini(struct store *s);
void store_close(struct store *s); /* no more will come: the files, not the numbers */

/* n bytes of stream (stdout or stderr). Never fails: what cannot be kept becomes the hole. */
void store_append(struct store *s, unsigned stream, const void *p, size_t n);
/* The hole that a store of `size` bytes must have had, when nobody wrote it down. */
void store_lost_hole(struct store_info *info, unsigned stream, uint64_t size);

void store_get(struct store *s, struct store_info *info);
