/* SPDX-License-Identifier: MIT */
/*
 * What makes caching true: the agent says what is no longer so, the kernel is told. One struct a
 * sandbox. The agent is asked again and again for changes; a thread of the sandbox's own tells the
 * kernel, because that may have to wait for locks that other requests hold.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct changes;
struct changes_threads;
struct fs;
struct inode;
struct itable;
struct op;
struct sandbox;

struct changes *changes_new(struct fs *fs, struct itable *t, struct sandbox *sb);
void changes_free(struct changes *c);

/* The agent can be asked (perhaps it is asked already). */
void changes_up(struct changes *c);

/* Whether changes are heard of at all: only then may the kernel keep anything. */
bool changes_are_heard(struct changes *c);

/* Whether the kernel has been told of all up to seq. If not, hold keeps an op until then, and calls
 * op_released; false: it has happened meanwhile. */
bool changes_are_told(struct changes *c, uint64_t seq);
bool changes_hold(struct changes *c, uint64_t seq, struct op *op);

/* Nothing that the kernel knows of the sandbox's files holds any more; then(arg), if not NULL, is
 * called when it has been told. */
void changes_drop_all(struct changes *c, void (*then)(void *arg), void *arg);

/* The attributes of a node that the host has just changed in a way that its kernel does not see.
 * Never waits. */
void changes_tell_attr(struct inode *i);

/* A rename out of dir has been answered, and moved went down by it: inode_settled() when the kernel
 * has done so. Takes the reference. */
void changes_settle(struct inode *dir, struct inode *moved);

/* A name in dir has changed by an operation of the host's whose caller was told EINTR: the kernel
 * does not know. name may be NULL: no memory. */
void changes_tell_name(struct inode *dir, const char *name);

/* For a mount: after close nothing more is begun; end returns when no thread tells the kernel
 * anything any more; false: some do after that time (-1: it waits). */
struct changes_threads *changes_threads_new(void);
void changes_threads_close(struct fs *fs);
bool changes_threads_end(struct fs *fs, int patience_ms);
void changes_threads_free(struct changes_threads *t);
