/* SPDX-License-Identifier: MIT */
/* Open files and directories, numbered by the daemon. */
#pragma once

#include "agent/nodes.h"

struct handle {
	struct link by_num;
	struct session *s;
	struct node *node;   /* counted */
	struct handle *next; /* of the same node; protected by s->lock */
	unsigned refs;	     /* protected by s->lock */
	int fd;
	bool readable, writable, append, dir;
	pthread_mutex_t lock; /* directories: one reader of fd's position at a time */
};

#define auto_handle __attribute__((cleanup(handle_putp)))

/* Takes fd over, whatever happens. -EEXIST: the number is in use. */
int handle_add(struct session *s, uint64_t num, struct node *node, int fd, int flags);
bool handle_taken(struct session *s, uint64_t num);

/* Counted; NULL: none of that number. */
struct handle *handle_get(struct session *s, uint64_t num);
/* Any open one of the node, a writable one if there is a choice; NULL: none. */
struct handle *handle_of(struct session *s, struct node *node);
void handle_put(struct handle *h);
void handle_putp(struct handle **h);

void handle_close(struct session *s, uint64_t num);
/* All that are open on that file. */
void handles_close_file(struct session *s, uint64_t dev, uint64_t ino);
void handles_fini(struct session *s);
