/* SPDX-License-Identifier: MIT */
/* Locks: byte ranges by owner, and flocks by handle. The loop's thread. */
#pragma once

#include "agent/request.h"

int locks_init(void); /* before any other thread is there */

int locks_lock(struct request *r);
int locks_test(struct request *r);
int locks_drop(struct request *r);
int locks_flock(struct request *r);

void locks_cancel(const struct conn *c, uint64_t id); /* CANCEL: ends a wait with EINTR */
void locks_gone(const struct conn *c);		      /* ends all waits of a connection */
void locks_closed(struct session *s, uint64_t fh);    /* before the handle is closed */

/* A session that is without a connection for too long: its locks end, and so do the handles that
 * they were taken through, since whoever comes back must not go on as if it still had them. */
void locks_lose(struct session *s);
void locks_fini(struct session *s); /* any thread: nobody else knows s */

/* Work that is due; ms until the next, or -1. */
int locks_tick(void);
