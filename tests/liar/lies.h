/* SPDX-License-Identifier: MIT */
/* The lies of tests/liar, by the mode in $LIE. */
#pragma once

#include "common/proto.h"

#include <stdbool.h>

/* Is this the mode? */
bool lie_is(const char *mode);

/* Each changes what is about to be told, if the mode says so. */
void lie_attr(struct proto_attr *a, bool set);
void lie_dirent(struct proto_dirent *d);
void lie_job(struct proto_job *j);

/* Writes READLINK's body. */
void lie_readlink(struct buf *b, const char *truth);

/* Write LISTXATTR's and GETXATTR's. */
void lie_names(struct buf *b, const char *truth, size_t n);
void lie_value(struct buf *b, const char *truth);

/* Writes JOB_GET's, PS's and STATS's. */
void lie_text(struct buf *b, const char *truth);

/* Writes CHANGES's body; false: it is not to be answered, which is the truth: nothing changes. */
bool lie_changes(struct buf *b);

/* Sends the reply to h, as the mode has it; false: the connection is to be closed. */
bool lie_send(const struct proto_head *h, int error, const struct buf *body);

/* moves.c: whether the mode is one about moves; is this a directory, then? */
bool moves_on(void);
bool moves_is_dir(const char *name);
/* Writes READLINK's body in such a mode; changes the attributes of a name. */
void moves_text(struct buf *b);
void moves_attr(struct proto_attr *a, const char *name);
/* Not to be answered now. */
bool moves_hold(const struct proto_head *h);
/* Answers what was held, if now is the moment: before and after h is answered. */
void moves_before(const struct proto_head *h);
void moves_after(const struct proto_head *h, const char *name);
