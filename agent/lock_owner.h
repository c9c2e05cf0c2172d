/* SPDX-License-Identifier: MIT */
/* Who has byte ranges of a file locked, and the descriptions that the kernel knows them by. The
 * loop's thread, but at a session's end. */
#pragma once

#include "agent/lock_ranges.h"
#include "agent/request.h"

#include <fcntl.h>

struct handle;

struct owner {
	struct link by_key, by_fh;
	struct session *s; /* not counted: the session has us */
	uint64_t owner, dev, ino;
	uint64_t fh;	    /* the handle that it locked through first */
	bool mixed;	    /* and through others too: then it is no description of the host's */
	bool known;	    /* in the tables */
	unsigned refs;	    /* the tables, waits */
	int read_fd;	    /* for read locks, or -1 */
	int write_fd;	    /* for all locks, or -1 */
	bool write_only;    /* but write_fd cannot be used for read locks */
	struct ranges read; /* what is locked through read_fd */
};

/* What a session has locked. */
struct locks {
	struct table owners;  /* by a hash of owner and file */
	struct table by_fh;   /* the same by handle */
	struct table flocked; /* handles that were used for flock, by number */
};

struct locks *locks_of(struct session *s); /* made if there are none yet; NULL: memory */

struct owner *owner_find(struct session *s, const struct handle *h, uint64_t owner);
struct owner *owner_new(struct session *s, const struct handle *h, uint64_t owner);
void owner_put(struct owner *o);
void owner_forget(struct owner *o); /* out of the tables; their count is the caller's then */
void owner_unlock(struct owner *o); /* all that it has locked */

/* The descriptor of o's that a lock of this type through h is taken on; opened if need be. */
int owner_fd(struct request *r, struct owner *o, const struct handle *h, uint32_t type);
/* l was locked through fd. -ENOLCK: no memory to remember it. */
int owner_note(struct owner *o, int fd, const struct proto_lock *l);
/* Locks again, and frees, what was given up for a lock that did not come about. Somebody else may
 * have been quicker, as when a process converts a lock of flock's. */
void owner_take_back(struct owner *o, struct ranges *given_up);

/* The same for fcntl; and set at once, or -EAGAIN. */
struct flock lock_range_of(uint32_t type, uint64_t start, uint64_t end);
int lock_set(int fd, uint32_t type, uint64_t start, uint64_t end);
/* Who is in the way of l from start on; PROTO_LOCK_NONE: nobody. */
int lock_test(int fd, const struct proto_lock *l, uint64_t start, struct proto_lock *found);
/* Whether the description has any lock; yes where it cannot be known. */
bool lock_held(int fd);
