/* SPDX-License-Identifier: MIT */
/* Cleanup attributes that preserve errno, and the explicit hand-over of what they would free. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_freep(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_closedirp(DIR **d)
{
	int saved = errno;

	if (*d)
		closedir(*d);
	errno = saved;
}

#define cleanup_free	 __attribute__((cleanup(cleanup_freep)))
#define cleanup_close	 __attribute__((cleanup(cleanup_closep)))
#define cleanup_closedir __attribute__((cleanup(cleanup_closedirp)))

static inline int steal_fd(int *fd)
{
	int got = *fd;

	*fd = -1;
	return got;
}

#define steal_ptr(pp)                              \
	({                                         \
		__typeof__(*(pp)) stolen_ = *(pp); \
		*(pp) = NULL;                      \
		stolen_;                           \
	})
