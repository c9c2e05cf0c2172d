/* SPDX-License-Identifier: MIT */
/*
 * Attributes of what is not watched, which a daemon's kernel may keep for a moment: a list is
 * read, and each of its files looked at, with one message. Nothing is heard of their changes, so at
 * a barrier those that it may still have are told as changed.
 */
#pragma once

#include "agent/nodes.h"

/* With s->lock held. Whether the daemon may be told so of that node; then that is remembered. */
bool brief_may(struct session *s, const struct node *n);
/* The session goes; or learns whether its daemon knows what is meant. */
void brief_fini(struct session *s);
void brief_allow(struct session *s, bool allowed);

/* A barrier: for each session. */
void brief_end(struct session *s, void *arg);
