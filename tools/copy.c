/* SPDX-License-Identifier: MIT */
/* The agent holds no command back: beyond its cap a stream loses its middle, also while we read it.
 * A hole is told before it is made (agent/store.c), so who asks after reading zeros knows. */
#include "tools/copy.h"

#include "tools/job.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (1u << 20)

/* What the job's summary says of the stream. */
struct facts {
	uint64_t size, hole_from, hole_to;
};

static bool look(const struct copy *c, struct facts *f)
{
	char text[JOB_TEXT_MAX], key[32];
	const char *value;

	*f = (struct facts){0};
	job_text(c->job->dir, "summary", text);
	snprintf(key, sizeof(key), "%s_bytes", c->name);
	value = job_line(text, key);
	if (!value || sscanf(value, "%" SCNu64, &f->size) != 1) {
		complain("%s: its summary cannot be read", c->name);
		return false;
	}
	snprintf(key, sizeof(key), "%s_dropped", c->name);
	value = job_line(text, key);
	if (value && sscanf(value, "%" SCNu64 "-%" SCNu64, &f->hole_from, &f->hole_to) != 2)
		f->hole_from = f->hole_to = 0;
	return true;
}

static void leave_out(struct copy *c, uint64_t to)
{
	if (!atomic_load(&c->lost))
		atomic_store(&c->lost_from, c->at);
	atomic_store(&c->lost_to, to);
	atomic_fetch_add(&c->lost, to - c->at);
	c->at = to;
}

/* Up to size bytes at c->at that are the command's own, in c->data: how many. 0: there are no more.
 * -1: it cannot be read. */
static ssize_t take(struct copy *c, size_t size)
{
	struct facts f;

	for (;;) {
		ssize_t n = pread(c->from, c->data, size, (off_t)c->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			job_failed(c->job, c->name, errno);
		if (n <= 0 || !memchr(c->data, 0, (size_t)n))
			return n;
		if (!look(c, &f))
			return -1;
		if (f.hole_to <= c->at || f.hole_from >= c->at + (uint64_t)n)
			return n;
		if (f.hole_from > c->at)
			return (ssize_t)(f.hole_from - c->at);
		leave_out(c, f.hole_to);
	}
}

/* In small pieces: it is seen whether somebody takes them. */
static bool give(struct copy *c, size_t n)
{
	struct pollfd p = {.fd = c->to, .events = POLLOUT};
	size_t done = 0;

	while (done < n) {
		ssize_t w = write(c->to, c->data + done, n - done < PIPE_BUF ? n - done : PIPE_BUF);

		if (w < 0 && errno == EAGAIN) /* others made it so, and it is theirs too */
			poll(&p, 1, -1);
		else if (w < 0 && errno != EINTR)
			return false;
		if (w > 0) {
			done += (size_t)w;
			atomic_fetch_add(&c->given, (uint64_t)w);
		}
	}
	return true;
}

/* As for a local command whose reader has gone; what else is wrong it would have said itself. */
static bool refused(const struct copy *c, int code)
{
	job_signal(c->job, SIGPIPE);
	if (code != EPIPE)
		complain("%s: %s", c->name, strerror(code));
	return code == EPIPE;
}

/* To what was there at the end: what the command left in the background may print for ever. */
static bool copy_all(struct copy *c)
{
	uint64_t until = UINT64_MAX;
	struct facts f;

	while (c->at < until) {
		struct pollfd p[] = {{.fd = c->from, .events = POLLIN},
			{.fd = until == UINT64_MAX ? c->end : -1, .events = POLLIN}};
		ssize_t n;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return job_failed(c->job, c->name, errno);
		if (p[1].revents) {
			if (!look(c, &f))
				return false;
			until = f.size;
			continue;
		}
		n = take(c, until - c->at < CHUNK ? (size_t)(until - c->at) : CHUNK);
		if (n < 0)
			return false;
		if (n == 0 && until != UINT64_MAX)
			leave_out(c, until);
		if (!give(c, (size_t)n))
			return refused(c, errno);
		c->at += (uint64_t)n;
	}
	return true;
}

static void *copy_thread(void *arg)
{
	static const uint64_t one = 1;
	struct copy *c = arg;

	atomic_store(&c->failed, !copy_all(c));
	free(c->data);
	atomic_store(&c->over, true);
	if (write(c->done, &one, sizeof(one)) < 0)
		complain("eventfd: %s", strerror(errno));
	return NULL;
}

bool copy_start(struct copy *c)
{
	pthread_t thread;

	c->data = malloc(CHUNK);
	if (!c->data || pthread_create(&thread, NULL, copy_thread, c)) {
		free(c->data);
		complain("%s: %s", c->name, strerror(ENOMEM));
		return false;
	}
	pthread_detach(thread);
	return true;
}

bool copy_is_whole(struct copy *c)
{
	uint64_t lost = atomic_load(&c->lost);
	bool over = atomic_load(&c->over);

	if (lost)
		complain("%s: %" PRIu64 " bytes between %" PRIu64 " and %" PRIu64
			 " are left out: they were dropped before they were read",
			c->name, lost, atomic_load(&c->lost_from), atomic_load(&c->lost_to));
	if (!over)
		complain("%s: cut off after %" PRIu64 " bytes: nobody takes more", c->name,
			atomic_load(&c->given));
	return over && !lost && !atomic_load(&c->failed);
}
