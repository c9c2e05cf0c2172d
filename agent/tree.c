/* SPDX-License-Identifier: MIT */
/* Finds descendants by /proc's parent numbers. Loop's thread; owns nothing between calls. */
#include "agent/tree.h"

#include "agent/sys.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define STOP_PASSES 8

struct proc {
	pid_t pid, ppid, sid;
	uint64_t start; /* tells a reused pid */
	char state;
	bool inside;
};

struct procs {
	struct proc *list;
	size_t n, cap;
};

/* From /proc/PID/stat. The name in it may be anything, with brackets and spaces. */
static int read_proc(int proc_fd, const char *pid, struct proc *p)
{
	char path[32], text[1024], *at;
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -ESRCH;
	text[n] = 0;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			   " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			   "%*d %lu",
			   &p->state, &p->ppid, &p->sid, &p->start) != 4)
		return -EIO;
	p->pid = atoi(pid);
	p->inside = false;
	return 0;
}

static int add(struct procs *all, const struct proc *p)
{
	if (all->n == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : 64;
		struct proc *list = realloc(all->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		all->list = list;
		all->cap = cap;
	}
	all->list[all->n++] = *p;
	return 0;
}

static int scan(int proc_fd, struct procs *all)
{
	_Alignas(8) uint8_t batch[8192];
	struct proc p;
	ssize_t n;

	all->n = 0;
	if (lseek(proc_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = sys_getdents(proc_fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			if (!isdigit((unsigned char)d->name[0]) ||
				read_proc(proc_fd, d->name, &p) < 0)
				continue;
			if (add(all, &p) < 0)
				return -ENOMEM;
		}
	return n < 0 ? -errno : 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct proc *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

/* all->list is sorted. */
static bool parent_inside(const struct procs *all, const struct proc *p, pid_t root)
{
	struct proc key = {.pid = p->ppid}, *parent;

	if (p->ppid == root)
		return true;
	parent = bsearch(&key, all->list, all->n, sizeof(key), by_pid);
	return parent && parent->inside;
}

static void mark(struct procs *all, pid_t root, pid_t sid)
{
	bool more = true;

	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_pid);
	while (more) {
		more = false;
		for (size_t i = 0; i < all->n; i++) {
			struct proc *p = &all->list[i];

			if (p->inside || p->pid == getpid())
				continue;
			if (root ? !parent_inside(all, p, root)
				 : p->sid != sid && !parent_inside(all, p, -1))
				continue;
			p->inside = more = true;
		}
	}
}

/* Only if it is still the process that was seen. */
static void send_signal(int proc_fd, const struct proc *p, int sig)
{
	cleanup_close int fd = sys_pidfd_open(p->pid);
	struct proc now = {0};
	char name[16];

	snprintf(name, sizeof(name), "%d", p->pid);
	if (read_proc(proc_fd, name, &now) < 0 || now.start != p->start)
		return;
	if (fd >= 0)
		sys_pidfd_signal(fd, sig);
	else
		kill(p->pid, sig);
}

/* One pass over the tree as it is now; how many processes there are that are not dead, and in
 * *fresh how many of them do not stand still. */
static int pass(int proc_fd, struct procs *all, pid_t root, pid_t sid, int sig, int *fresh)
{
	int n = 0, ret = scan(proc_fd, all);

	if (ret < 0)
		return ret;
	mark(all, root, sid);
	*fresh = 0;
	for (size_t i = 0; i < all->n; i++) {
		const struct proc *p = &all->list[i];

		if (!p->inside || p->state == 'Z' || p->state == 'X')
			continue;
		n++;
		if (p->state != 'T')
			++*fresh;
		send_signal(proc_fd, p, sig);
	}
	return n;
}

int tree_signal(pid_t root, pid_t sid, int sig)
{
	cleanup_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct procs all = {0};
	int n = -ENOENT, fresh = 1;

	if (proc_fd < 0)
		return -errno;
	if (root <= 0 && sid <= 0)
		return 0; /* session 0 is the kernel's and other containers' */
	for (int i = 0; sig == SIGKILL && i < STOP_PASSES && fresh; i++)
		if (pass(proc_fd, &all, root, sid, SIGSTOP, &fresh) <= 0)
			break;
	n = pass(proc_fd, &all, root, sid, sig, &fresh);
	/* What is stopped gets a signal that it can act on only when it goes on. */
	if (n > 0 && (sig == SIGTERM || sig == SIGHUP))
		pass(proc_fd, &all, root, sid, SIGCONT, &fresh);
	free(all.list);
	return n;
}
