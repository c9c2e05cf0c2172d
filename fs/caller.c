/* SPDX-License-Identifier: MIT */
#include "fs/caller.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PF_SIGNALED 0x400
#define FDS_MAX	    4096 /* a worker looks at no more of them */

/* All of a small /proc file. False: no such thread. */
static bool slurp(pid_t tid, const char *what, char *text, size_t size)
{
	char path[64];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	return true;
}

static uint64_t field(const char *status, const char *name, int base)
{
	const char *p = strstr(status, name);

	return p ? strtoull(p + strlen(name), NULL, base) : 0;
}

static uint64_t bit(int sig)
{
	return UINT64_C(1) << (sig - 1);
}

/* What is pending, and neither blocked nor ignored. */
static uint64_t pending_signals(const char *status)
{
	uint64_t pending = field(status, "\nSigPnd:", 16) | field(status, "\nShdPnd:", 16);

	return pending & ~field(status, "\nSigBlk:", 16) & ~field(status, "\nSigIgn:", 16);
}

bool caller_signalled(pid_t tid)
{
	uint64_t caught, nothing = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
	char status[4096];

	if (tid <= 0 || !slurp(tid, "status", status, sizeof(status)))
		return true;
	caught = field(status, "\nSigCgt:", 16);
	return pending_signals(status) & (caught | ~nothing);
}

bool caller_leaves(pid_t tid)
{
	uint64_t pending, caught, harmless, asked;
	char status[4096];

	if (tid <= 0 || !slurp(tid, "status", status, sizeof(status)))
		return true;
	pending = pending_signals(status);
	caught = field(status, "\nSigCgt:", 16);
	harmless = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) |
		   bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);
	asked = bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT) | bit(SIGKILL);
	return (pending & asked) || (pending & ~harmless & ~caught);
}

pid_t caller_process(pid_t tid)
{
	char status[4096];

	if (tid <= 0 || !slurp(tid, "status", status, sizeof(status)))
		return 0;
	return (pid_t)field(status, "\nTgid:", 10);
}

int caller_writes(pid_t tid, uint64_t ino)
{
	char path[sizeof("/proc//fdinfo") + 11], info[1024];
	int writes = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)tid);
	d = tid > 0 ? opendir(path) : NULL;
	if (!d)
		return -1;
	for (int k = 0; !writes && (e = readdir(d)); k++) {
		char what[sizeof("fdinfo/") + 10];

		snprintf(what, sizeof(what), "fdinfo/%.10s", e->d_name); /* a number */
		if (*e->d_name == '.' || !slurp(tid, what, info, sizeof(info)))
			continue; /* it has been closed */
		if (k >= FDS_MAX || !field(info, "\nino:", 10))
			writes = -1; /* too many, or a kernel that does not say */
		else if (field(info, "\nino:", 10) == ino)
			writes = (field(info, "\nflags:", 8) & O_ACCMODE) != O_RDONLY;
	}
	closedir(d);
	return writes;
}

bool caller_killed(pid_t tid)
{
	char stat[1024];
	unsigned flags = 0;
	const char *p;

	if (tid <= 0 || !slurp(tid, "stat", stat, sizeof(stat)))
		return false;
	p = strrchr(stat, ')'); /* the name may hold anything */
	if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return false;
	return flags & PF_SIGNALED;
}
