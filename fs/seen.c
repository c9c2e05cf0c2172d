/* SPDX-License-Identifier: MIT */
#include "fs/seen.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define NUMBERED_MAX 64	  /* foreground jobs that are remembered: as many as the agent keeps */
#define NAMED_MAX    2048 /* and others */
#define ERRANDS_MAX  2048

struct entry {
	uint64_t job;
	struct proto_job j; /* command is NULL while only its name is known */
	UT_hash_handle hh;
};

struct seen {
	pthread_mutex_t lock;
	/* Protected by lock. */
	struct entry *numbered, *named; /* in the order in which they were made */
	char last[PROTO_NAME_MAX + 1];
	bool none; /* no foreground job, when last asked */
	uint8_t *setting[PROTO_SETS];
	size_t setting_len[PROTO_SETS];
	uint64_t input;
	struct seen_errand *errands;
	size_t n_errands;
};

struct seen *seen_new(void)
{
	struct seen *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

static struct entry **kind_of(struct seen *s, uint64_t job)
{
	return job < PROTO_JOB_MAIN ? &s->numbered : &s->named;
}

/* kind is the table that it is in. */
static void drop(struct entry **kind, struct entry *e)
{
	HASH_DEL(*kind, e);
	proto_job_fini(&e->j);
	free(e);
}

static void drop_all(struct entry **kind)
{
	struct entry *e, *tmp;

	HASH_ITER (hh, *kind, e, tmp)
		drop(kind, e);
}

void seen_free(struct seen *s)
{
	if (!s)
		return;
	drop_all(&s->numbered);
	drop_all(&s->named);
	for (unsigned k = 0; k < PROTO_SETS; k++)
		free(s->setting[k]);
	free(s->errands);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct entry *find(struct seen *s, uint64_t job)
{
	struct entry *e;

	HASH_FIND(hh, *kind_of(s, job), &job, sizeof(job), e);
	return e;
}

/* With the lock held. NULL: no memory, or too many. */
static struct entry *enter(struct seen *s, uint64_t job)
{
	struct entry **kind = kind_of(s, job), *e = find(s, job);

	if (e)
		return e;
	if (kind == &s->numbered && HASH_COUNT(s->numbered) >= NUMBERED_MAX)
		drop(&s->numbered, s->numbered); /* the oldest */
	if (kind == &s->named && HASH_COUNT(s->named) >= NAMED_MAX)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->job = job;
	HASH_ADD(hh, *kind, job, sizeof(e->job), e);
	return e;
}

static bool copy(struct proto_job *to, const struct proto_job *from)
{
	*to = *from;
	to->name = strdup(from->name);
	to->command = from->command ? strdup(from->command) : NULL;
	to->words = from->words ? strdup(from->words) : NULL;
	if (to->name && to->command && to->words)
		return true;
	proto_job_fini(to);
	return false;
}

void seen_job(struct seen *s, const struct proto_job *j)
{
	struct proto_job mine;
	struct entry *e;

	if (!copy(&mine, j))
		return;
	pthread_mutex_lock(&s->lock);
	e = enter(s, j->job);
	s->none &= j->job >= PROTO_JOB_MAIN;
	if (e) {
		proto_job_fini(&e->j);
		e->j = mine;
	}
	pthread_mutex_unlock(&s->lock);
	if (!e)
		proto_job_fini(&mine);
}

bool seen_recall(struct seen *s, uint64_t job, struct proto_job *j)
{
	struct entry *e, *tmp, *found = NULL;
	bool ok;

	pthread_mutex_lock(&s->lock);
	if (job)
		found = find(s, job);
	else
		HASH_ITER (hh, s->numbered, e, tmp)
			if (!found || e->job > found->job)
				found = e;
	ok = found && found->j.command && copy(j, &found->j);
	pthread_mutex_unlock(&s->lock);
	return ok;
}

void seen_none(struct seen *s)
{
	pthread_mutex_lock(&s->lock);
	s->none = true;
	pthread_mutex_unlock(&s->lock);
}

bool seen_was_none(struct seen *s)
{
	bool none;

	pthread_mutex_lock(&s->lock);
	none = s->none;
	pthread_mutex_unlock(&s->lock);
	return none;
}

void seen_forget(struct seen *s, uint64_t job)
{
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = find(s, job);
	if (e) {
		if (strcmp(s->last, e->j.name) == 0)
			*s->last = 0;
		drop(kind_of(s, e->job), e);
	}
	pthread_mutex_unlock(&s->lock);
}

/* With the lock held: its name, if it has none yet. */
static void put_name(struct seen *s, const struct seen_name *n)
{
	struct entry *e = enter(s, n->job);

	if (!e || e->j.name)
		return;
	e->j.job = n->job;
	e->j.name = strdup(n->name);
	if (!e->j.name)
		drop(kind_of(s, e->job), e);
}

static bool is_in(uint64_t job, const struct seen_name *names, size_t n)
{
	for (size_t k = 0; k < n; k++)
		if (names[k].job == job)
			return true;
	return false;
}

void seen_listed(struct seen *s, const struct seen_name *names, size_t n)
{
	struct entry **kinds[] = {&s->numbered, &s->named}, *e, *tmp;

	pthread_mutex_lock(&s->lock);
	for (unsigned k = 0; k < 2; k++)
		HASH_ITER (hh, *kinds[k], e, tmp)
			if (!is_in(e->job, names, n))
				drop(kinds[k], e);
	*s->last = 0;
	for (size_t k = 0; k < n; k++) {
		put_name(s, &names[k]);
		if (names[k].job != PROTO_JOB_MAIN)
			memcpy(s->last, names[k].name, sizeof(s->last));
	}
	pthread_mutex_unlock(&s->lock);
}

struct seen_name *seen_names(struct seen *s, size_t *n)
{
	struct entry *kinds[2], *e, *tmp;
	struct seen_name *names;
	size_t k = 0;

	pthread_mutex_lock(&s->lock);
	names = calloc(HASH_COUNT(s->numbered) + HASH_COUNT(s->named) + 1, sizeof(*names));
	kinds[0] = s->numbered;
	kinds[1] = s->named;
	for (unsigned kind = 0; names && kind < 2; kind++)
		HASH_ITER (hh, kinds[kind], e, tmp) {
			names[k].job = e->job;
			snprintf(names[k].name, sizeof(names[k].name), "%s", e->j.name);
			k++;
		}
	pthread_mutex_unlock(&s->lock);
	*n = k;
	return names;
}

uint64_t seen_find(struct seen *s, const char *name)
{
	size_t n;
	struct seen_name *names = seen_names(s, &n);
	uint64_t job = 0;

	for (size_t k = 0; k < n && !job; k++)
		if (strcmp(names[k].name, name) == 0)
			job = names[k].job;
	free(names);
	return job;
}

void seen_name(struct seen *s, uint64_t job, char *name, size_t size)
{
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = find(s, job);
	if (e)
		snprintf(name, size, "%s", e->j.name);
	else
		snprintf(name, size, "%" PRIu64, job);
	pthread_mutex_unlock(&s->lock);
}

void seen_last(struct seen *s, const char *name)
{
	pthread_mutex_lock(&s->lock);
	snprintf(s->last, sizeof(s->last), "%s", name);
	pthread_mutex_unlock(&s->lock);
}

void seen_get_last(struct seen *s, char *name, size_t size)
{
	pthread_mutex_lock(&s->lock);
	snprintf(name, size, "%s", s->last);
	pthread_mutex_unlock(&s->lock);
}

void seen_setting(struct seen *s, unsigned set, const void *value, size_t n)
{
	uint8_t *mine = malloc(n ? n : 1);

	if (!mine)
		return;
	if (n)
		memcpy(mine, value, n);
	pthread_mutex_lock(&s->lock);
	free(s->setting[set]);
	s->setting[set] = mine;
	s->setting_len[set] = n;
	pthread_mutex_unlock(&s->lock);
}

void seen_recall_setting(struct seen *s, unsigned set, struct buf *b)
{
	pthread_mutex_lock(&s->lock);
	if (s->setting[set])
		buf_append(b, s->setting[set], s->setting_len[set]);
	pthread_mutex_unlock(&s->lock);
}

void seen_input(struct seen *s, uint64_t size)
{
	pthread_mutex_lock(&s->lock);
	s->input = size;
	pthread_mutex_unlock(&s->lock);
}

uint64_t seen_get_input(struct seen *s)
{
	uint64_t size;

	pthread_mutex_lock(&s->lock);
	size = s->input;
	pthread_mutex_unlock(&s->lock);
	return size;
}

void seen_later(struct seen *s, const struct seen_errand *e)
{
	struct seen_errand *more;

	pthread_mutex_lock(&s->lock);
	if (s->n_errands < ERRANDS_MAX) {
		more = realloc(s->errands, (s->n_errands + 1) * sizeof(*more));
		if (more) {
			s->errands = more;
			s->errands[s->n_errands++] = *e;
		}
	}
	pthread_mutex_unlock(&s->lock);
}

bool seen_take_errand(struct seen *s, struct seen_errand *e)
{
	bool any;

	pthread_mutex_lock(&s->lock);
	any = s->n_errands > 0;
	if (any) {
		*e = s->errands[0];
		s->n_errands--;
		memmove(s->errands, s->errands + 1, s->n_errands * sizeof(*e));
	}
	pthread_mutex_unlock(&s->lock);
	return any;
}
