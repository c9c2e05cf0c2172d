/* SPDX-License-Identifier: MIT */
/*
 * All jobs together keep 512 MiB. Beyond that first the oldest ended numbered jobs go, then the
 * largest streams lose more of their middle, all down to one level. Loop's thread; the output
 * thread says when there is more.
 */
#include "agent/budget.h"

#include "agent/ledger.h"
#include "agent/roster.h"
#include "common/cleanup.h"

#include <string.h>

#define HIGH	 (480ull << 20) /* what comes while room is made is the rest of the 512 */
#define LOW	 (448ull << 20)
#define KEEP_MIN (128ull << 10) /* of a stream; a level is a multiple of it */

static struct post grown;

struct sum {
	uint64_t n;
	uint64_t last, last_stdin; /* of those that can be dropped the one that ended last */
};

/* What nobody can shrink does not count, or it would cost all others for ever: an input goes only
 * with its job. */
static void add_bytes(struct job *j, void *arg)
{
	struct sum *sum = arg;

	sum->n += job_bytes(j) - j->stdin_size;
	if (!roster_may_go(j))
		return;
	sum->n += j->stdin_size;
	if (j->ended < sum->last)
		return;
	sum->last = j->ended;
	sum->last_stdin = j->stdin_size;
}

static uint64_t total(void)
{
	struct sum sum = {0};

	roster_each(add_bytes, &sum);
	return sum.n - sum.last_stdin; /* which stays */
}

struct sizes {
	uint64_t *list;
	size_t n, cap;
	bool failed;
};

static void add_sizes(struct job *j, void *arg)
{
	struct sizes *s = arg;
	struct store_info info;

	if (s->n + PROTO_STREAMS > s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 1024;
		uint64_t *list = realloc(s->list, cap * sizeof(*list));

		if (!list) {
			s->failed = true;
			return;
		}
		s->list = list;
		s->cap = cap;
	}
	job_info(j, &info);
	for (int i = 0; i < PROTO_STREAMS; i++)
		s->list[s->n++] = info.size[i] - (info.hole_to[i] - info.hole_from[i]);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Such that all streams together have room when each keeps at most that. */
static uint64_t level(void)
{
	struct sizes s = {0};
	uint64_t left = LOW, keep = UINT64_MAX;

	roster_each(add_sizes, &s);
	if (s.n)
		qsort(s.list, s.n, sizeof(*s.list), by_size);
	for (size_t i = 0; i < s.n && !s.failed; i++) {
		if (s.list[i] * (s.n - i) > left) {
			keep = left / (s.n - i);
			break;
		}
		left -= s.list[i];
	}
	free(s.list);
	keep = keep / KEEP_MIN * KEEP_MIN;
	return keep < KEEP_MIN ? KEEP_MIN : keep;
}

static void limit(struct job *j, void *arg)
{
	const uint64_t keep = *(const uint64_t *)arg;
	cleanup_close int dir = -1;
	struct store_info info;
	bool large = false;

	job_info(j, &info);
	for (int i = 0; i < PROTO_STREAMS; i++)
		large |= info.size[i] - (info.hole_to[i] - info.hole_from[i]) > keep;
	if (!large)
		return;
	if (j->output && job_has_ended(j) && output_is_over(j->output)) {
		output_get(j->output, &j->saved);
		output_put(steal_ptr(&j->output), false);
	}
	if (j->output) {
		output_limit(j->output, keep);
		return;
	}
	dir = ledger_dir(roster_fd, j->num, false);
	if (dir < 0)
		return;
	store_shrink(dir, &j->saved, keep);
	ledger_save(roster_fd, j);
}

void budget_keep(void)
{
	uint64_t keep;

	if (total() <= HIGH)
		return;
	while (total() > LOW && roster_drop_oldest())
		;
	if (total() <= HIGH)
		return;
	keep = level();
	roster_each(limit, &keep);
}

static void on_growth(struct post *p)
{
	output_on_growth(p);
	budget_keep();
}

void budget_init(void)
{
	grown.fn = on_growth;
	output_on_growth(&grown);
}
