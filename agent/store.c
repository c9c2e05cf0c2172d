/* SPDX-License-Identifier: MIT */
/*
 * Output files. The output thread appends; the loop's thread asks for the numbers. A byte never
 * changes its offset: past the cap the middle is punched out of the file, in coarse steps.
 */
#include "agent/store.h"

#include "agent/state_file.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

/* linux/falloc.h, which musl does not bring. */
enum { FALLOC_KEEP = 1, FALLOC_PUNCH = 2 };

#define KEEP	 (64ull << 20)
#define STEP	 (1ull << 20)
#define STEP_MIN (64ull << 10)

static uint64_t keep_usual = KEEP; /* constant once there are jobs */

const char *const store_names[PROTO_STREAMS] = {"stdout", "stderr", "output"};

void store_set_keep(uint64_t bytes)
{
	keep_usual = bytes;
}

void store_init(struct store *s, int dir_fd)
{
	*s = (struct store){.dir_fd = dir_fd, .fd = {-1, -1, -1}, .keep = keep_usual};
	pthread_mutex_init(&s->lock, NULL);
}

void store_close(struct store *s)
{
	for (int i = 0; i < PROTO_STREAMS; i++) {
		if (s->fd[i] >= 0)
			close(s->fd[i]);
		s->fd[i] = -1;
	}
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	s->dir_fd = -1;
}

void store_fini(struct store *s)
{
	store_close(s);
	pthread_mutex_destroy(&s->lock);
}

/* Writes n bytes at offset; how many were, and why not more in *error. */
static size_t put(struct store *s, unsigned i, const uint8_t *p, size_t n, uint64_t at, int *error)
{
	size_t done = 0;

	if (s->fd[i] < 0)
		s->fd[i] = state_open(s->dir_fd, store_names[i], O_WRONLY | O_CREAT, 0600);
	if (s->fd[i] < 0) {
		*error = errno;
		return 0;
	}
	while (done < n) {
		ssize_t w = pwrite(s->fd[i], p + done, n - done, (off_t)(at + done));

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			*error = w < 0 ? errno : ENOSPC;
			break;
		}
		done += (size_t)w;
	}
	return done;
}

static void publish(struct store *s, const struct store_info *info)
{
	pthread_mutex_lock(&s->lock);
	s->info = *info;
	pthread_mutex_unlock(&s->lock);
}

/* [from, to) is not there. One hole a stream is told: it takes in what is between. */
static void lose(struct store_info *info, unsigned i, uint64_t from, uint64_t to)
{
	if (!info->hole_to[i] || from < info->hole_from[i])
		info->hole_from[i] = from;
	info->hole_to[i] = to;
}

/* Without punching only a beginning can be kept. */
static void cut(struct store *s, unsigned i, uint64_t size, struct store_info *info)
{
	struct store_info before = *info;

	s->no_punch = true;
	if (size <= s->keep)
		return;
	lose(info, i, s->keep, size);
	publish(s, info); /* first, as in punch() */
	if (ftruncate(s->fd[i], (off_t)s->keep) < 0)
		*info = before;
}

/* The hole grows so that at most head and tail are left; in whole steps, so that a call comes once
 * a megabyte. */
static void punch(struct store *s, unsigned i, uint64_t size, struct store_info *info)
{
	uint64_t step = s->keep / 16 / STEP_MIN * STEP_MIN, head = s->keep / 2, from, to;
	struct store_info before = *info;

	step = step < STEP_MIN ? STEP_MIN : step > STEP ? STEP : step;
	if (size <= s->keep + step)
		return;
	to = (size - head) / step * step;
	/* All of it where the head has become shorter, else what is new. */
	from = s->punched[i] && s->punched_from[i] <= head ? s->punched[i] : head;
	if (to <= from)
		return;
	if (!info->hole_to[i] || head < info->hole_from[i])
		info->hole_from[i] = head;
	if (to > info->hole_to[i])
		info->hole_to[i] = to;
	/* First: who has read zeros, and asks then, learns whether they are a hole's. */
	publish(s, info);
	if (fallocate(s->fd[i], FALLOC_PUNCH | FALLOC_KEEP, (off_t)from, (off_t)(to - from)) < 0) {
		*info = before;
		/* Else it may go another time: a full disk has room again. */
		if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
			cut(s, i, size, info);
		return;
	}
	if (from == head)
		s->punched_from[i] = head;
	s->punched[i] = to;
}

static void append_one(struct store *s, unsigned i, const uint8_t *p, size_t n)
{
	struct store_info info = s->info; /* only this thread writes it */
	uint64_t at = info.size[i];
	size_t done = 0;
	int error = 0;

	if (!(s->no_punch && at >= s->keep))
		done = put(s, i, p, n, at, &error);
	info.size[i] = at + n;
	if (done < n)
		lose(&info, i, at + done, at + n);
	if (error && !info.error)
		info.error = error;
	if (done && !s->no_punch)
		punch(s, i, info.size[i], &info);
	publish(s, &info);
}

void store_limit(struct store *s, uint64_t keep)
{
	struct store_info info = s->info;

	if (keep >= s->keep)
		return;
	s->keep = keep;
	for (unsigned i = 0; i < PROTO_STREAMS; i++) {
		if (s->fd[i] < 0)
			continue;
		if (s->no_punch)
			cut(s, i, info.size[i], &info);
		else
			punch(s, i, info.size[i], &info);
	}
	publish(s, &info);
}

void store_shrink(int dir_fd, struct store_info *info, uint64_t keep)
{
	struct store s;

	store_init(&s, -1);
	s.info = *info;
	for (unsigned i = 0; i < PROTO_STREAMS; i++)
		s.fd[i] = state_open(dir_fd, store_names[i], O_WRONLY, 0);
	store_limit(&s, keep);
	*info = s.info;
	store_fini(&s);
}

void store_append(struct store *s, unsigned stream, const void *p, size_t n)
{
	append_one(s, stream, p, n);
	append_one(s, PROTO_STREAM_OUTPUT, p, n);
}

void store_get(struct store *s, struct store_info *info)
{
	pthread_mutex_lock(&s->lock);
	*info = s->info;
	pthread_mutex_unlock(&s->lock);
}
