/* SPDX-License-Identifier: MIT */
/* A few notes, the oldest overwritten; v->lock guards them. */
#include "fs/vacant.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTES	 64
#define NAME_MAX 64 /* longer than any control file's */
#define FOR_S	 10 /* a process number may be another's later */

struct vacant {
	pthread_mutex_t lock;
	struct note {
		struct scratch_place at;
		char name[NAME_MAX];
		int pid; /* 0: none */
		time_t until;
	} notes[NOTES]; /* protected by lock, as the next */
	unsigned next;
};

struct vacant *vacant_new(void)
{
	struct vacant *v = calloc(1, sizeof(*v));

	if (v)
		pthread_mutex_init(&v->lock, NULL);
	return v;
}

void vacant_free(struct vacant *v)
{
	if (v)
		pthread_mutex_destroy(&v->lock);
	free(v);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void vacant_note(struct vacant *v, const struct scratch_place *at, const char *name, int pid)
{
	struct note *n;

	if (strlen(name) >= NAME_MAX || pid <= 0)
		return;
	pthread_mutex_lock(&v->lock);
	n = &v->notes[v->next++ % NOTES];
	n->at = *at;
	n->pid = pid;
	n->until = now() + FOR_S;
	snprintf(n->name, sizeof(n->name), "%s", name);
	pthread_mutex_unlock(&v->lock);
}

static bool find(
	struct vacant *v, const struct scratch_place *at, const char *name, int pid, bool take)
{
	bool found = false;

	if (pid <= 0)
		return false;
	pthread_mutex_lock(&v->lock);
	for (unsigned k = 0; k < NOTES && !found; k++) {
		struct note *n = &v->notes[k];

		found = n->pid == pid && n->at.owner == at->owner && n->at.job == at->job &&
			n->at.kind == at->kind && strcmp(n->name, name) == 0 && n->until >= now();
		if (found && take)
			n->pid = 0;
	}
	pthread_mutex_unlock(&v->lock);
	return found;
}

bool vacant_is(struct vacant *v, const struct scratch_place *at, const char *name, int pid)
{
	return find(v, at, name, pid, false);
}

bool vacant_take(struct vacant *v, const struct scratch_place *at, const char *name, int pid)
{
	return find(v, at, name, pid, true);
}
