/* SPDX-License-Identifier: MIT */
/* What the daemons were told, and whether it is still so. docs/protocol.md, Changes. */
#pragma once

#include "agent/nodes.h"

void told_init(void);

/* The daemon is told that there is no such name. */
void told_none(const struct pin *dir, const char *name);
/* With s->lock held: the same, or that it must ask again. */
void told_hide(struct session *s, const struct node *dir, const char *name);

/* The daemon is told of node num, which is parent's child (NULL: a root): remembers what, and says
 * in attr->cache how far it may be believed. */
void told_attr(
	struct session *s, uint64_t num, const struct sys_statx *stx, struct proto_attr *attr);
/* The same for bytes that are read, where nothing was told before: fd is asked. */
void told_read(struct session *s, struct node *n, int fd);

/* Around what a daemon does to a file itself: begin finds out what others did before, end what is
 * so now. stx is its stat at that moment; NULL: not to be had. wrote: it changed bytes, so that an
 * event of that is to come. */
void told_own_begin(struct session *s, struct node *n, const struct sys_statx *stx);
void told_own_end(struct session *s, struct node *n, const struct sys_statx *stx, bool wrote);
/* The daemon has changed the names in a directory: its kernel knows that the attributes are old. */
void told_own_names(const struct pin *dir);
/* The daemon has moved what is dir/name now to a directory that is not watched, from one that is:
 * what its kernel keeps of it must be asked for again. */
void told_own_move(const struct pin *dir, const char *name);
/* The daemon has given a file another name: the first must be looked up again too. */
void told_own_link(const struct pin *of);
/* Whether a file just opened has the bytes that the daemon's kernel may still have. */
bool told_keeps(struct session *s, struct node *n, int fd);
/* Whether the open is to be tried again, by a new lookup: the file has another size than the
 * daemon's kernel believes, which maps a file by the size that it has. At most once in a row. */
bool told_size_is_old(struct session *s, struct node *n, int fd);

/* With s->lock held. compare: if the daemon was told something else than this, it will hear so.
 * written: bytes were written, as an event says. If not by the daemon, it hears so whatever it was
 * told: a writer's time is set before its bytes are there, and may have been told in between.
 * data_changed: it hears so in any case. */
void told_compare(struct session *s, struct node *n, const struct sys_statx *stx);
void told_written(struct session *s, struct node *n, const struct sys_statx *stx);
void told_data_changed(struct session *s, struct node *n);
/* With s->lock held: n's file (NULL: none) is not watched any more, so its attributes must be asked
 * for, by whatever number. */
void told_lost(struct session *s, struct node *n);
