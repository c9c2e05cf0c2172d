/* SPDX-License-Identifier: MIT */
/*
 * A ring of the files that were told of last, in the session, under its lock. Files, not nodes: the
 * daemon may go on with another number. The kernel keeps attributes from when the caller takes the
 * answer, which may wait long for a processor: so they count for longer than the daemon has them
 * kept, and one that has not been taken is dropped by the kernel when it has been told of a change.
 * Any thread.
 */
#include "agent/brief.h"

#include "agent/clock.h"
#include "agent/told.h"

#include <stdlib.h>

#define RING	16384u
#define LAST_MS 250 /* the daemon has them kept for ten: fs/inode_reply.c */

struct brief {
	uint64_t dev, ino; /* 0: nobody */
	int64_t ms;
};

bool brief_may(struct session *s, const struct node *n)
{
	struct brief *e;
	int64_t now = clock_ms();

	if (!n->parent)
		return false; /* roots are not found by their inode */
	if (s->briefs_allowed && !s->briefs)
		s->briefs = calloc(RING, sizeof(*s->briefs));
	if (!s->briefs_allowed || !s->briefs)
		return false;
	e = &s->briefs[s->n_briefs % RING];
	if (e->ino && now - e->ms < LAST_MS)
		return false; /* so many at once */
	*e = (struct brief){.dev = n->dev, .ino = n->ino, .ms = now};
	s->n_briefs++;
	return true;
}

void brief_allow(struct session *s, bool allowed)
{
	pthread_mutex_lock(&s->lock);
	s->briefs_allowed = allowed;
	pthread_mutex_unlock(&s->lock);
}

void brief_fini(struct session *s)
{
	free(s->briefs);
	s->briefs = NULL;
}

void brief_end(struct session *s, void *arg)
{
	int64_t now = clock_ms();

	(void)arg;
	pthread_mutex_lock(&s->lock);
	for (; s->n_briefs; s->n_briefs--) {
		struct brief *e = &s->briefs[(s->n_briefs - 1) % RING];

		if (!e->ino || now - e->ms >= LAST_MS)
			break; /* those before it are older still */
		told_lost(s, node_by_ino(s, e->dev, e->ino, NULL));
		e->ino = 0;
	}
	pthread_mutex_unlock(&s->lock);
}
