/* SPDX-License-Identifier: MIT */
/* One inotify instance for all sessions; `lock` guards the table of its watches. */
#include "agent/watches.h"

#include "agent/cgroup.h"
#include "agent/clock.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>

#define MACHINE_FILE   "/proc/sys/fs/inotify/max_user_watches"
#define NAMESPACE_FILE "/proc/sys/user/max_inotify_watches"
#define WATCHES_MAX    65536u
#define MEMORY	       (32u << 10) /* of the sandbox's, for each: one keeps some 2 KiB of it */
#define AGAIN_MS       10000	   /* after the machine had none left */

struct watched {
	struct link by_wd;
	struct watcher *list;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table watches; /* by wd; protected by lock, as the next */
static unsigned n_watches;
static int64_t refused_ms;   /* when the kernel had none left; 0: never */
static unsigned max_watches; /* constant after watches_init(), as the next */
static int inotify_fd = -1;

static uint64_t read_number(const char *file, uint64_t otherwise)
{
	cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return otherwise;
	text[n] = 0;
	return strtoull(text, NULL, 10);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The sandbox's own programs may want some too: all containers of the machine have one limit, those
 * of a user namespace another. */
static unsigned limit(void)
{
	uint64_t most = least(
		read_number(MACHINE_FILE, 8192) / 4, read_number(NAMESPACE_FILE, UINT64_MAX) / 2);

	return (unsigned)least(least(most, cgroup_memory_max() / MEMORY), WATCHES_MAX);
}

int watches_init(void)
{
	max_watches = limit();
	inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return inotify_fd < 0 ? -errno : inotify_fd;
}

void watches_fini(void)
{
	close(inotify_fd);
	inotify_fd = -1;
}

bool watches_are_out(void)
{
	bool out;

	pthread_mutex_lock(&lock);
	out = n_watches >= max_watches || (refused_ms && clock_ms() - refused_ms < AGAIN_MS);
	pthread_mutex_unlock(&lock);
	return out;
}

static struct watched *find(int wd)
{
	struct link *l = table_find(&watches, (uint64_t)wd);

	return l ? link_of(l, struct watched, by_wd) : NULL;
}

/* Lock held. */
static void remove_watched(struct watched *w)
{
	table_del(&watches, &w->by_wd);
	n_watches--;
	free(w);
}

/* Adds the watcher to what inotify calls wd; lock held. False: no memory. */
static bool enter(int wd, struct watcher *r)
{
	struct watched *w = find(wd);

	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w || table_add(&watches, &w->by_wd, (uint64_t)wd) < 0) {
			free(w);
			return false;
		}
		n_watches++;
	}
	r->next = w->list;
	w->list = r;
	return true;
}

/* The place that points to that node's watcher; NULL: it has none. Lock held. */
static struct watcher **place_of(struct watched *w, const struct session *s, uint64_t num)
{
	for (struct watcher **at = w ? &w->list : NULL; at && *at; at = &(*at)->next)
		if ((*at)->s == s && (*at)->num == num)
			return at;
	return NULL;
}

/* Lock held: a watch that is being removed must not be the one that is added. */
static int add_locked(int dirfd, const char *name, uint32_t events, struct watcher *r)
{
	char path[48 + PROTO_NAME_MAX];
	int wd;

	if (n_watches >= max_watches)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d%s%s", dirfd, *name ? "/" : "", name);
	wd = inotify_add_watch(inotify_fd, path, events);
	if (wd < 0 && errno == ENOSPC)
		refused_ms = clock_ms();
	if (wd <= 0)
		return 0;
	if (enter(wd, r))
		return wd;
	if (!find(wd))
		inotify_rm_watch(inotify_fd, wd);
	return 0;
}

int watches_add(int dirfd, const char *name, uint32_t events, struct session *s, uint64_t num)
{
	struct watcher *r = inotify_fd < 0 ? NULL : malloc(sizeof(*r));
	int wd;

	if (!r)
		return 0;
	*r = (struct watcher){.s = s, .num = num};
	pthread_mutex_lock(&lock);
	wd = add_locked(dirfd, name, events, r);
	pthread_mutex_unlock(&lock);
	if (!wd)
		free(r);
	return wd;
}

void watches_leave(int wd, struct session *s, uint64_t num)
{
	struct watcher **at, *r = NULL;
	struct watched *w;

	pthread_mutex_lock(&lock);
	w = find(wd);
	at = place_of(w, s, num);
	if (at) {
		r = *at;
		*at = r->next;
	}
	if (w && !w->list) {
		remove_watched(w);
		inotify_rm_watch(inotify_fd, wd);
	}
	pthread_mutex_unlock(&lock);
	free(r);
}

void watches_pass(int wd, struct session *s, uint64_t from, uint64_t to)
{
	struct watcher **at;

	pthread_mutex_lock(&lock);
	at = place_of(find(wd), s, from);
	if (at)
		(*at)->num = to;
	pthread_mutex_unlock(&lock);
}

unsigned watches_who(int wd, bool gone, struct watcher *who, unsigned max, bool *more)
{
	struct watched *w;
	struct watcher *r;
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	w = find(wd);
	for (r = w ? w->list : NULL; r && n < max; r = r->next)
		if (session_try_get(r->s))
			who[n++] = *r;
	*more = r != NULL;
	if (w && gone) {
		while ((r = w->list)) {
			w->list = r->next;
			free(r);
		}
		remove_watched(w);
	}
	pthread_mutex_unlock(&lock);
	return n;
}
