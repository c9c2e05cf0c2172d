/* SPDX-License-Identifier: MIT */
/* A daemon's end of the protocol for tests of the agent: blocking, one request at a time unless the
 * test says otherwise. The agent is AGENT_TWIN (environment), a real process in a directory of its
 * own. */
#pragma once

#include "check.h"
#include "common/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

struct agent {
	pid_t pid;
	char dir[64];
};

struct client {
	int fd;
	uint64_t next_id;
	uint32_t uid, gid;
	struct buf frame; /* the last reply's body */
	struct wire_in in;
	struct proto_head head;
};

UNUSED static const char *agent_path(void)
{
	const char *p = getenv("AGENT_TWIN");

	return p ? p : "agent/agent-twin";
}

/* As an engine's seccomp profile would: two calls fail with that errno. */
UNUSED static bool refuse(uint32_t call, uint32_t other, int code)
{
	struct sock_filter code_of[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code_of) / sizeof(*code_of), .filter = code_of};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

/* openat2 and faccessat2 fail with AGENT_SECCOMP's errno. True: they do. */
UNUSED static bool refuse_new_calls(int code)
{
	return refuse(SYS_openat2, SYS_faccessat2, code) &&
	       syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0) < 0 && errno == code &&
	       syscall(SYS_faccessat2, AT_FDCWD, "/", 0, 0) < 0 && errno == code;
}

/* AGENT_NO_WATCH: as on a machine whose containers have used up its inotify watches. */
UNUSED static bool refuse_watches(void)
{
	return refuse(SYS_inotify_add_watch, SYS_inotify_add_watch, ENOSPC) &&
	       syscall(SYS_inotify_add_watch, -1, "/", 0) < 0 && errno == ENOSPC;
}

/* AGENT_WATCHES: the agent reads that as the machine's limit of inotify watches. */
UNUSED static bool limit_watches(const struct agent *a, const char *n)
{
	char file[96];
	int fd;

	snprintf(file, sizeof(file), "%s/watches", a->dir);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd >= 0 && write(fd, n, strlen(n)) == (ssize_t)strlen(n) &&
	       unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount(file, "/proc/sys/fs/inotify/max_user_watches", NULL, MS_BIND, NULL) == 0;
}

/* In a.dir: state, workspace, log. */
UNUSED static void agent_exec(struct agent *a, const char *user)
{
	char state[96], ws[96], log[96];

	snprintf(state, sizeof(state), "%s/state", a->dir);
	snprintf(ws, sizeof(ws), "%s/ws", a->dir);
	snprintf(log, sizeof(log), "%s/log", a->dir);
	a->pid = fork();
	CHECK(a->pid >= 0);
	if (a->pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		const char *seccomp = getenv("AGENT_SECCOMP"), *few = getenv("AGENT_WATCHES");

		dup2(fd, 2);
		if (seccomp && !refuse_new_calls(atoi(seccomp)))
			_exit(98);
		if (getenv("AGENT_NO_WATCH") && !refuse_watches())
			_exit(97);
		if (few && !limit_watches(a, few))
			_exit(96);
		execl(agent_path(), "agent", "init", "--state", state, "--root", "/", "--workspace",
			ws, "--user", user, (char *)NULL);
		_exit(99);
	}
}

UNUSED static void agent_start(struct agent *a, const char *user)
{
	strcpy(a->dir, "/tmp/agent-test-XXXXXX");
	CHECK(mkdtemp(a->dir));
	chmod(a->dir, 0755);
	agent_exec(a, user);
}

UNUSED static int agent_stop(struct agent *a)
{
	int status = 0;

	if (a->pid <= 0)
		return 0; /* it had ended before, and the number may be another's */
	kill(a->pid, SIGTERM);
	waitpid(a->pid, &status, 0);
	a->pid = 0;
	return status;
}

UNUSED static void agent_clean(struct agent *a)
{
	char cmd[128];
	int status = agent_stop(a);

	/* A sanitizer, or a crash: the log says more. 0: it had ended before. */
	if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == 143)) {
		printf("# the agent ended with status 0x%x\n", (unsigned)status);
		snprintf(cmd, sizeof(cmd), "cat %s/log", a->dir);
		check_failed++;
		CHECK(system(cmd) == 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", a->dir);
	CHECK(system(cmd) == 0);
}

/* The beginning of each of these programs. False: they cannot be run. */
UNUSED static bool may_test(void)
{
	if (geteuid() != 0) {
		puts("1..0 # SKIP not root");
		return false;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022);
	return true;
}

/* A file in the workspace, as we see it; good for three more calls. */
UNUSED static char *ws_path(const struct agent *a, const char *name)
{
	static char p[4][512];
	static unsigned i;
	char *s = p[i++ % 4];

	snprintf(s, 512, "%s/ws/%s", a->dir, name);
	return s;
}

UNUSED static void put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

UNUSED static int client_connect(const struct agent *a)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/state/agent.sock", a->dir);
	for (int i = 0; i < 6000; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct timespec ts = {.tv_nsec = 10000000};

		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
			return fd;
		close(fd);
		nanosleep(&ts, NULL);
	}
	return -1;
}

UNUSED static void write_all(int fd, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL);

		CHECK(w > 0);
		at += w;
		n -= (size_t)w;
	}
}

UNUSED static bool read_all(int fd, void *p, size_t n)
{
	uint8_t *at = p;

	while (n) {
		ssize_t r = read(fd, at, n);

		if (r <= 0)
			return false;
		at += r;
		n -= (size_t)r;
	}
	return true;
}

/* The next frame from the agent; false: the connection has ended. */
UNUSED static bool client_recv(struct client *c)
{
	uint8_t raw[PROTO_HEAD], *p;

	if (!read_all(c->fd, raw, sizeof(raw)))
		return false;
	CHECK(proto_head(raw, &c->head) == 0);
	buf_reset(&c->frame);
	p = buf_reserve(&c->frame, c->head.len + 1);
	CHECK(p);
	if (!read_all(c->fd, p, c->head.len))
		return false;
	c->frame.len = c->head.len;
	c->in = wire_in(c->frame.data, c->frame.len);
	return true;
}

/* Builds a request in *b; the caller adds fields, then client_send(). */
UNUSED static size_t client_begin(struct client *c, struct buf *b, uint16_t type)
{
	buf_init(b, PROTO_HEAD + PROTO_MAX_BODY);
	return proto_begin(b, type, 0, ++c->next_id, c->uid, c->gid);
}

UNUSED static void client_send(struct client *c, struct buf *b, size_t begun)
{
	CHECK(proto_end(b, begun) == 0);
	write_all(c->fd, b->data, b->len);
	buf_fini(b);
}

/* Sends and waits for the reply, whose error (positive) is returned; its body is in c->in. */
UNUSED static int client_call(struct client *c, struct buf *b, size_t begun)
{
	uint64_t id = c->next_id;

	client_send(c, b, begun);
	CHECK(client_recv(c));
	CHECK(c->head.id == id);
	return c->head.error;
}

UNUSED static int client_hello_as(struct client *c, const struct agent *a, const char *name,
	uint32_t version, struct proto_hello *h)
{
	struct buf b;
	size_t at;
	uint8_t session[PROTO_SESSION] = {0};
	int ret;

	*c = (struct client){.fd = client_connect(a)};
	CHECK(c->fd >= 0);
	buf_init(&c->frame, PROTO_HEAD + PROTO_MAX_BODY);
	memcpy(session, name, strnlen(name, sizeof(session)));
	at = client_begin(c, &b, PROTO_HELLO);
	wire_u32(&b, PROTO_MAGIC);
	wire_u32(&b, version);
	wire_u32(&b, PROTO_VERSION_MIN);
	buf_append(&b, session, sizeof(session));
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_hello(&c->in, h);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int client_hello(
	struct client *c, const struct agent *a, const char *name, struct proto_hello *h)
{
	return client_hello_as(c, a, name, PROTO_VERSION, h);
}

UNUSED static void client_open(struct client *c, const struct agent *a, const char *name)
{
	struct proto_hello h = {0};

	CHECK(client_hello(c, a, name, &h) == 0);
	CHECK(h.version == PROTO_VERSION);
	proto_hello_fini(&h);
}

UNUSED static void client_close(struct client *c)
{
	close(c->fd);
	buf_fini(&c->frame);
}

UNUSED static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}
