/* SPDX-License-Identifier: MIT */
/*
 * Starting, stopping and reaching a sandbox. Its processes are nobody's children here: the launcher
 * leaves bwrap behind, which waits for PID 1 and writes down how it ended. Ending PID 1 ends all.
 */
#include "bwrap/run.h"

#include "bwrap/record.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#define KILL_MS	   10000
#define REFUSED_MS 1000 /* how long an agent that listens no more has for its end */
#define STOP_S	   5

/* The parent of PID 1 is bwrap; 0: gone. */
static pid_t parent_of(pid_t pid)
{
	char path[48], text[512], *at;
	cleanup_close int fd = -1;
	ssize_t n;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %*c %d", &parent) == 1 && parent > 1 ? parent : 0;
}

/* -ESRCH: there is no such process. */
static int open_pid(pid_t pid)
{
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	return fd >= 0 ? fd : pid > 0 ? -errno : -ESRCH;
}

static bool ended(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return pidfd == -ESRCH || (pidfd >= 0 && poll(&p, 1, timeout_ms) > 0);
}

/* Where there is no freezer each process is stopped by itself, until none is left that runs: what
 * one of them forks meanwhile is found the next time. */
static int signal_all(pid_t init, int sig)
{
	char path[48], ns[64], other[64];
	struct dirent *e;
	ssize_t n;
	int hit = 0;
	cleanup_closedir DIR *d = opendir("/proc");

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", init);
	n = readlink(path, ns, sizeof(ns) - 1);
	if (n <= 0 || !d)
		return 0;
	ns[n] = 0;
	while ((e = readdir(d))) {
		char stat[256] = "", state = 0;
		cleanup_close int fd = -1;
		const char *at;
		int pid = atoi(e->d_name);

		snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
		n = pid > 0 ? readlink(path, other, sizeof(other) - 1) : 0;
		if (n <= 0)
			continue;
		other[n] = 0;
		if (strcmp(ns, other) != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, stat, sizeof(stat) - 1) > 0 && (at = strrchr(stat, ')')))
			state = at[2];
		/* 't': stopped for its tracer, which is stopped too. */
		if (state == 'Z' || (sig == SIGSTOP && (state == 'T' || state == 't')))
			continue;
		hit += kill(pid, sig) == 0;
	}
	return hit;
}

/* A stop takes effect when the process next has a processor: on a busy machine that takes a while.
 */
static bool stop_all(pid_t init)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += STOP_S;
	do {
		if (signal_all(init, SIGSTOP) == 0)
			return true;
		nanosleep(&moment, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (
		now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	return false;
}

static int set_paused(
	const struct bwrap *b, const char *id, const struct status *s, bool pause, struct err *err)
{
	struct err none = {0};
	int r = cgroups_freeze(b->cgroups, id, pause, &none);

	if (r != -EOPNOTSUPP)
		return r < 0 ? err_set(err, -r, "%s", none.msg) : 0;
	if (pause && stop_all(s->pid))
		return 0;
	signal_all(s->pid, SIGCONT);
	return pause ? err_set(err, EBUSY,
			       "its processes make others faster than they can be stopped")
		     : 0;
}

static int note_paused(int box_fd, bool paused, struct err *err)
{
	cleanup_close int held = record_lock(box_fd, err);
	struct record r = {0};
	int ret = held < 0 ? held : record_read(box_fd, &r, err);

	if (ret == 0 && r.paused != paused) {
		r.paused = paused;
		ret = record_write(box_fd, &r, err);
	}
	record_fini(&r);
	return ret;
}

int bwrap_pause(struct engine *e, const char *id, bool pause, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = bwrap_box(b, id, err);
	struct status s;
	int r;

	if (fd < 0)
		return fd;
	flock(fd, LOCK_EX);
	status_read(fd, &s);
	if (!s.alive)
		return err_set(err, ESRCH, "the sandbox does not run");
	r = set_paused(b, id, &s, pause, err);
	return r < 0 ? r : note_paused(fd, pause, err);
}

/* PID 1 gets `sig`; true: all has ended within the time. */
static bool end_by(const struct status *s, int sig, int timeout_ms)
{
	cleanup_close int init = open_pid(s->pid), outer = open_pid(parent_of(s->pid));

	if (init >= 0)
		syscall(SYS_pidfd_send_signal, init, sig, NULL, 0);
	return ended(init, timeout_ms) && ended(outer, timeout_ms);
}

int run_kill(const struct bwrap *b, const char *id, int box_fd, struct err *err)
{
	struct err none = {0};
	struct status s;

	status_settle(box_fd);
	status_read(box_fd, &s);
	if (s.unknown)
		return err_set(err, EIO, "it cannot be told whether the sandbox runs");
	if (!s.alive)
		return 0;
	/* What is frozen does not even die. */
	set_paused(b, id, &s, false, &none);
	if (!end_by(&s, SIGKILL, KILL_MS))
		return err_set(err, EBUSY, "the sandbox's processes do not end");
	return 0;
}

int bwrap_stop(struct engine *e, const char *id, unsigned grace_s, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = bwrap_box(b, id, err);
	struct err none = {0};
	struct status s;
	int r = 0;

	if (fd < 0)
		return fd;
	status_read(fd, &s);
	if (s.alive) {
		set_paused(b, id, &s, false, &none);
		if (!end_by(&s, SIGTERM, (int)grace_s * 1000))
			r = run_kill(b, id, fd, err);
	}
	return r < 0 ? r : note_paused(fd, false, err);
}

static int launch(const struct bwrap *b, const char *id, char **dirs, struct err *err)
{
	const char *argv[16] = {"launch", "run"};
	cleanup_free char *path = NULL;
	size_t n = 4;

	if (asprintf(&path, "%s/%s", b->boxes, id) < 0) {
		path = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	argv[2] = path;
	argv[3] = b->agent;
	for (char **d = dirs; d && *d && n < 15; d++)
		argv[n++] = *d;
	return bwrap_launch(b, argv, -1, NULL, NULL, err);
}

int bwrap_start(struct engine *e, const char *id, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = bwrap_box(b, id, err);
	char **dirs = NULL;
	struct record rec = {0};
	struct err ignored = {0};
	struct status s;
	int r;

	if (fd < 0)
		return fd;
	flock(fd, LOCK_EX); /* two daemons start it once */
	if (faccessat(b->boxes_fd, id, F_OK, 0) < 0)
		return err_set(err, ENOENT, "the sandbox has been removed");
	status_settle(fd); /* somebody may have died between the start and this */
	status_read(fd, &s);
	if (s.unknown)
		return err_set(err, EIO, "it cannot be told whether the sandbox runs");
	if (s.alive)
		return 0;
	r = note_paused(fd, false, err);
	r = r < 0 ? r : record_read(fd, &rec, err);
	if (r == 0) {
		/* It may have been killed in its sleep; and what they counted is the last run's. */
		cgroups_freeze(b->cgroups, id, false, &ignored);
		cgroups_remove(b->cgroups, id);
	}
	r = r < 0 ? r : cgroups_make(b->cgroups, id, &rec.limits, &dirs, err);
	r = r < 0 ? r : launch(b, id, dirs, err);
	if (r == 0)
		status_settle(fd);
	else
		run_kill(b, id, fd, &ignored); /* nobody would know of it */
	cgroups_dirs_free(dirs);
	record_fini(&rec);
	return r;
}

int bwrap_update(struct engine *e, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = bwrap_box(b, id, err), held = -1;
	struct record rec = {0};
	struct status s;
	int r;

	if (fd < 0)
		return fd;
	if (which & ~cgroups_can(b->cgroups))
		return err_set(err, EOPNOTSUPP, "limits cannot be changed here: %s",
			cgroups_words(b->cgroups));
	if ((which & ENGINE_LIMIT_MEMORY) && limits->memory && limits->memory < CGROUPS_MEMORY_MIN)
		return err_set(
			err, EINVAL, "the least memory limit is %u MiB", CGROUPS_MEMORY_MIN >> 20);
	flock(fd, LOCK_EX); /* not while it starts, with the limits from before */
	status_read(fd, &s);
	held = record_lock(fd, err);
	r = held < 0 ? held : record_read(fd, &rec, err);
	if (r == 0 && s.alive)
		r = cgroups_set(b->cgroups, id, which, limits, err);
	if (r == 0) {
		if (which & ENGINE_LIMIT_MEMORY)
			rec.limits.memory = limits->memory;
		if (which & ENGINE_LIMIT_CPU) {
			rec.limits.cpu_quota_us = limits->cpu_quota_us;
			rec.limits.cpu_period_us = limits->cpu_period_us;
		}
		if (which & ENGINE_LIMIT_PIDS)
			rec.limits.pids = limits->pids;
		r = record_write(fd, &rec, err);
	}
	record_fini(&rec);
	return r;
}

static ssize_t sock_read(struct stream *s, void *p, size_t n)
{
	ssize_t r;

	do {
		r = recv(s->fd, p, n, MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static ssize_t sock_write(struct stream *s, const void *p, size_t n)
{
	ssize_t r;

	do {
		r = send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static const char *sock_words(struct stream *s)
{
	(void)s;
	return "";
}

static void sock_close(struct stream *s)
{
	if (s && s->fd >= 0)
		close(s->fd);
	free(s);
}

/* Nobody listens any more: PID 1 is ending. Whoever comes next is to find it ended, and start it.
 */
static void await_end(int box)
{
	struct status s;

	status_read(box, &s);
	if (s.alive) {
		cleanup_close int init = open_pid(s.pid), outer = open_pid(parent_of(s.pid));

		(void)(ended(init, REFUSED_MS) && ended(outer, REFUSED_MS));
	}
}

int bwrap_connect(struct engine *e, const char *id, struct stream **out, struct err *err)
{
	cleanup_close int box = bwrap_box(bwrap_of(e), id, err), fd = -1;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stream *s;

	if (box < 0)
		return box;
	/* By the directory's descriptor: the whole path may be too long for an address. */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/agent.sock", box);
	/* Without waiting: an agent that accepts nobody, with a queue that is full, gives EAGAIN.
	 */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int r = errno;

		err_set(err, r == ECONNREFUSED || r == ENOENT ? EIO : EHOSTDOWN,
			"the agent of the sandbox does not answer: %s", strerror(r));
		if (r == ECONNREFUSED)
			await_end(box);
		return -err->code;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	*s = (struct stream){.fd = steal_fd(&fd),
		.read = sock_read,
		.write = sock_write,
		.words = sock_words,
		.close = sock_close};
	*out = s;
	return 0;
}

/* The launcher's logger has written it: each line with its time. */
int bwrap_logs(
	struct engine *e, const char *id, size_t max, int stop_fd, struct buf *out, struct err *err)
{
	cleanup_close int box = bwrap_box(bwrap_of(e), id, err), fd = -1;
	cleanup_free char *text = malloc(max);
	const char *line = text;
	struct stat st;
	off_t from;
	ssize_t n;

	(void)stop_fd;
	if (box < 0)
		return box;
	buf_init(out, max);
	fd = openat(box, "log", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0; /* it never ran */
	if (!text || fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "the sandbox's log: %s", strerror(errno));
	from = st.st_size > (off_t)max ? st.st_size - (off_t)max : 0;
	n = pread(fd, text, max, from);
	if (n > 0 && from > 0)
		line = memchr(text, '\n', (size_t)n); /* what is before it is cut */
	if (n > 0 && line)
		buf_append(out, line + (from > 0), (size_t)(text + n - line) - (from > 0));
	return out->error ? err_set(err, ENOMEM, "out of memory") : 0;
}
