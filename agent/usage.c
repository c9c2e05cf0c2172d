/* SPDX-License-Identifier: MIT */
/* Adds up /proc/PID/stat. Whoever ends is reaped by its parent, or by PID 1, which then has its
 * time among that of its children: so what the living say is all that was used. Any thread. */
#include "agent/usage.h"

#include "agent/sys.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sum {
	uint64_t threads, pages, user, system; /* times in ticks */
};

/* The name in it may be anything, with brackets and spaces. */
static void add(int proc_fd, const char *pid, struct sum *s)
{
	uint64_t user, system, threads, pages;
	int64_t ended_user, ended_system;
	char path[32], text[1024], *at;
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return; /* gone by now */
	text[n] = 0;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
			   " %" SCNd64 " %" SCNd64 " %*d %*d %" SCNu64 " %*d %*u %*u %" SCNu64,
			   &user, &system, &ended_user, &ended_system, &threads, &pages) != 6)
		return;
	s->threads += threads;
	s->pages += pages;
	s->user += user + (uint64_t)ended_user;
	s->system += system + (uint64_t)ended_system;
}

int usage_read(struct usage *u)
{
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	cleanup_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) uint8_t batch[8192];
	struct sum s = {0};
	ssize_t n;

	if (proc_fd < 0)
		return -errno;
	while ((n = sys_getdents(proc_fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			if (isdigit((unsigned char)d->name[0]))
				add(proc_fd, d->name, &s);
		}
	if (n < 0)
		return -errno;
	*u = (struct usage){.threads = s.threads,
		.memory = s.pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.user_us = s.user * tick_us,
		.system_us = s.system * tick_us};
	return 0;
}
