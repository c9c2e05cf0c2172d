/* SPDX-License-Identifier: MIT */
/* Chained hashing; grows by doubling. The owner's lock guards it. */
#include "agent/table.h"

#include <errno.h>
#include <stdlib.h>

static size_t slot_of(uint64_t key, size_t n_slots)
{
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (n_slots - 1);
}

static int resize(struct table *t, size_t n_slots)
{
	struct link **slots, *l, *next;

	slots = calloc(n_slots, sizeof(struct link *));
	if (!slots)
		return t->n_slots ? 0 : -ENOMEM; /* a full table is slow, not wrong */
	for (size_t i = 0; i < t->n_slots; i++)
		for (l = t->slots[i]; l; l = next) {
			size_t to = slot_of(l->key, n_slots);

			next = l->next;
			l->next = slots[to];
			slots[to] = l;
		}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return 0;
}

int table_add(struct table *t, struct link *l, uint64_t key)
{
	size_t at;

	if (t->n >= t->n_slots && resize(t, t->n_slots ? t->n_slots * 2 : 16) < 0)
		return -ENOMEM;
	at = slot_of(key, t->n_slots);
	l->key = key;
	l->next = t->slots[at];
	t->slots[at] = l;
	t->n++;
	return 0;
}

void table_trim(struct table *t)
{
	if (t->n_slots > 1024 && t->n * 8 < t->n_slots)
		resize(t, t->n_slots / 4);
}

void table_del(struct table *t, struct link *l)
{
	struct link **at;

	if (!t->n_slots)
		return;
	for (at = &t->slots[slot_of(l->key, t->n_slots)]; *at; at = &(*at)->next)
		if (*at == l) {
			*at = l->next;
			l->next = NULL;
			t->n--;
			return;
		}
}

struct link *table_find(const struct table *t, uint64_t key)
{
	struct link *l;

	if (!t->n_slots)
		return NULL;
	for (l = t->slots[slot_of(key, t->n_slots)]; l && l->key != key; l = l->next)
		;
	return l;
}

struct link *table_next(const struct link *l)
{
	struct link *next;

	for (next = l->next; next && next->key != l->key; next = next->next)
		;
	return next;
}

struct link *table_each(const struct table *t, const struct link *l)
{
	size_t i = l ? slot_of(l->key, t->n_slots) + 1 : 0;

	if (l && l->next)
		return l->next;
	for (; i < t->n_slots; i++)
		if (t->slots[i])
			return t->slots[i];
	return NULL;
}

struct link *table_pop(struct table *t)
{
	for (; t->popped < t->n_slots; t->popped++) {
		struct link *l = t->slots[t->popped];

		if (l) {
			t->slots[t->popped] = l->next;
			t->n--;
			return l;
		}
	}
	return NULL;
}

void table_fini(struct table *t)
{
	free(t->slots);
	*t = (struct table){0};
}
