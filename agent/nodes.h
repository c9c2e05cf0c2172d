/* SPDX-License-Identifier: MIT */
/* Files that the daemon knows by number: (parent, name, device, inode), opened when needed. */
#pragma once

#include "agent/session.h"
#include "agent/sys.h"

struct handle;

struct node {
	struct link by_num, by_name, by_ino;
	struct node *parent; /* counted; NULL for the two roots */
	char *name;
	uint64_t num, dev, ino;
	struct sys_time born;	    /* an inode's number may be another file's later */
	uint32_t type;		    /* S_IFMT bits */
	int fd;			    /* O_PATH, or -1 */
	unsigned busy;		    /* users of fd: it is not closed meanwhile */
	unsigned refs;		    /* the table, children, pins, handles */
	bool known;		    /* in the tables */
	struct node *newer, *older; /* when fd is open and this is no root */
	struct handle *handles;	    /* open ones of this node */

	/* watch.c's: what the daemon was told last, as hashes of a stat; 0: nothing that holds. */
	uint64_t told, told_data; /* all attributes; what the bytes go with */
	uint64_t told_size;	  /* even if that no longer holds */
	uint64_t rights;	  /* a directory's owner, group and mode, the same; 0: none */
	uint64_t own_data;	  /* told_data, if the daemon itself was the last to write */
	uint64_t echo;		  /* what an event of the daemon's own last write finds */
	int64_t foreign_ms;	  /* when others last closed it after writing; 0: never seen */
	unsigned writing;	  /* operations of the daemon's own on it, under way */
	int wd;			  /* the watch; 0: none */
	struct node *watched_before, *watched_after; /* regular files with one, by age */
	bool closed;				     /* in s->closed */
	bool reopened;				     /* the last open was to be tried again */
	bool hidden; /* the daemon was told since that the name is another's, or nobody's */
};

/* A node in use: counted, and its descriptor open where asked. */
struct pin {
	struct session *s;
	struct node *node;
	int fd; /* -1: not opened */
};

#define PIN_NONE   ((struct pin){.fd = -1})
#define auto_unpin __attribute__((cleanup(unpin)))

#define NODE_ROOTS 2 /* nodes that a session always has */

int nodes_init(struct session *s, int root_fd, const char *workspace);
void nodes_fini(struct session *s);

/* With s->lock held; those with prev go on after it, NULL begins and ends. by_ino also finds nodes
 * that the daemon has forgotten and that are still open. */
struct node *node_by_num(struct session *s, uint64_t num);
struct node *node_by_ino(struct session *s, uint64_t dev, uint64_t ino, struct node *prev);
struct node *node_by_name(
	struct session *s, const struct node *dir, const char *name, struct node *prev);
struct node *node_next(struct session *s, struct node *prev); /* of all that are known */
void nodes_untell(struct session *s); /* nothing that was told holds any more */

/* -ESTALE: no such node, or another file is in its place. */
int pin_node(struct session *s, uint64_t num, struct pin *pin); /* without fd */
int pin_open(struct session *s, uint64_t num, struct pin *pin); /* with fd */
int pin_parent(const struct pin *of, struct pin *pin);		/* its parent, with fd */
void unpin(struct pin *pin);
bool pin_has_fd(const struct pin *pin); /* the node has a descriptor at hand, or is a root */

/* Remembers a new one. -EEXIST: the number is in use. */
int node_add(struct session *s, uint64_t num, const struct pin *parent, const char *name,
	const struct sys_statx *stx);
/* fd (O_PATH) is that node's file: it is kept, or closed. */
void node_keep(struct session *s, uint64_t num, int fd);
bool node_taken(struct session *s, uint64_t num);
void node_forget(struct session *s, uint64_t num);
/* n numbers in a row, known or not. */
void nodes_forget(struct session *s, uint64_t first, uint32_t n);
void node_release(struct session *s, struct node *n); /* drops a count; lock held */

/* parent/name is now to/toname; both change places when swap. */
void node_moved(struct session *s, struct node *parent, const char *name, struct node *to,
	const char *toname, bool swap);
