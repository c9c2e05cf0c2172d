/* SPDX-License-Identifier: MIT */
/*
 * The list of jobs. Loop's thread, no lock. Numbers are given once: the highest of each kind that
 * was ever given is in the jobs themselves, or, when that job goes, in the file `next`.
 */
#include "agent/roster.h"

#include "agent/budget.h"
#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/input.h"
#include "agent/ledger.h"
#include "agent/session.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define KEPT_ENDED 64
#define KEPT_MAX   256 /* with those whose tree still lives */
#define NAMED_MAX  1024

int roster_fd = -1;

static struct job *jobs;   /* newest first, */
static struct job *oldest; /* and the last of them */
static struct job *buried; /* freed when no event can name them any more */
static struct ledger_next next = {.numbered = 1, .named = PROTO_JOB_NAMED, .born = 1};
static uint64_t emptied; /* the newest foreground job that was opened and came to nothing */
static unsigned n_named;
static uint64_t n_ended;
static int64_t due_at; /* when something is to be done, ms; 0: nothing is */

struct job *roster_find(uint64_t num)
{
	struct job *j;

	for (j = jobs; j && j->num != num; j = j->next)
		;
	return j && !j->dropping ? j : NULL;
}

struct job *roster_by_name(const char *name)
{
	char own[PROTO_NAME_MAX + 1];
	bool last = strcmp(name, "last") == 0;

	for (struct job *j = jobs; j; j = j->next) {
		if (j->dropping)
			continue;
		job_name(j, own);
		if (last ? j->num != PROTO_JOB_MAIN : strcmp(own, name) == 0)
			return j;
	}
	return NULL;
}

int roster_may_name(const char *name)
{
	/* A number is a foreground job's, or will be. */
	if (!name[strspn(name, "0123456789")] || strcmp(name, "main") == 0 ||
		strcmp(name, "last") == 0)
		return -EEXIST;
	for (struct job *j = jobs; j; j = j->next)
		if (j->name && strcmp(j->name, name) == 0)
			return -EEXIST; /* also while it is going */
	return n_named >= NAMED_MAX ? -ENOSPC : 0;
}

/* NULL also after one that was opened and came to nothing: its opening has emptied the results. */
struct job *roster_newest_foreground(void)
{
	struct job *j;

	for (j = jobs; j && (!j->foreground || j->dropping); j = j->next)
		;
	return j && j->num > emptied ? j : NULL;
}

void roster_came_to_nothing(const struct job *j)
{
	if (j->num > emptied)
		emptied = j->num;
}

static bool is_unheard(const struct job *j)
{
	return j->result == PROTO_RESULT_NEW && j->life && j->life != session_life(j->session);
}

struct job *roster_unheard(void)
{
	struct job *j;

	for (j = jobs; j && (!j->slot || j->dropping || !is_unheard(j)); j = j->next)
		;
	return j;
}

int roster_free_slot(void)
{
	struct job *j, *after;

	for (j = jobs; j; j = after) {
		after = j->next;
		if (!j->slot || j->dropping)
			continue;
		if (j->result == PROTO_RESULT_RUNNING ||
			(session_life(j->session) && !is_unheard(j)))
			return -EBUSY;
		job_drop(j);
	}
	return 0;
}

static void add(struct job *j)
{
	j->prev = NULL;
	j->next = jobs;
	*(jobs ? &jobs->prev : &oldest) = j;
	jobs = j;
	if (j->name)
		n_named++;
}

static void job_free(struct job *j)
{
	settings_fini(&j->set);
	free(j->name);
	free(j);
}

struct job *roster_new(uint64_t num, const char *name, const struct settings *set)
{
	struct job *j = calloc(1, sizeof(*j));
	int ret = -ENOMEM;

	if (!j)
		return NULL;
	if (!num && !name && next.numbered >= PROTO_JOB_MAIN) { /* `next` may be anybody's */
		free(j);
		errno = ENOSPC;
		return NULL;
	}
	j->num = num ? num : name ? next.named : next.numbered;
	j->born = next.born;
	j->exit_code = -1;
	j->report.fd = -1;
	if (name)
		j->name = strdup(name);
	if (!name || j->name)
		ret = set ? settings_copy(&j->set, set) : 0;
	if (!ret)
		ret = ledger_make(roster_fd, j);
	if (ret < 0) {
		job_free(j);
		errno = -ret;
		return NULL;
	}
	next.born++;
	if (name)
		next.named++;
	else if (!num)
		next.numbered++;
	add(j);
	return j;
}

void roster_each(void (*fn)(struct job *j, void *arg), void *arg)
{
	struct job *j, *before;

	for (j = oldest; j; j = before) {
		before = j->prev;
		if (!j->dropping)
			fn(j, arg);
	}
}

void roster_bury(struct job *j)
{
	*(j->prev ? &j->prev->next : &jobs) = j->next;
	*(j->next ? &j->next->prev : &oldest) = j->prev;
	if (j->name)
		n_named--;
	waiter_answer(&j->starters, j, ESRCH);
	waiter_answer(&j->waiters, j, ENOENT);
	/* The highest number goes: nobody else would know that it was given. */
	if (j->num + 1 == next.named || j->num + 1 == next.numbered)
		ledger_save_next(roster_fd, &next);
	if (j->droppers)
		ledger_remove(roster_fd, j->num);
	else
		ledger_remove_behind(roster_fd, j->num);
	job_close_report(j); /* somebody may still have its other end open */
	waiter_answer(&j->droppers, j, 0);
	input_free(steal_ptr(&j->input));
	if (j->output)
		output_put(j->output, true);
	j->next = buried;
	buried = j;
}

/* One whose time is over when there are too many. */
static bool may_go(const struct job *j)
{
	return job_has_ended(j) && !j->dropping && !j->name && j->num != PROTO_JOB_MAIN;
}

bool roster_may_go(const struct job *j)
{
	return may_go(j) && !job_lives(j);
}

/* How many have ended after it; no further than matters. */
static unsigned ended_after(const struct job *j)
{
	unsigned n = 0;

	for (const struct job *other = jobs; other && n < KEPT_MAX; other = other->next)
		n += other->ended > j->ended && may_go(other);
	return n;
}

void roster_prune(void)
{
	struct job *j, *after;
	unsigned n = 0;

	for (j = jobs; j; j = j->next)
		n += may_go(j);
	for (j = n > KEPT_ENDED ? jobs : NULL; j; j = after) {
		after = j->next;
		if (!may_go(j))
			continue;
		n = ended_after(j);
		if (n >= KEPT_MAX || (n >= KEPT_ENDED && !job_lives(j)))
			job_drop(j);
	}
}

void roster_ended(struct job *j)
{
	j->ended = ++n_ended;
}

bool roster_drop_oldest(void)
{
	struct job *first = NULL;
	unsigned n = 0; /* the last one stays */

	for (struct job *j = jobs; j; j = j->next) {
		if (!roster_may_go(j))
			continue;
		n++;
		if (!first || j->ended < first->ended)
			first = j;
	}
	if (n > 1)
		job_drop(first);
	return n > 1;
}

void roster_unpark(struct conn *c, uint64_t id)
{
	for (struct job *j = jobs; j; j = j->next) {
		waiter_cancel(&j->waiters, c, id);
		if (j->input)
			input_cancel(j->input, c, id);
		if (id)
			continue;
		waiter_cancel(&j->starters, c, 0);
		waiter_cancel(&j->droppers, c, 0);
	}
}

void roster_reaped(pid_t pid, int status, const struct rusage *ru)
{
	struct job *j, *after;

	for (j = jobs; j; j = after) {
		after = j->next;
		if (job_reaped(j, pid, status, ru))
			break;
	}
}

void roster_have_reaped(void)
{
	struct job *j;

	/* When all of an orphaned session has gone, its number may become somebody else's. Not
	 * while there is what may be its: that would seem to be another's then. */
	for (j = jobs; j; j = j->next)
		if (j->orphaned && job_has_ended(j) && !job_may_live(j))
			j->orphaned = false;
}

bool roster_is_ending(void)
{
	struct job *j;

	for (j = jobs; j && !j->ending; j = j->next)
		;
	return j;
}

bool roster_supervises(pid_t pid)
{
	struct job *j;

	for (j = jobs; j && j->supervisor != pid; j = j->next)
		;
	return j;
}

/* Has its supervisor been killed, whether we have reaped it or not? Its children are ours. */
static bool is_orphaned(const struct job *j)
{
	siginfo_t si = {0};

	if (j->orphaned || !j->supervisor)
		return j->orphaned;
	return waitid(P_PID, (id_t)j->supervisor, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid && (si.si_code != CLD_EXITED || si.si_status);
}

/* All that is left of where it came from is that it cannot be older than its job. */
bool roster_is_stray(const void *job, pid_t pid, pid_t sid, uint64_t start)
{
	if (!roster_may_be_stray(job, pid, sid, start))
		return false;
	for (const struct job *j = jobs; j; j = j->next)
		if (j != job && start >= j->began && is_orphaned(j))
			return false;
	return true;
}

bool roster_may_be_stray(const void *job, pid_t pid, pid_t sid, uint64_t start)
{
	bool own = false;

	for (const struct job *j = jobs; j; j = j->next) {
		if (pid == j->supervisor)
			return false;
		if (start < j->began || !is_orphaned(j))
			continue;
		if (j == job)
			own = true;
		else if (sid == j->pid)
			return false;
	}
	return own;
}

bool roster_signal_all(int sig)
{
	bool alive = false;
	int unused;

	for (struct job *j = jobs; j; j = j->next) {
		j->stopped |= j->result == PROTO_RESULT_RUNNING;
		if (job_signal(j, sig, &unused) > 0)
			alive = true;
	}
	return alive;
}

void roster_due(int64_t at)
{
	if (at && (!due_at || at < due_at))
		due_at = at;
}

int roster_tick(void)
{
	struct job *j, *after;
	int64_t now;

	while ((j = buried)) {
		buried = j->next;
		job_free(j);
	}
	if (!due_at)
		return -1;
	now = clock_ms();
	if (now >= due_at) {
		due_at = 0;
		creds_own(); /* and not in every round: file requests would pay for it */
		for (j = jobs; j; j = after) {
			after = j->next;
			roster_due(job_due(j, now));
		}
	}
	if (!due_at)
		return -1;
	if (due_at <= now)
		return 0;
	return due_at - now < INT32_MAX ? (int)(due_at - now) : INT32_MAX;
}

static void take_loaded(struct job *j)
{
	/* The template's own command runs anew; the rest is nothing that we have written. */
	if (j->num == PROTO_JOB_MAIN || (j->name && roster_may_name(j->name) < 0)) {
		ledger_remove(roster_fd, j->num);
		job_free(j);
		return;
	}
	if (job_has_ended(j))
		roster_ended(j); /* in which order they did is not known any more */
	add(j);
}

int roster_load(int fd)
{
	int ret;

	roster_fd = fd;
	ret = ledger_load(roster_fd, take_loaded, &next);
	roster_prune();
	budget_keep();
	return ret;
}
