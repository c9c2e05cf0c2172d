/* SPDX-License-Identifier: MIT */
/*
 * A directory and its files are inodes, and where many files were deleted a moment ago ext4 needs a
 * millisecond for each: whoever runs a command would wait for that. So a worker makes them while
 * the command before runs. The loop's thread takes them; what says that they are there is their
 * name, so there is no lock. What an agent that was killed left half made is made whole.
 */
#include "agent/spare.h"

#include "agent/creds.h"
#include "agent/state_file.h"
#include "agent/workers.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#define SPARE  "spare"
#define MAKING "spare.new"

static _Atomic bool making;
static int where = -1; /* constant while `making` */

static bool made(int dir, const char *name, unsigned mode)
{
	cleanup_close int fd = state_create(dir, name, mode);

	return fd >= 0;
}

/* Fails for lack of room and the like: then there is none, and who needs it hears why. */
static void make(struct work *w)
{
	cleanup_close int dir = -1;

	(void)w;
	creds_own();
	if (mkdirat(where, MAKING, 0700) == 0 || errno == EEXIST)
		dir = openat(where, MAKING, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* The command is readable for the job's user, who gets a descriptor; nobody else can reach
	 * it. */
	if (dir >= 0 && made(dir, "command", 0644) && made(dir, "meta", 0600))
		renameat(where, MAKING, where, SPARE);
	atomic_store(&making, false);
}

void spare_make(int jobs_fd)
{
	static struct work work = {.run = make};

	if (faccessat(jobs_fd, SPARE, F_OK, 0) == 0 || atomic_exchange(&making, true))
		return;
	where = jobs_fd;
	workers_add(&work);
}

int spare_take(int jobs_fd, const char *name)
{
	return renameat(jobs_fd, SPARE, jobs_fd, name) < 0 ? -errno : 0;
}
