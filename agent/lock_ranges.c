/* SPDX-License-Identifier: MIT */
/* A sorted array: there are few. Not thread-safe. */
#include "agent/lock_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct ranges *r, size_t n)
{
	struct range *at;

	if (n <= r->room)
		return 0;
	n += 4;
	at = realloc(r->at, n * sizeof(*at));
	if (!at)
		return -ENOMEM;
	r->at = at;
	r->room = n;
	return 0;
}

/* Puts one at place i; there is room. */
static void insert(struct ranges *r, size_t i, uint64_t start, uint64_t end)
{
	memmove(&r->at[i + 1], &r->at[i], (r->n - i) * sizeof(*r->at));
	r->at[i] = (struct range){.start = start, .end = end};
	r->n++;
}

static void take_out(struct ranges *r, size_t i)
{
	r->n--;
	memmove(&r->at[i], &r->at[i + 1], (r->n - i) * sizeof(*r->at));
}

int ranges_add(struct ranges *r, uint64_t start, uint64_t end)
{
	size_t i = 0;

	if (reserve(r, r->n + 1) < 0)
		return -ENOMEM;
	while (i < r->n && r->at[i].end < start && start - r->at[i].end > 1)
		i++;
	/* Those that touch it become part of it. */
	while (i < r->n && (r->at[i].start <= end || r->at[i].start - end == 1)) {
		start = r->at[i].start < start ? r->at[i].start : start;
		end = r->at[i].end > end ? r->at[i].end : end;
		take_out(r, i);
	}
	insert(r, i, start, end);
	return 0;
}

int ranges_cut(struct ranges *r, uint64_t start, uint64_t end, struct ranges *out)
{
	if (reserve(r, r->n + 1) < 0 || (out && reserve(out, r->n) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < r->n;) {
		struct range was = r->at[i];

		if (was.end < start || was.start > end) {
			i++;
			continue;
		}
		take_out(r, i);
		if (out)
			insert(out, out->n, was.start > start ? was.start : start,
				was.end < end ? was.end : end);
		if (was.start < start)
			insert(r, i++, was.start, start - 1);
		if (was.end > end)
			insert(r, i++, end + 1, was.end);
	}
	return 0;
}

bool ranges_has(const struct ranges *r, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->at[i].start <= start && end <= r->at[i].end)
			return true;
	return false;
}

void ranges_fini(struct ranges *r)
{
	free(r->at);
	*r = (struct ranges){0};
}
