/* SPDX-License-Identifier: MIT */
/* The inotify watches, and who wants to know of each. Any thread; a lock of its own, which may be
 * taken with a session's held. */
#pragma once

#include "agent/session.h"

/* A node of a session. */
struct watcher {
	struct watcher *next;
	struct session *s;
	uint64_t num;
};

/* Before the first of the others: the descriptor to read events from, or -errno. */
int watches_init(void);
void watches_fini(void);
/* Whether there is none left: somebody must give one up. */
bool watches_are_out(void);

/* What is dirfd/name ("": dirfd itself) is watched for that node: the wd, or 0. */
int watches_add(int dirfd, const char *name, uint32_t events, struct session *s, uint64_t num);
void watches_leave(int wd, struct session *s, uint64_t num);
/* The same watch for another node of the same file. */
void watches_pass(int wd, struct session *s, uint64_t from, uint64_t to);

/* Who is to hear of an event, each session counted; *more: there are others. gone: the watch has
 * ended by itself. */
unsigned watches_who(int wd, bool gone, struct watcher *who, unsigned max, bool *more);
