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
#include <time.h>

#define STOP_PASSES 8

struct proc {
	pid_t pid, ppid, sid;
	uint64_t start; /* tells a reused pid */
	long threads;	/* with the first one, also when that has exited */
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
			   " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
			   "%*d %lu",
			   &p->state, &p->ppid, &p->sid, &p->threads, &p->start) != 5)
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
	int ret;

	all->n = 0;
	if (lseek(proc_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = sys_getdents(proc_fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			if (!isdigit((unsigned char)d->name[0]))
				continue;
			ret = read_proc(proc_fd, d->name, &p);
			if (ret == 0)
				ret = add(all, &p);
			if (ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM)
				return ret; /* others are gone, or nobody's */
		}
	return n < 0 ? -errno : 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct proc *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

/* all->list is sorted. */
static bool parent_inside(const struct procs *all, const struct proc *p)
{
	struct proc key = {.pid = p->ppid}, *parent;

	parent = bsearch(&key, all->list, all->n, sizeof(key), by_pid);
	return parent && parent->inside;
}

/* One by which the others are found. */
static bool is_first(const struct tree *t, const struct proc *p)
{
	if (t->root)
		return p->ppid == t->root;
	return p->sid == t->sid ||
	       (p->ppid == getpid() && t->is_stray(t->of, p->pid, p->sid, p->start));
}

static void mark(struct procs *all, const struct tree *t)
{
	bool more = true;

	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_pid);
	for (size_t i = 0; i < all->n; i++)
		all->list[i].inside = all->list[i].pid != getpid() && is_first(t, &all->list[i]);
	while (more) {
		more = false;
		for (size_t i = 0; i < all->n; i++) {
			struct proc *p = &all->list[i];

			if (p->inside || p->pid == getpid() || !parent_inside(all, p))
				continue;
			p->inside = more = true;
		}
	}
}

/* One whose first thread has exited shows as a zombie while its other threads go on. */
static bool is_alive(const struct proc *p)
{
	return p->state != 'X' && (p->state != 'Z' || p->threads > 1);
}

/* Only if it is still the process that was seen. False: we may not. */
static bool send_signal(int proc_fd, const struct proc *p, int sig)
{
	cleanup_close int fd = sys_pidfd_open(p->pid);
	struct proc now = {0};
	char name[16];
	int ret;

	snprintf(name, sizeof(name), "%d", p->pid);
	if (read_proc(proc_fd, name, &now) < 0 || now.start != p->start)
		return true;
	ret = fd >= 0 ? sys_pidfd_signal(fd, sig) : kill(p->pid, sig);
	return ret == 0 || errno != EPERM;
}

/* One pass over the tree as it is now; how many processes there are that are not dead, in *fresh
 * how many of them do not stand still, and in *refused how many we may not signal. */
static int pass(
	int proc_fd, struct procs *all, const struct tree *t, int sig, int *fresh, int *refused)
{
	int n = 0, ret = scan(proc_fd, all);

	if (ret < 0)
		return ret;
	mark(all, t);
	*fresh = *refused = 0;
	for (size_t i = 0; i < all->n; i++) {
		const struct proc *p = &all->list[i];

		if (!p->inside || !is_alive(p))
			continue;
		n++;
		if (p->state != 'T')
			++*fresh;
		if (!send_signal(proc_fd, p, sig))
			++*refused;
	}
	return n;
}

int tree_signal(const struct tree *t, int sig, int *refused)
{
	cleanup_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct procs all = {0};
	int n = -ENOENT, fresh = 1, unused;

	*refused = 0;
	if (proc_fd < 0)
		return -errno;
	if (t->root <= 0 && t->sid <= 0)
		return 0; /* session 0 is the kernel's and other containers' */
	for (int i = 0; sig == SIGKILL && i < STOP_PASSES && fresh; i++)
		if (pass(proc_fd, &all, t, SIGSTOP, &fresh, &unused) <= 0)
			break;
	n = pass(proc_fd, &all, t, sig, &fresh, refused);
	/* /proc is read in the order of the numbers. When those begin anew, a child can have been
	 * made behind what was read, and its parent have gone before it was: none is none when none
	 * was there twice. */
	if (n == 0)
		n = pass(proc_fd, &all, t, sig, &fresh, refused);
	/* What is stopped gets a signal that it can act on only when it goes on. */
	if (n > 0 && (sig == SIGTERM || sig == SIGHUP))
		pass(proc_fd, &all, t, SIGCONT, &fresh, &unused);
	free(all.list);
	return n;
}

uint64_t tree_now(void)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec ts;

	/* The clock, and the unit, of /proc. */
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * hz + (uint64_t)ts.tv_nsec * hz / 1000000000;
}
