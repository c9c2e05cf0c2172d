/* SPDX-License-Identifier: MIT */
/*
 * The list of sessions. Connections come and go on the loop's thread; requests under way on
 * workers hold counts. `lock` guards the list and the counts, each session's own lock its tables.
 */
#include "agent/session.h"

#include "agent/brief.h"
#include "agent/clock.h"
#include "agent/handles.h"
#include "agent/locks.h"
#include "agent/nodes.h"

#include <stdlib.h>
#include <string.h>

#define DETACHED_MAX 8
#define SESSIONS_MAX 80 /* with a connection each, and those */
#define DETACHED_MS  (10 * 60 * 1000)
#define LOCKS_MS     (10 * 1000) /* a daemon that was killed must not keep a database locked */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *all; /* protected by lock */
static int root_fd;	    /* constant after sessions_init(), as the next two */
static const char *workspace;
static unsigned max_fds;

void sessions_init(int root, const char *path, unsigned max)
{
	root_fd = root;
	workspace = path;
	max_fds = max;
}

static void session_free(struct session *s)
{
	locks_fini(s);
	handles_fini(s);
	nodes_fini(s);
	changes_fini(&s->changes);
	brief_fini(s);
	free(s->closed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static struct session *find(const uint8_t *name)
{
	struct session *s;

	for (s = all; s && memcmp(s->name, name, PROTO_SESSION) != 0; s = s->next)
		;
	return s;
}

struct session *session_attach(const uint8_t *name, bool *resumed)
{
	struct session *s;

	pthread_mutex_lock(&lock);
	s = find(name);
	*resumed = s != NULL;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			goto out;
		memcpy(s->name, name, PROTO_SESSION);
		pthread_mutex_init(&s->lock, NULL);
		changes_init(&s->changes);
		s->max_fds = max_fds;
		s->refs = 1;
		if (nodes_init(s, root_fd, workspace) < 0) {
			session_free(s);
			s = NULL;
			goto out;
		}
		s->next = all;
		all = s;
	}
	s->conns++;
	s->life++;
	s->refs++;
out:
	pthread_mutex_unlock(&lock);
	return s;
}

void session_use(struct session *s, const struct conn *c)
{
	pthread_mutex_lock(&s->lock);
	s->newest_conn = c;
	pthread_mutex_unlock(&s->lock);
}

bool session_is_left(struct session *s, const struct conn *c)
{
	bool left;

	pthread_mutex_lock(&s->lock);
	left = s->newest_conn != c;
	pthread_mutex_unlock(&s->lock);
	return left;
}

void session_get(struct session *s)
{
	pthread_mutex_lock(&lock);
	s->refs++;
	pthread_mutex_unlock(&lock);
}

bool session_try_get(struct session *s)
{
	bool alive;

	pthread_mutex_lock(&lock);
	alive = s->refs > 0;
	s->refs += alive;
	pthread_mutex_unlock(&lock);
	return alive;
}

void sessions_each(void (*fn)(struct session *s, void *arg), void *arg)
{
	struct session *list[SESSIONS_MAX], *s;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (s = all; s && n < SESSIONS_MAX; s = s->next) {
		s->refs++;
		list[n++] = s;
	}
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < n; i++) {
		fn(list[i], arg);
		session_put(list[i]);
	}
}

void session_put(struct session *s)
{
	bool last;

	if (!s)
		return;
	pthread_mutex_lock(&lock);
	last = --s->refs == 0;
	pthread_mutex_unlock(&lock);
	if (last)
		session_free(s);
}

/* Takes out of the list, and returns, one that is over its time or over the number. */
static struct session *take_old(void)
{
	struct session **at, **oldest = NULL, *s;
	unsigned detached = 0;

	pthread_mutex_lock(&lock);
	for (at = &all; *at; at = &(*at)->next) {
		if ((*at)->conns)
			continue;
		detached++;
		if (!oldest || (*at)->detached_ms <= (*oldest)->detached_ms)
			oldest = at;
	}
	s = oldest ? *oldest : NULL;
	if (s && detached <= DETACHED_MAX && clock_ms() - s->detached_ms < DETACHED_MS)
		s = NULL;
	if (s)
		*oldest = s->next;
	pthread_mutex_unlock(&lock);
	return s;
}

/* One, counted, whose locks are over their time. */
static struct session *take_locked(void)
{
	struct session *s;

	pthread_mutex_lock(&lock);
	for (s = all; s; s = s->next)
		if (!s->conns && s->locks && clock_ms() - s->detached_ms >= LOCKS_MS)
			break;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&lock);
	return s;
}

void session_detach(struct session *s)
{
	pthread_mutex_lock(&lock);
	if (--s->conns == 0)
		s->detached_ms = clock_ms();
	pthread_mutex_unlock(&lock);
	session_put(s);
	sessions_expire();
}

unsigned session_life(const uint8_t *name)
{
	struct session *s;
	unsigned life;

	pthread_mutex_lock(&lock);
	s = find(name);
	life = s && s->conns ? s->life : 0;
	pthread_mutex_unlock(&lock);
	return life;
}

int sessions_expire(void)
{
	struct session *s;
	int64_t due = -1, left;

	while ((s = take_old()))
		session_put(s);
	while ((s = take_locked())) {
		locks_lose(s);
		session_put(s);
	}
	pthread_mutex_lock(&lock);
	for (s = all; s; s = s->next) {
		if (s->conns)
			continue;
		left = s->detached_ms + (s->locks ? LOCKS_MS : DETACHED_MS) - clock_ms();
		if (left < 1)
			left = 1;
		if (due < 0 || left < due)
			due = left;
	}
	pthread_mutex_unlock(&lock);
	return (int)due;
}
