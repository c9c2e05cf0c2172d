/* SPDX-License-Identifier: MIT */
/* A hash table of links that are embedded in what they find. Keys may repeat. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct link {
	struct link *next;
	uint64_t key;
};

struct table {
	struct link **slots;
	size_t n, n_slots;
	size_t popped; /* slots before it are empty while table_pop() drains */
};

#define link_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* -ENOMEM, else 0. */
int table_add(struct table *t, struct link *l, uint64_t key);
void table_del(struct table *t, struct link *l);

/* Gives memory back after many have gone. */
void table_trim(struct table *t);

/* The first link of that key, and the next one after l; NULL: none. */
struct link *table_find(const struct table *t, uint64_t key);
struct link *table_next(const struct link *l);

/* The link after l, of all; NULL begins and ends. */
struct link *table_each(const struct table *t, const struct link *l);

/* Takes any link out; NULL when the table is empty. For the end: nothing is added meanwhile. */
struct link *table_pop(struct table *t);
void table_fini(struct table *t);
