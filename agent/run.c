/* SPDX-License-Identifier: MIT */
/*
 * The supervisor and the command's process until its exec. run_start() is called on the loop's
 * thread; what follows the fork runs in a copy of it, with other threads' locks as they happened to
 * be: only system calls there, no allocation, no log.
 *
 * The supervisor is a child subreaper: whatever the command leaves behind becomes its child,
 * however it was detached. So its descendants are the job, and it ends when there are none left.
 */
#include "agent/run.h"

#include "agent/sys.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HIGH_FD	 16 /* our descriptors are out of the way of 0..3 */
#define OOM_MORE 300
#define OOM_MOST 1000

static char score[16]; /* constant after the first run_start() */

static void send_report(int fd, const struct run_report *r)
{
	while (write(fd, r, sizeof(*r)) < 0 && errno == EINTR)
		;
}

static void fail(int fd, int code, enum run_stage stage)
{
	struct run_report r = {.kind = RUN_FAILED, .value = code, .stage = stage};

	send_report(fd, &r);
	_exit(127);
}

void run_init(void)
{
	const struct sigaction sa = {.sa_handler = SIG_DFL};

	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			sigaction(sig, &sa, NULL);
}

/* Default dispositions, or what a supervisor ignores; nothing blocked. The agent ignores SIGPIPE
 * alone, which is among these. */
static void reset_signals(bool ignore)
{
	static const int deaf[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2,
		SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU};
	const struct sigaction sa = {.sa_handler = ignore ? SIG_IGN : SIG_DFL};
	sigset_t none;

	for (size_t i = 0; i < sizeof(deaf) / sizeof(deaf[0]); i++)
		sigaction(deaf[i], &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int become(const struct user *u)
{
	if (!u)
		return 0;
	/* In a user namespace the right may be lacking: who stays the same does without, and who
	 * has no other groups than the agent has. */
	if (setgroups(u->n_groups, u->groups) < 0 && (u->uid != geteuid() || u->gid != getegid()) &&
		(user_extra_group(u) >= 0 || getgroups(0, NULL) != 0))
		return -1;
	if (setresgid(u->gid, u->gid, u->gid) < 0)
		return -1;
	return setresuid(u->uid, u->uid, u->uid);
}

/* A file without #! and of no known format: as a shell does, and execvp(3), by the shell. */
static void exec_file(const struct run_spec *spec, const char *file)
{
	execve(file, spec->argv, spec->envp);
	if (errno == ENOEXEC) {
		char **argv = spec->argv - 1; /* there is room: see run.h */
		char *first = argv[1];

		argv[0] = (char[]){"sh"};
		argv[1] = (char *)(uintptr_t)file;
		execve("/bin/sh", argv, spec->envp);
		argv[1] = first;
		errno = ENOEXEC;
	}
}

static int exec_path(const struct run_spec *spec)
{
	const char *name = spec->argv[0], *dir = spec->path, *end;
	char file[PATH_MAX];
	bool denied = false;
	size_t n;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		exec_file(spec, name);
		return errno;
	}
	for (; dir; dir = end ? end + 1 : NULL) {
		end = strchr(dir, ':');
		n = end ? (size_t)(end - dir) : strlen(dir);
		if (n + strlen(name) + 2 > sizeof(file))
			continue;
		memcpy(file, dir, n);
		if (n)
			file[n++] = '/';
		memcpy(file + n, name, strlen(name) + 1);
		exec_file(spec, file);
		if (errno == EACCES)
			denied = true;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENODEV)
			return errno;
	}
	return denied ? EACCES : ENOENT;
}

/* The kernel shall look for memory among the commands before it takes the agent, which may well be
 * the largest of a thousand small processes. May be refused, and is no matter then. */
static void offer_to_oom(void)
{
	cleanup_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, score, strlen(score)) < 0)
		return;
}

/* What the commands' score is to be: more than our own. */
static void oom_score(void)
{
	cleanup_close int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	int own;

	score[0] = 0;
	if (fd < 0 || read(fd, score, sizeof(score) - 1) <= 0)
		return;
	own = atoi(score);
	snprintf(score, sizeof(score), "%d", own + OOM_MORE < OOM_MOST ? own + OOM_MORE : OOM_MOST);
}

static void __attribute__((noreturn)) command(const struct run_spec *spec, int report)
{
	struct run_report r = {.kind = RUN_STARTED, .value = getpid()};

	setsid();
	reset_signals(false);
	/* Said by the command and not by its supervisor, which it may kill as its first act; and
	 * when a signal to it is no longer ignored. */
	send_report(report, &r);
	setrlimit(RLIMIT_NOFILE, &spec->files);
	offer_to_oom();
	if (dup2(spec->in, 0) < 0 || dup2(spec->out, 1) < 0 || dup2(spec->err, 2) < 0)
		fail(report, errno, RUN_STAGE_FORK);
	if (spec->script >= 0 && dup2(spec->script, RUN_SCRIPT_FD) < 0)
		fail(report, errno, RUN_STAGE_FORK);
	/* Until the exec closes them it may wait for long, for a directory that is far away;
	 * others' pipes would stay open for so long. */
	sys_close_range(spec->script >= 0 ? RUN_SCRIPT_FD + 1 : 3, (unsigned)report - 1);
	sys_close_range((unsigned)report + 1, UINT_MAX);
	if (spec->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		fail(report, errno, RUN_STAGE_FORK);
	umask(022);
	if (become(spec->user) < 0)
		fail(report, errno, RUN_STAGE_USER);
	if (chdir(spec->cwd) < 0)
		fail(report, errno, RUN_STAGE_CWD);
	fail(report, exec_path(spec), RUN_STAGE_EXEC);
	_exit(127);
}

void run_usage(struct run_report *r, const struct rusage *ru)
{
	r->user_us = (uint64_t)ru->ru_utime.tv_sec * 1000000 + (uint64_t)ru->ru_utime.tv_usec;
	r->system_us = (uint64_t)ru->ru_stime.tv_sec * 1000000 + (uint64_t)ru->ru_stime.tv_usec;
	r->peak_kib = (uint64_t)ru->ru_maxrss;
}

/* The next child that has ended, still to be reaped: if the supervisor is killed before it has
 * told, the agent inherits it and learns the same. */
static pid_t next_ended(int *status, struct rusage *ru)
{
	siginfo_t si = {0};

	if (syscall(SYS_waitid, P_ALL, 0, &si, WEXITED | WNOWAIT, ru) < 0)
		return -1;
	*status = si.si_code == CLD_EXITED   ? (si.si_status & 0xff) << 8
		  : si.si_code == CLD_DUMPED ? si.si_status | 0x80
					     : si.si_status;
	return si.si_pid;
}

static void __attribute__((noreturn)) supervise(const struct run_spec *spec, int report)
{
	struct run_report r;
	struct rusage ru;
	pid_t pid, got;
	int status = 0;

	setsid();
	reset_signals(true);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0)
		command(spec, report);
	if (pid < 0)
		fail(report, errno, RUN_STAGE_FORK);
	sys_close_range(0, (unsigned)report - 1);
	sys_close_range((unsigned)report + 1, UINT_MAX);
	if (chdir("/") < 0)
		_exit(1); /* it always can */
	for (;;) {
		got = next_ended(&status, &ru);
		if (got == pid) {
			r = (struct run_report){.kind = RUN_ENDED, .value = status};
			run_usage(&r, &ru);
			send_report(report, &r);
			pid = 0; /* its number may come again */
		}
		if (got > 0)
			waitpid(got, NULL, 0);
		else if (errno != EINTR)
			_exit(0);
	}
}

pid_t run_start(const struct run_spec *given, int *report)
{
	struct run_spec spec = *given;
	cleanup_close int in = fcntl(spec.in, F_DUPFD_CLOEXEC, HIGH_FD);
	cleanup_close int out = fcntl(spec.out, F_DUPFD_CLOEXEC, HIGH_FD);
	cleanup_close int err = fcntl(spec.err, F_DUPFD_CLOEXEC, HIGH_FD);
	cleanup_close int script =
		spec.script < 0 ? -1 : fcntl(spec.script, F_DUPFD_CLOEXEC, HIGH_FD);
	cleanup_close int from = -1, to = -1;
	int fd[2];
	pid_t pid;

	if (in < 0 || out < 0 || err < 0 || (spec.script >= 0 && script < 0))
		return -errno;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	from = fd[0];
	to = fcntl(fd[1], F_DUPFD_CLOEXEC, HIGH_FD);
	close(fd[1]);
	if (to < 0 || fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	spec.in = in;
	spec.out = out;
	spec.err = err;
	spec.script = script;
	if (!score[0])
		oom_score();
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		supervise(&spec, to);
	*report = steal_fd(&from);
	return pid;
}
