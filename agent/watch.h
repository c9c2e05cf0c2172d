/* SPDX-License-Identifier: MIT */
/*
 * Watching what the daemons were told. A directory is watched before anything in it is looked at
 * for a daemon; what changes there later is recorded (changes.h), unless it is the echo of what
 * that daemon did itself. docs/protocol.md has the reasons.
 */
#pragma once

#include "agent/nodes.h"

/* Before the first session; without inotify nothing is ever called watched. */
void watch_init(void);

/* Is it watched? */
bool watch_sees(const struct pin *dir);
/* Watches the pinned directory from now on. Leaves the thread with the agent's own rights. */
void watch_dir(const struct pin *dir);

/* Watches what is dirfd/name ("": dirfd itself), known as num, by itself, if that is no directory
 * and there is a watch for it: a file may get names, and be changed through them, in directories
 * that are not watched. stx is brought up to date. Leaves the thread with the agent's own rights.
 */
enum watch_why {
	WATCH_SEEN,  /* it was come across */
	WATCH_AGAIN, /* asked for by itself, though it was told before */
	WATCH_OPENED /* its bytes may be mapped: another gives its watch up for it */
};
void watch_file(struct session *s, uint64_t num, int dirfd, const char *name, struct sys_statx *stx,
	enum watch_why why);
/* Some file's watch is given up. Without a lock. False: none has one to give. */
bool watch_make_room(struct session *s);
/* The node goes: s->lock is held, as in the next. */
void watch_forget(struct session *s, struct node *n);
/* Its watch has gone. */
void watch_lost(struct session *s, struct node *n);

/* The daemon has removed that name itself (moved: renamed), or closes a file after writing. On the
 * loop's thread: the event that comes is expected, in the next watch_drain(), which is to follow.
 */
void watch_expect_removed(const struct pin *dir, const char *name, bool moved);
void watch_expect_closed(struct session *s, struct node *n);

/* Reads the events that are there. On the loop's thread, as the next. */
void watch_drain(void);
/* The same, and reports what others closed after writing: a command has ended, a lock was granted.
 */
void watch_barrier(void);
