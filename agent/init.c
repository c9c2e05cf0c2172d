/* SPDX-License-Identifier: MIT */
/*
 * PID 1 of a sandbox: makes what it needs, reaps, passes TERM on, and serves. The main thread,
 * which becomes the loop's. What fails here is told in HELLO; the agent serves on, so that somebody
 * can read it.
 */
#include "agent/init.h"

#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/job.h"
#include "agent/jobs.h"
#include "agent/locks.h"
#include "agent/server.h"
#include "agent/watch.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define NODE_FDS     1024
#define GRACE_MS     2000
#define EXIT_BY_TERM 143

extern char **environ;

static struct {
	struct server_config server;
	struct launch_config launch;
	char trouble[PROTO_TEXT_MAX];
	int64_t kill_at_ms; /* after TERM; 0: not stopping */
	bool killed, stop;
} self;

static struct source signals = {.fd = -1};

static void __attribute__((format(printf, 1, 2))) trouble(const char *fmt, ...)
{
	size_t used = strlen(self.trouble);
	va_list ap;

	if (used && used < sizeof(self.trouble) - 3) {
		memcpy(self.trouble + used, "; ", 3);
		used += 2;
	}
	va_start(ap, fmt);
	vsnprintf(self.trouble + used, sizeof(self.trouble) - used, fmt, ap);
	va_end(ap);
	log_error("%s", self.trouble + used);
}

static bool is_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool empty = d;

	while (empty && (e = readdir(d)))
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	if (d)
		closedir(d);
	return empty;
}

/* A fresh volume or tmpfs in the workspace's place is root's until somebody says otherwise. */
static bool is_fresh_mount(const char *path)
{
	struct stat here, up;
	char parent[PATH_MAX + 4];

	snprintf(parent, sizeof(parent), "%s/..", path);
	return stat(path, &here) == 0 && stat(parent, &up) == 0 && here.st_dev != up.st_dev &&
	       here.st_uid == 0 && is_empty(path);
}

/* mkdir -p, where what is new belongs to the sandbox's user. */
static int make_workspace(const char *path, const struct user *user)
{
	char part[PATH_MAX];
	size_t n = 0;

	if (strlen(path) >= sizeof(part) || path[0] != '/')
		return -EINVAL;
	while (path[n]) {
		n += strspn(path + n, "/");
		n += strcspn(path + n, "/");
		memcpy(part, path, n);
		part[n] = 0;
		if (mkdir(part, 0755) == 0) {
			if (user->uid != geteuid() && chown(part, user->uid, user->gid) < 0)
				return -errno;
		} else if (errno != EEXIST && errno != EISDIR && errno != EROFS) {
			return -errno;
		}
	}
	if (access(path, F_OK) < 0)
		return errno == ENOENT ? -EROFS : -errno;
	if (user->uid && is_fresh_mount(path) && chown(path, user->uid, user->gid) < 0)
		return -errno;
	return 0;
}

/* The three standard descriptors exist, so that no other file gets their numbers. */
static void fill_standard_fds(void)
{
	int fd, p[2];

	do {
		fd = open("/dev/null", O_RDWR);
		if (fd < 0 && pipe(p) == 0)
			fd = p[1];
	} while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

static int listen_at(const char *dir)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	cleanup_close int fd = -1;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/agent.sock", dir) >=
		(int)sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(addr.sun_path);
	/* The directory is closed to others; so is the socket itself. */
	umask(0177);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	umask(0);
	if (listen(fd, 64) < 0)
		return -errno;
	return steal_fd(&fd);
}

static void reap(void)
{
	struct rusage ru;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0)
		job_reaped(pid, status, &ru);
	/* Stopping, and nobody is left to wait for. */
	if (self.kill_at_ms && pid < 0 && errno == ECHILD)
		self.stop = true;
}

static void on_signal(struct source *src, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	while (read(src->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD || self.kill_at_ms)
			continue;
		self.kill_at_ms = clock_ms() + GRACE_MS;
		job_signal_all(SIGTERM);
	}
	reap();
}

static int init_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals.fd < 0)
		return -errno;
	signals.ready = on_signal;
	return loop_add(&signals, EPOLLIN);
}

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int tick(void *arg)
{
	int left = sooner(sooner(job_tick(), locks_tick()), sessions_expire());

	(void)arg;
	if (self.kill_at_ms) {
		int64_t grace = self.kill_at_ms - clock_ms();

		if (grace > 0)
			return sooner(left, (int)grace);
		/* One round of KILL, a moment for the reaping, and out. */
		if (self.killed)
			self.stop = true;
		self.killed = true;
		job_signal_all(SIGKILL);
		return 100;
	}
	return left;
}

/* More descriptors for us; the commands get what the container has. */
static unsigned raise_limit(struct rlimit *files)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, files) < 0)
		return 64;
	more = *files;
	if (more.rlim_max > 65536)
		more.rlim_max = 65536;
	if (more.rlim_cur < more.rlim_max) {
		more.rlim_cur = more.rlim_max;
		more.rlim_max = files->rlim_max;
		setrlimit(RLIMIT_NOFILE, &more);
	}
	getrlimit(RLIMIT_NOFILE, &more);
	return more.rlim_cur / 4 < NODE_FDS ? (unsigned)more.rlim_cur / 4 : NODE_FDS;
}

/* Opens the state directory; -errno: nothing can be served from there. */
static int open_state(const char *state)
{
	int fd;

	if (mkdir(state, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (chmod(state, 0700) < 0)
		log_warn("%s: %s", state, strerror(errno));
	fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void find_user(const struct init_options *o, struct user *user)
{
	struct err err = {0};

	*user = (struct user){.home = "/"};
	self.launch.user_spec = o->user;
	if (user_find(self.launch.root_fd, o->user, user, &err) < 0)
		trouble("the sandbox's user: %s", err.msg);
	self.server.uid = user->uid;
	self.server.gid = user->gid;
}

int init_run(const struct init_options *o)
{
	struct user user;
	unsigned node_fds;
	int state_fd, listen_fd, ret;

	umask(0);
	fill_standard_fds();
	node_fds = raise_limit(&self.launch.files);
	if (getpid() != 1)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	self.launch.root_fd = open(o->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	state_fd = open_state(o->state);
	if (self.launch.root_fd < 0 || state_fd < 0) {
		log_error("%s: %s", state_fd < 0 ? o->state : o->root,
			strerror(state_fd < 0 ? -state_fd : errno));
		return 1;
	}
	self.launch.workspace = self.server.workspace = o->workspace;
	self.launch.envp = environ;
	self.server.trouble = self.trouble;
	find_user(o, &user);
	ret = make_workspace(o->workspace, &user);
	if (ret < 0)
		trouble("the workspace %s: %s", o->workspace, strerror(-ret));
	creds_init(&user);
	sessions_init(self.launch.root_fd, o->workspace, node_fds);
	ret = loop_init();
	if (!ret)
		watch_init();
	if (!ret)
		ret = init_signals();
	if (!ret)
		ret = locks_init();
	if (!ret)
		ret = jobs_init(state_fd, &self.launch);
	listen_fd = ret < 0 ? ret : listen_at(o->state);
	if (listen_fd >= 0)
		ret = server_init(listen_fd, &self.server);
	if (listen_fd < 0 || ret < 0) {
		log_error("cannot serve: %s", strerror(ret < 0 ? -ret : -listen_fd));
		return 1;
	}
	if (o->command) {
		ret = jobs_main(o->command);
		if (ret < 0)
			trouble("the main command: %s", strerror(-ret));
	}
	loop_run(tick, NULL, &self.stop);
	return EXIT_BY_TERM;
}
