/* SPDX-License-Identifier: MIT */
/*
 * The launcher of embedded sandboxes: a program of its own, because what it does (namespaces,
 * mounts, limits) is a process's, not a thread's. One thread. Its standard output is the engine's
 * pipe: `error CODE WORDS` where it fails.
 *
 * - `launch check DIR`: can sandboxes be run here? prints `ids COUNT`, and `overlay` where DIR can
 *   have such
 * - `launch run BOX AGENT [CGROUP...]`: starts the sandbox in the directory BOX, in these groups;
 *   a child stays behind as bwrap
 * - `launch unpack ARCHIVE DIR`: unpacks an image; prints `bytes N` now and then
 * - `launch remove DIR`: empties DIR
 */
#include "bwrap/filter.h"
#include "bwrap/ids.h"
#include "bwrap/logger.h"
#include "bwrap/plan.h"
#include "bwrap/record.h"
#include "bwrap/stage.h"
#include "bwrap/tree.h"
#include "bwrap/ulimit.h"
#include "bwrap/unpack_main.h"
#include "common/buf.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define ARGS_MAX      (16u << 20)
#define LOG_TAIL      300
#define UNPACK_MEMORY (2ull << 30)

/* The descriptors that bwrap and the agent are told of by number. */
enum { FD_LISTEN = 3, FD_ARGS, FD_STATUS, FD_FILTER, FD_INFO, FD_FREE };

static int failed(const struct err *err)
{
	printf("error %d %s\n", err->code, err->msg);
	fflush(stdout);
	return 1;
}

static int unshare_mounts(struct err *err)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_set(err, errno, "no mount namespace: %s", strerror(errno));
	return 0;
}

/* In the order of enter(). */
static int check(const char *dir)
{
	bool user = getuid() != 0, overlay = false;
	struct err err = {0};
	unsigned count = 1;
	int r = 0;

	if (user)
		r = ids_enter(&count, &err);
	r = r < 0 ? r : unshare_mounts(&err);
	if (r == 0)
		overlay = stage_overlay(dir, user);
	if (r == 0 && !user)
		r = ids_enter(&count, &err);
	r = r < 0 ? r : ids_enclose(count, 0, &err);
	r = r < 0 ? r : ids_close(&err);
	if (r < 0)
		return failed(&err);
	printf("ids %u\n%s", count, overlay ? "overlay\n" : "");
	return 0;
}

static int join(const char *cgroup, struct err *err)
{
	char path[4096];
	cleanup_close int fd = -1;

	/* Version 1's `tasks` moves a thread, and we are one: `cgroup.procs` would wait for all
	 * processors of the machine to come by, which takes 20 ms. */
	snprintf(path, sizeof(path), "%s/tasks", cgroup);
	if (access(path, F_OK) < 0)
		snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int set_limit(const char *const *w, bool raise, struct err *err)
{
	int resource = ulimit_named(w[1]);
	struct rlimit own, limit = {.rlim_cur = ulimit_value(strtoll(w[2], NULL, 10)),
				   .rlim_max = ulimit_value(strtoll(w[3], NULL, 10))};

	if (resource < 0)
		return err_set(err, EINVAL, "ulimits.%s is not known", w[1]);
	if (getrlimit((__rlimit_resource_t)resource, &own) < 0)
		return err_set(err, errno, "ulimits.%s: %s", w[1], strerror(errno));
	if (raise) {
		if (resource == RLIMIT_NPROC || ulimit_within(limit.rlim_max, own.rlim_max))
			return 0;
		limit.rlim_cur = own.rlim_cur;
	} else if (resource == RLIMIT_NPROC) {
		/* Without cgroups pids_limit is this limit too (ids_enclose): the lower one of both
		 * holds. */
		if (!ulimit_within(limit.rlim_max, own.rlim_max))
			limit.rlim_max = own.rlim_max;
		if (!ulimit_within(limit.rlim_cur, own.rlim_max))
			limit.rlim_cur = own.rlim_max;
	}
	if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return err_set(err, errno, "ulimits.%s: %s", w[1], strerror(errno));
	return 0;
}

/* raise: before the namespace, where root may still do so, and no more than that: what is lowered
 * is to hold the sandbox, not us. Then, just before we become bwrap, all. */
static int set_limits(const struct plan *p, bool raise, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1)
		if (strcmp(p->words[i], "rlimit") == 0)
			r = set_limit(&p->words[i], raise, err);
	return r;
}

/* Bound in the box's directory, which the sandbox does not see: nobody inside can put another
 * socket in its place. */
static int listen_here(struct err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "agent.sock"};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(addr.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 64) < 0)
		return err_set(err, errno, "the agent's socket: %s", strerror(errno));
	return fd;
}

static void word(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s) + 1);
}

static void words(struct buf *b, const char *const *list)
{
	for (; *list; list++)
		word(b, *list);
}

/* bwrap's options, by a descriptor: a command line is everybody's to read, and secrets may be in
 * the environment. */
static int put_args(const struct plan *p, struct err *err)
{
	static const char *const always[] = {"--unshare-ipc", "--unshare-pid", "--unshare-uts",
		"--unshare-cgroup", "--as-pid-1", "--new-session", "--dev-bind", STAGE_ROOT, "/",
		"--proc", "/proc", "--chdir", "/", "--clearenv", "--cap-drop", "ALL",
		/* With which the agent gives up the rest of the bounding set, and then it. */
		"--cap-add", "CAP_SETPCAP", NULL};
	bool net = false;
	struct buf b;
	int fd;

	buf_init(&b, ARGS_MAX);
	words(&b, always);
	/* It tells of keys by the user's id, in whatever namespace they are. */
	if (access("/proc/keys", F_OK) == 0)
		words(&b, (const char *const[]){
				  "--dev-bind", STAGE_ROOT "/dev/null", "/proc/keys", NULL});
	for (size_t i = 0; i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1) {
		const char *const *w = &p->words[i];

		if (strcmp(w[0], "env") == 0)
			words(&b, (const char *const[]){"--setenv", w[1], w[2], NULL});
		else if (strcmp(w[0], "cap") == 0)
			words(&b, (const char *const[]){"--cap-add", w[1], NULL});
		else if (strcmp(w[0], "hostname") == 0)
			words(&b, (const char *const[]){"--hostname", w[1], NULL});
		else if (strcmp(w[0], "shm") == 0)
			words(&b, (const char *const[]){"--perms", "1777", "--size", w[1],
					  "--tmpfs", "/dev/shm", NULL});
		net |= strcmp(w[0], "share-net") == 0;
	}
	if (!net)
		word(&b, "--unshare-net");
	fd = memfd_create("args", MFD_CLOEXEC);
	if (b.error || fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len ||
		lseek(fd, 0, SEEK_SET))
		err_set(err, ENOMEM, "out of memory");
	buf_fini(&b);
	return err->code ? -err->code : fd;
}

/* The first line of the status file says in which life of the machine it was written. */
static int open_status(struct err *err)
{
	int fd = open(STATUS_NEW, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	cleanup_close int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char id[64] = "";
	ssize_t n = boot < 0 ? 0 : read(boot, id, sizeof(id) - 1);

	if (n > 0 && id[n - 1] == '\n')
		id[n - 1] = 0;
	if (fd < 0 || dprintf(fd, "{ \"boot\": \"%s\" }\n", id) < 0)
		return err_set(err, errno, "the sandbox's status: %s", strerror(errno));
	return fd;
}

/* Puts each at its number from `first` on, inherited, and the rest out of the way. */
static int place(int *fds, int first, int n)
{
	for (int i = 0; i < n; i++) {
		int high = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);

		if (high < 0)
			return -errno;
		close(fds[i]);
		fds[i] = high;
	}
	for (int i = 0; i < n; i++)
		if (dup2(fds[i], first + i) < 0)
			return -errno;
	return close_range((unsigned)(first + n), ~0u, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int start_bwrap(const struct plan *p, int *fds, int print_fd)
{
	const char **argv = calloc(p->n_words + 16, sizeof(*argv));
	char *const env[] = {(char[]){"PATH=/usr/local/bin:/usr/bin:/bin"}, NULL};
	struct err err = {0};
	size_t n = 0;
	int r;

	if (!argv)
		return -ENOMEM;
	argv[n++] = "bwrap";
	argv[n++] = "--args";
	argv[n++] = "4";
	argv[n++] = "--json-status-fd";
	argv[n++] = "5";
	argv[n++] = "--seccomp";
	argv[n++] = "6";
	argv[n++] = "--info-fd";
	argv[n++] = "7";
	argv[n++] = "--";
	for (size_t i = 0; i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1)
		if (strcmp(p->words[i], "exec") == 0)
			argv[n++] = p->words[i + 1];
	r = dup2(print_fd, STDERR_FILENO) < 0 || dup2(print_fd, STDOUT_FILENO) < 0 ? -errno : 0;
	r = r < 0 ? r : place(fds, FD_LISTEN, FD_FREE - FD_LISTEN);
	r = r < 0 ? r : set_limits(p, false, &err);
	if (r == 0) {
		execve(STAGE_BWRAP, (char *const *)(uintptr_t)argv, env);
		r = -errno;
	}
	free(argv);
	/* Into the log, where see_off() finds it. */
	dprintf(STDERR_FILENO, "bwrap cannot be started: %s\n", err.code ? err.msg : strerror(-r));
	return r;
}

/* Root mounts first, with all its rights, and enters then; others can mount only inside. */
static int enter(const struct plan *p, const char *agent, char *const *groups, struct err *err)
{
	bool user = getuid() != 0;
	unsigned long processes = 0;
	unsigned count = 1;
	int r = 0;

	if (user)
		r = ids_enter(&count, err);
	r = r < 0 ? r : unshare_mounts(err);
	r = r < 0 ? r : stage_make(p, agent, groups, user, err);
	r = r < 0 ? r : stage_enter(err);
	if (r == 0 && !user)
		r = ids_enter(&count, err);
	for (size_t i = 0; i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1)
		if (strcmp(p->words[i], "pids") == 0)
			processes = strtoul(p->words[i + 1], NULL, 10);
	r = r < 0 ? r : ids_enclose(count, processes, err);
	return r < 0 ? r : ids_close(err);
}

/* Has bwrap said which process it is? It says so in pieces, the last of which ends a line. */
static bool has_pid(int status_fd)
{
	char text[1024];
	ssize_t n = pread(status_fd, text, sizeof(text) - 1, 0);
	const char *at;

	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "\"child-pid\"");
	return at && strchr(at, '\n');
}

/* Waits until there is a sandbox, and its status is whole. */
static int see_off(pid_t bwrap, pid_t logger, int info_fd, int status_fd, int log_fd)
{
	const struct timespec moment = {.tv_nsec = 100000};
	struct err err = {0};
	char text[LOG_TAIL];
	bool there;

	/* Its end is near: bwrap closes it just before it writes the status. */
	while (read(info_fd, text, sizeof(text)) > 0)
		;
	while (!(there = has_pid(status_fd)) && waitpid(bwrap, NULL, WNOHANG) == 0)
		nanosleep(&moment, NULL);
	if (there)
		return 0;
	kill(-bwrap, SIGKILL);	  /* its child may wait for it for ever, and holds the log open */
	waitpid(logger, NULL, 0); /* it has then written all that bwrap said */
	logger_last(log_fd, text, sizeof(text));
	err_set(&err, EIO, "bwrap did not start the sandbox: %s",
		text[0] ? text : "it said nothing");
	return failed(&err);
}

static int run(int argc, char **argv)
{
	cleanup_close int box = open(argv[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};
	struct plan plan = {0};
	int fds[FD_FREE - FD_LISTEN], info[2], null = -1, log_fd = -1, print_fd = -1, r = 0;
	pid_t pid, logger;

	if (box < 0 || fchdir(box) < 0)
		r = err_set(&err, errno, "%s: %s", argv[0], strerror(errno));
	/* Not the session's keys. Where there are too many keyrings the filter alone keeps them. */
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	r = r < 0 ? r : plan_read(box, &plan, &err);
	for (int i = 2; r == 0 && i < argc; i++)
		r = join(argv[i], &err);
	r = r < 0 ? r : set_limits(&plan, true, &err);
	r = r < 0 ? r : (fds[0] = listen_here(&err));
	r = r < 0 ? r : (fds[1] = put_args(&plan, &err));
	r = r < 0 ? r : (fds[2] = open_status(&err));
	r = r < 0 ? r : (fds[3] = filter_open(&err));
	if (r >= 0) {
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		log_fd = open("log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (null < 0 || log_fd < 0 || dup2(null, STDIN_FILENO) < 0)
			r = err_set(&err, errno, "the sandbox's log: %s", strerror(errno));
	}
	r = r < 0 ? r : enter(&plan, argv[1], argv + 2, &err);
	r = r < 0 ? r : (print_fd = logger_start(log_fd, &logger, &err));
	if (r >= 0 && pipe2(info, O_CLOEXEC) < 0)
		r = err_set(&err, errno, "no pipe: %s", strerror(errno));
	if (r < 0)
		return failed(&err);
	/* The engine waits for us, and is not to wait for the sandbox. */
	pid = fork();
	if (pid < 0) {
		err_set(&err, errno, "no process: %s", strerror(errno));
		return failed(&err);
	}
	if (pid > 0) {
		close(info[1]);
		close(print_fd);
		return see_off(pid, logger, info[0], fds[2], log_fd);
	}
	fds[4] = info[1];
	setsid();
	start_bwrap(&plan, fds, print_fd);
	_exit(1);
}

/* The program that unpacks stands beside this one; opened while we still may walk there. */
static int open_unpack(struct err *err)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("unpack"));
	int fd = -1;

	if (n > 0) {
		path[n] = 0;
		snprintf(strrchr(path, '/') + 1, sizeof("unpack"), "unpack");
		fd = open(path, O_PATH | O_CLOEXEC);
	}
	return fd < 0 ? err_set(err, errno, "the program that unpacks: %s", strerror(errno)) : fd;
}

static int unpack(char **argv)
{
	const struct rlimit memory = {.rlim_cur = UNPACK_MEMORY, .rlim_max = UNPACK_MEMORY};
	int fds[] = {open(argv[0], O_RDONLY | O_CLOEXEC),
		open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1};
	char count_text[16];
	char *const args[] = {(char[]){"unpack"}, count_text, argv[0], NULL}, *const env[] = {NULL};
	struct err err = {0};
	unsigned count = 0;
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++)
		if (fds[i] < 0 || (i == 1 && !getuid() && fchown(fds[i], IDS_BASE, IDS_BASE) < 0))
			r = err_set(&err, errno, "%s: %s", argv[i], strerror(errno));
	r = r < 0 ? r : (fds[2] = open_unpack(&err));
	r = r < 0 ? r : ids_enter(&count, &err);
	r = r < 0 ? r : ids_close(&err);
	/* Nobody is to fill a directory that the next daemon removes, nor the memory with lists in
	 * an archive. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (r == 0 && setrlimit(RLIMIT_DATA, &memory) < 0)
		r = err_set(&err, errno, "a limit of memory: %s", strerror(errno));
	if (r == 0 && (place(fds, UNPACK_ARCHIVE_FD, 3) < 0 || fchdir(UNPACK_DIR_FD) < 0))
		r = err_set(&err, errno, "%s: %s", argv[1], strerror(errno));
	if (r == 0) {
		snprintf(count_text, sizeof(count_text), "%u", count);
		fcntl(UNPACK_DIR_FD + 1, F_SETFD, FD_CLOEXEC);
		execveat(UNPACK_DIR_FD + 1, "", args, env, AT_EMPTY_PATH);
		err_set(&err, errno, "the program that unpacks: %s", strerror(errno));
	}
	return failed(&err);
}

static int empty(char **argv)
{
	cleanup_close int dir = open(argv[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err err = {0};
	unsigned count;
	int r = 0;

	if (dir < 0)
		r = err_set(&err, errno, "%s: %s", argv[0], strerror(errno));
	if (r == 0 && getuid() != 0)
		r = ids_enter(&count, &err);
	r = r < 0 ? r : tree_empty(dir, &err);
	return r < 0 ? failed(&err) : 0;
}

int main(int argc, char **argv)
{
	umask(022);
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check(argv[2]);
	if (argc >= 4 && strcmp(argv[1], "run") == 0)
		_exit(run(argc - 2, argv + 2)); /* its memory goes with it */
	if (argc == 4 && strcmp(argv[1], "unpack") == 0)
		return unpack(argv + 2);
	if (argc == 3 && strcmp(argv[1], "remove") == 0)
		return empty(argv + 2);
	fputs("usage: launch check DIR | run BOX AGENT [CGROUP...] | unpack ARCHIVE DIR | remove "
	      "DIR\n",
		stderr);
	return 2;
}
