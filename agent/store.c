/* SPDX-License-Identifier: MIT */
/*
 * Output files. The output thread appends; the loop's thread asks for the numbers. A byte never
 * changes its offset: past the cap the middle is punched out of the file, in coarse steps.
 */
#include "agent/store.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

/* linux/falloc.h, which musl does not bring. */
enum { FALLOC_KEEP = 1, FALLOC_PUNCH = 2 };

#define KEEP_HEAD (32ull << 20)
#define KEEP_TAIL (32ull << 20)
#define STEP	  (1ull << 20)

const char *const store_names[PROTO_STREAMS] = {"stdout", "stderr", "output"};

void store_init(struct store *s, int dir_fd)
{
	*s = (struct store){.dir_fd = dir_fd, .fd = {-1, -1, -1}};
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
		s->fd[i] = openat(s->dir_fd, store_names[i],
			O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

/* The hole grows so that at most head and tail are left; in whole steps, so that a call comes once
 * a megabyte. */
static void punch(struct store *s, unsigned i, uint64_t size, struct store_info *info)
{
	uint64_t to;

	if (size <= KEEP_HEAD + KEEP_TAIL + STEP)
		return;
	to = (size - KEEP_TAIL) / STEP * STEP;
	if (to <= s->punched[i] || to <= KEEP_HEAD)
		return;
	if (fallocate(s->fd[i], FALLOC_PUNCH | FALLOC_KEEP,
		    (off_t)(s->punched[i] ? s->punched[i] : KEEP_HEAD),
		    (off_t)(to - (s->punched[i] ? s->punched[i] : KEEP_HEAD))) < 0) {
		s->no_punch = true; /* then only the head is kept */
		return;
	}
	s->punched[i] = to;
	if (!info->hole_to[i])
		info->hole_from[i] = KEEP_HEAD;
	if (to > info->hole_to[i])
		info->hole_to[i] = to;
}

/* [from, to) is not there. One hole a stream is told: it takes in what is between. */
static void lose(struct store_info *info, unsigned i, uint64_t from, uint64_t to)
{
	if (!info->hole_to[i] || from < info->hole_from[i])
		info->hole_from[i] = from;
	info->hole_to[i] = to;
}

static void append_one(struct store *s, unsigned i, const uint8_t *p, size_t n)
{
	struct store_info info = s->info; /* only this thread writes it */
	uint64_t at = info.size[i];
	size_t done = 0;
	int error = 0;

	if (!(s->no_punch && at >= KEEP_HEAD + KEEP_TAIL))
		done = put(s, i, p, n, at, &error);
	info.size[i] = at + n;
	if (done < n)
		lose(&info, i, at + done, at + n);
	if (error && !info.error)
		info.error = error;
	if (done && !s->no_punch)
		punch(s, i, info.size[i], &info);
	pthread_mutex_lock(&s->lock);
	s->info = info;
	pthread_mutex_unlock(&s->lock);
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

void store_lost_hole(struct store_info *info, unsigned stream, uint64_t size)
{
	if (size <= KEEP_HEAD + KEEP_TAIL + STEP)
		return;
	info->hole_from[stream] = KEEP_HEAD;
	info->hole_to[stream] = (size - KEEP_TAIL) / STEP * STEP;
}
