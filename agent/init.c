/* SPDX-License-Identifier: MIT */
/*
 * PID 1 of a sandbox: makes what it needs, reaps, passes TERM on, and serves. The main thread,
 * which becomes the loop's. What fails here is told in HELLO; the agent serves on, so that somebody
 * can read it.
 */
#include "agent/init.h"

#include "agent/bounds.h"
#include "agent/cgroup.h"
#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/files.h"
#include "agent/idle.h"
#include "agent/jobs.h"
#include "agent/listen.h"
#include "agent/locks.h"
#include "agent/ps.h"
#include "agent/rights.h"
#include "agent/roster.h"
#include "agent/run.h"
#include "agent/server.h"
#include "agent/setup.h"
#include "agent/stats.h"
#include "agent/watch.h"
#include "agent/workspace.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NODE_FDS     1024
#define GRACE_MS     2000
#define REAP_MS	     500 /* after KILL */
#define REAP_BATCH   64
#define EXIT_BY_TERM 143

extern char **environ;

static struct {
	struct server_config server;
	struct launch_config launch;
	char trouble[PROTO_TEXT_MAX];
	bool stopping;	    /* TERM came */
	int64_t kill_at_ms; /* after pre_stop; 0: not that far */
	int64_t out_at_ms;  /* after KILL; 0: likewise */
	bool childless;	    /* when it was last asked */
	bool more_ended;    /* some are still to be reaped */
	bool stop;
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

/* Not all at once: they may end faster than they are reaped. tick() goes on with it. */
static void reap(void)
{
	struct rusage ru;
	int status, n = 0;
	pid_t pid = 1;

	while (n < REAP_BATCH && (pid = wait4(-1, &status, WNOHANG | WUNTRACED, &ru)) > 0) {
		n++;
		if (!WIFSTOPPED(status))
			roster_reaped(pid, status, &ru);
		else if (roster_supervises(pid))
			kill(pid, SIGCONT); /* else nobody hears of its job's end */
	}
	self.childless = pid < 0 && errno == ECHILD;
	self.more_ended = pid > 0;
	if (n)
		roster_have_reaped();
}

static void end_jobs(void)
{
	self.kill_at_ms = clock_ms() + GRACE_MS;
	roster_signal_all(SIGTERM);
}

static void on_signal(struct source *src, uint32_t events)
{
	struct signalfd_siginfo si;

	(void)events;
	creds_own();
	while (read(src->fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGCHLD || self.stopping)
			continue;
		self.stopping = true;
		if (!setup_stop())
			end_jobs();
	}
	reap();
}

static int init_signals(void)
{
	sigset_t set;

	run_init();
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
	int left;

	(void)arg;
	if (self.more_ended) {
		creds_own();
		reap();
	}
	left = sooner(sooner(roster_tick(), locks_tick()), sessions_expire());
	left = sooner(sooner(left, setup_tick()), idle_tick());
	if (self.more_ended)
		left = 0;
	if (self.stopping && !self.kill_at_ms && !setup_stopping()) {
		creds_own();
		end_jobs();
		reap();
	}
	/* Nobody is left to wait for, and the last words are stored. */
	if (self.kill_at_ms && self.childless && !roster_is_ending())
		self.stop = true;
	if (self.kill_at_ms) {
		int64_t now = clock_ms();

		if (now < self.kill_at_ms)
			return sooner(left, (int)(self.kill_at_ms - now));
		/* One round of KILL, a moment for the reaping, and out. */
		if (!self.out_at_ms) {
			creds_own();
			roster_signal_all(SIGKILL);
			now = clock_ms(); /* there may be many */
			self.out_at_ms = now + REAP_MS;
		}
		if (now >= self.out_at_ms)
			self.stop = true;
		return sooner(left, (int)(self.out_at_ms - now));
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
	user_init(o->groups);
	self.launch.user_spec = o->user;
	if (user_find(self.launch.root_fd, o->user, user, &err) < 0 ||
		rights_become(user, &err) < 0)
		trouble("the sandbox's user: %s", err.msg);
	self.server.uid = user->uid;
	self.server.gid = user->gid;
}

/* What must be there before anything runs. */
static void prepare(const struct init_options *o, int state_fd, struct user *user)
{
	struct err err = {0};
	int ret = setup_begin(state_fd, self.launch.root_fd, strcmp(o->setup, "1") == 0, &err);

	*user = (struct user){.home = "/"};
	if (ret < 0) {
		trouble("%s", err.msg);
		return;
	}
	find_user(o, user);
	ret = workspace_make(o->workspace, user);
	if (ret < 0)
		trouble("the workspace %s: %s", o->workspace, strerror(-ret));
	if (!self.trouble[0] && setup_files(self.launch.root_fd, &err) < 0)
		trouble("%s", err.msg);
}

/* What runs from the beginning. */
static void begin(const struct init_options *o)
{
	struct err err = {0};
	int ret;

	if (!self.trouble[0] && setup_defaults(&err) < 0)
		trouble("%s", err.msg);
	if (self.trouble[0]) {
		setup_give_up();
		return;
	}
	ret = o->command ? jobs_main(o->command) : 0;
	if (ret < 0)
		trouble("the main command: %s", strerror(-ret));
	setup_start(&self.launch);
}

int init_run(const struct init_options *o)
{
	struct err err = {0};
	struct user user;
	unsigned node_fds;
	int state_fd, listen_fd = -1, ret;

	if (o->caps && bounds_keep(o->caps, &err) < 0) {
		log_error("%s", err.msg);
		return 1;
	}
	/* Before anything of ours is open. */
	if (o->listen && (listen_fd = listen_inherited(o->listen, &err)) < 0) {
		log_error("%s", err.msg);
		return 1;
	}
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
	prepare(o, state_fd, &user);
	creds_init(&user);
	cgroup_init();
	stats_init();
	ps_init(self.launch.root_fd);
	files_init(self.launch.root_fd);
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
	if (!ret && listen_fd < 0)
		ret = listen_fd = listen_at(o->state);
	if (ret >= 0)
		ret = server_init(listen_fd, &self.server);
	if (ret < 0) {
		log_error("cannot serve: %s", strerror(-ret));
		return 1;
	}
	begin(o);
	loop_run(tick, NULL, &self.stop);
	return EXIT_BY_TERM;
}
