/* SPDX-License-Identifier: MIT */
/*
 * A bounded queue (a->lock) and the thread that empties it. The file is not blocking, so that a
 * FIFO that nobody reads can be waited for together with the end. A line is written by one call,
 * and no longer than what a pipe takes whole.
 */
#include "sandbox/audit.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define QUEUE_MAX  4096
#define PATIENCE_S 2

struct queued {
	struct event_line *line;
	uint64_t lost; /* how many went lost just before it */
};

struct audit {
	int fd, end_fd;
	pthread_t thread;
	bool torn;	    /* the file ends within a line; the thread's, as the next */
	uint64_t unwritten; /* lines lost since the last that was written */

	pthread_mutex_t lock;
	pthread_cond_t more, ended;
	struct queued queue[QUEUE_MAX]; /* protected by lock, as all below */
	size_t first, n;
	uint64_t lost; /* since the last that was queued */
	bool end, gone;
};

/* 0; -EPIPE: the end came while there was no room; another -errno: not written. */
static int write_whole(struct audit *a, const char *text, size_t len)
{
	struct pollfd fds[] = {
		{.fd = a->fd, .events = POLLOUT}, {.fd = a->end_fd, .events = POLLIN}};
	ssize_t n;

	for (;;) {
		n = write(a->fd, text, len);
		if (n == (ssize_t)len)
			return 0;
		if (n > 0) {
			a->torn = true;
			text += n;
			len -= (size_t)n;
			continue; /* the next says why */
		}
		if (n < 0 && errno == EAGAIN) {
			if (poll(fds, 2, -1) > 0 && !(fds[0].revents) && fds[1].revents)
				return -EPIPE;
		} else if (n == 0 || errno != EINTR) {
			return n ? -errno : -EIO;
		}
	}
}

static int write_line(struct audit *a, const char *text, size_t len)
{
	int r = 0;

	if (a->torn)
		r = write_whole(a, "\n", 1);
	if (r == 0) {
		a->torn = false;
		r = write_whole(a, text, len);
		a->torn &= r < 0;
	}
	return r;
}

/* What was lost is said first. */
static void write_out(struct audit *a, struct event_line *l)
{
	const struct event_field lines = {.key = "lines", .number = (int64_t)a->unwritten};
	struct event_line *said =
		a->unwritten ? event_line_new("audit-lost", NULL, &lines, 1) : NULL;
	int r = said ? write_line(a, said->text, said->len) : 0;

	event_line_put(said);
	if (r == 0 && said)
		a->unwritten = 0;
	if (r == 0 && l)
		r = write_line(a, l->text, l->len);
	if (r < 0) {
		if (!a->unwritten)
			log_warn("cannot write to the audit file: %s", strerror(-r));
		a->unwritten += l != NULL;
	}
}

static void *write_all(void *arg)
{
	struct audit *a = arg;

	pthread_mutex_lock(&a->lock);
	for (;;) {
		struct queued q = {0};

		if (a->n) {
			q = a->queue[a->first];
			a->first = (a->first + 1) % QUEUE_MAX;
			a->n--;
		} else if (a->lost) { /* nothing came behind them */
			q.lost = a->lost;
			a->lost = 0;
		} else if (a->end) {
			break;
		} else {
			pthread_cond_wait(&a->more, &a->lock);
			continue;
		}
		pthread_mutex_unlock(&a->lock);
		a->unwritten += q.lost;
		write_out(a, q.line);
		event_line_put(q.line);
		pthread_mutex_lock(&a->lock);
	}
	a->gone = true;
	pthread_cond_signal(&a->ended);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

void audit_add(struct audit *a, struct event_line *l)
{
	pthread_mutex_lock(&a->lock);
	if (a->n == QUEUE_MAX) {
		a->lost++;
	} else {
		a->queue[(a->first + a->n++) % QUEUE_MAX] =
			(struct queued){.line = event_line_get(l), .lost = a->lost};
		a->lost = 0;
		pthread_cond_signal(&a->more);
	}
	pthread_mutex_unlock(&a->lock);
}

/* A FIFO is opened for reading too: that does not wait for a reader, and needs none to be there. */
static int open_file(const char *path)
{
	int flags = O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = open(path, O_RDWR | flags, 0600);

	return fd < 0 && errno == EACCES ? open(path, O_WRONLY | flags, 0600) : fd;
}

static void destroy(struct audit *a)
{
	for (; a->n; a->n--, a->first = (a->first + 1) % QUEUE_MAX)
		event_line_put(a->queue[a->first].line);
	if (a->fd >= 0)
		close(a->fd);
	if (a->end_fd >= 0)
		close(a->end_fd);
	pthread_cond_destroy(&a->more);
	pthread_cond_destroy(&a->ended);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

int audit_new(const char *path, struct audit **out, struct err *err)
{
	struct audit *a = calloc(1, sizeof(*a));
	pthread_condattr_t clock;
	int r = 0;

	if (!a)
		return err_set(err, ENOMEM, "no memory for the audit file");
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->more, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&a->ended, &clock);
	pthread_condattr_destroy(&clock);
	a->end_fd = eventfd(0, EFD_CLOEXEC);
	a->fd = open_file(path);
	if (a->fd < 0)
		r = err_set(err, errno, "cannot open the audit file %s: %s", path, strerror(errno));
	else if (a->end_fd < 0 || pthread_create(&a->thread, NULL, write_all, a) != 0)
		r = err_set(err, EAGAIN, "cannot start the audit file's thread");
	if (r < 0)
		destroy(a);
	else
		*out = a;
	return r;
}

/* Whether the thread has come to its end, within so many seconds. */
static bool ends_within(struct audit *a, time_t seconds)
{
	struct timespec until;
	bool gone;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&a->lock);
	a->end = true;
	pthread_cond_signal(&a->more);
	while (!a->gone && r == 0)
		r = pthread_cond_timedwait(&a->ended, &a->lock, &until);
	gone = a->gone;
	for (; !gone && a->n; a->n--, a->first = (a->first + 1) % QUEUE_MAX)
		event_line_put(a->queue[a->first].line); /* there is no time for them */
	pthread_mutex_unlock(&a->lock);
	return gone;
}

/* A thread that hangs in a write (a file system that does not answer) is left to itself, with what
 * it uses: the program ends anyway. */
void audit_free(struct audit *a)
{
	uint64_t one = 1;

	if (!a)
		return;
	if (!ends_within(a, PATIENCE_S) && write(a->end_fd, &one, sizeof(one)) > 0 &&
		!ends_within(a, PATIENCE_S)) {
		pthread_detach(a->thread);
		return;
	}
	pthread_join(a->thread, NULL);
	destroy(a);
}
