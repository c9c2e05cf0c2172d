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
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define HIGH_FD 16 /* our descriptors are out of the way of 0..3 */

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

/* Default dispositions but for those in `ignore`; nothing blocked. */
static void reset_signals(bool ignore)
{
	static const int deaf[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2,
		SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU};
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			sigaction(sig, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	for (size_t i = 0; ignore && i < sizeof(deaf) / sizeof(deaf[0]); i++)
		sigaction(deaf[i], &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int become(const struct user *u)
{
	if (!u)
		return 0;
	if (setgroups(u->n_groups, u->groups) < 0 && (u->uid != geteuid() || u->n_groups))
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

static void __attribute__((noreturn)) command(const struct run_spec *spec, int report)
{
	setsid();
	reset_signals(false);
	setrlimit(RLIMIT_NOFILE, &spec->files);
	if (dup2(spec->in, 0) < 0 || dup2(spec->out, 1) < 0 || dup2(spec->err, 2) < 0)
		fail(report, errno, RUN_STAGE_FORK);
	if (spec->script >= 0 && dup2(spec->script, RUN_SCRIPT_FD) < 0)
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

static void __attribute__((noreturn)) supervise(const struct run_spec *spec, int report)
{
	struct run_report r = {.kind = RUN_STARTED};
	struct rusage ru;
	pid_t pid, got;
	int status;

	setsid();
	reset_signals(true);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0)
		command(spec, report);
	if (pid < 0)
		fail(report, errno, RUN_STAGE_FORK);
	r.value = pid;
	send_report(report, &r);
	sys_close_range(0, (unsigned)report - 1);
	sys_close_range((unsigned)report + 1, UINT_MAX);
	if (chdir("/") < 0)
		_exit(1); /* it always can */
	for (;;) {
		got = wait4(-1, &status, 0, &ru);
		if (got == pid) {
			r = (struct run_report){.kind = RUN_ENDED, .value = status};
			run_usage(&r, &ru);
			send_report(report, &r);
		} else if (got < 0 && errno != EINTR) {
			_exit(0);
		}
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
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		supervise(&spec, to);
	*report = steal_fd(&from);
	return pid;
}
