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
/* Watches the regular file that is dirfd/name, known as num, by itself: it may get links, and be
 * written through them, in directories that are not watched. The newest few thousand are. stx is
 * brought up to date. Leaves the thread with the agent's own rights. */
void watch_file(
	struct session *s, uint64_t num, int dirfd, const char *name, struct sys_statx *stx);
/* The node goes: s->lock is held. */
void watch_forget(struct session *s, struct node *n);

/* The daemon is told of node num, which is parent's child (NULL: a root): remembers what, and says
 * in attr->cache how far it may be believed. */
void watch_tell(
	struct session *s, uint64_t num, const struct sys_statx *stx, struct proto_attr *attr);
/* The same for bytes that are read, where nothing was told before: fd is asked. */
void watch_tell_read(struct session *s, struct node *n, int fd);

/* Around what a daemon does to a file itself: begin finds out what others did before, end what is
 * so now. stx is its stat at that moment; NULL: not to be had. */
void watch_own_begin(struct session *s, struct node *n, const struct sys_statx *stx);
void watch_own_end(struct session *s, struct node *n, const struct sys_statx *stx);
/* The daemon has changed the names in a directory: its kernel knows that the attributes are old. */
void watch_own_names(const struct pin *dir);
/* The daemon has given a file another name: the first must be looked up again too. */
void watch_own_link(const struct pin *of);
/* It has removed that name itself (moved: renamed), or closed a file after writing. On the loop's
 * thread, right after: the event that comes is expected. */
void watch_expect_removed(const struct pin *dir, const char *name, bool moved);
void watch_expect_closed(struct session *s, struct node *n);

/* Whether a file just opened has the bytes that the daemon's kernel may still have. */
bool watch_keeps(struct session *s, struct node *n, int fd);

/* Reads the events that are there. On the loop's thread, as the next. */
void watch_drain(void);
/* The same, and reports what others closed after writing: a command has ended, a lock was granted.
 */
void watch_barrier(void);
