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
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdlib.h>
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
		const char *seccomp = getenv("AGENT_SECCOMP");

		dup2(fd, 2);
		if (seccomp && !refuse_new_calls(atoi(seccomp)))
			_exit(98);
		if (getenv("AGENT_NO_WATCH") && !refuse_watches())
			_exit(97);
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

	kill(a->pid, SIGTERM);
	waitpid(a->pid, &status, 0);
	return status;
}

UNUSED static void agent_clean(struct agent *a)
{
	char cmd[128];

	agent_stop(a);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", a->dir);
	CHECK(system(cmd) == 0);
}

UNUSED static int client_connect(const struct agent *a)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/state/agent.sock", a->dir);
	for (int i = 0; i < 1000; i++) {
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

UNUSED static int client_hello(
	struct client *c, const struct agent *a, const char *name, struct proto_hello *h)
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
	wire_u32(&b, PROTO_VERSION);
	wire_u32(&b, PROTO_VERSION_MIN);
	buf_append(&b, session, sizeof(session));
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_hello(&c->in, h);
		CHECK(wire_end(&c->in));
	}
	return ret;
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

UNUSED static int do_lookup(
	struct client *c, uint64_t parent, const char *name, uint64_t new, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_LOOKUP);
	int ret;

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
		if (!attr->mode) /* none, and that may be remembered */
			ret = attr->cache == PROTO_CACHE_NAME ? ENOENT : EIO;
	}
	return ret;
}

UNUSED static int do_getattr(struct client *c, uint64_t node, uint64_t fh, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_GETATTR);
	int ret;

	wire_u64(&b, node);
	wire_u64(&b, fh);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_setattr(struct client *c, uint64_t node, uint64_t fh,
	const struct proto_setattr *set, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_SETATTR);
	int ret;

	wire_u64(&b, node);
	wire_u64(&b, fh);
	proto_put_setattr(&b, set);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_create(struct client *c, uint64_t parent, const char *name, uint64_t new,
	uint64_t fh, uint32_t flags, uint32_t mode, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_CREATE);
	int ret;

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	wire_u64(&b, fh);
	wire_u32(&b, flags);
	wire_u32(&b, mode);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_open(struct client *c, uint64_t node, uint64_t fh, uint32_t flags)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_OPEN);

	wire_u64(&b, node);
	wire_u64(&b, fh);
	wire_u32(&b, flags);
	return client_call(c, &b, at);
}

/* MKDIR, MKNOD: the same fields. */
UNUSED static int do_make(struct client *c, uint16_t type, uint64_t parent, const char *name,
	uint64_t new, uint32_t mode)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	wire_u32(&b, mode);
	return client_call(c, &b, at);
}

/* UNLINK, RMDIR. */
UNUSED static int do_remove(struct client *c, uint16_t type, uint64_t parent, const char *name)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, parent);
	wire_str(&b, name);
	return client_call(c, &b, at);
}

UNUSED static int do_rename(struct client *c, uint64_t parent, const char *name, uint64_t to,
	const char *newname, uint32_t flags)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_RENAME);

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, to);
	wire_str(&b, newname);
	wire_u32(&b, flags);
	return client_call(c, &b, at);
}

UNUSED static int do_write(
	struct client *c, uint64_t fh, uint64_t offset, const void *p, size_t n, uint32_t *written)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_WRITE);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_bytes(&b, p, n);
	ret = client_call(c, &b, at);
	if (!ret)
		*written = wire_get_u32(&c->in);
	return ret;
}

/* *p points into the reply. */
UNUSED static int do_read(
	struct client *c, uint64_t fh, uint64_t offset, uint32_t size, const uint8_t **p, size_t *n)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_READ);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_u32(&b, size);
	ret = client_call(c, &b, at);
	if (!ret) {
		*p = wire_get_bytes(&c->in, PROTO_MAX_DATA, n);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static void do_close(struct client *c, uint64_t fh)
{
	struct buf b;
	size_t at;

	buf_init(&b, PROTO_HEAD + 64);
	at = proto_begin(&b, PROTO_CLOSE, 0, 0, c->uid, c->gid);
	wire_u64(&b, fh);
	client_send(c, &b, at);
}

/* A message of numbers only, as most job messages are. */
UNUSED static int do_u64(struct client *c, uint16_t type, uint64_t value)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, value);
	return client_call(c, &b, at);
}

UNUSED static int do_job_open(struct client *c, uint64_t *job)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_OPEN);
	int ret;

	wire_u8(&b, PROTO_JOB_FOREGROUND);
	ret = client_call(c, &b, at);
	if (!ret)
		*job = wire_get_u64(&c->in);
	return ret;
}

UNUSED static int do_job_write(
	struct client *c, uint64_t job, uint64_t offset, const void *p, size_t n)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_WRITE);

	wire_u64(&b, job);
	wire_u64(&b, offset);
	wire_bytes(&b, p, n);
	return client_call(c, &b, at);
}

/* sets: pairs of tag and text, ended by a tag 0. */
struct set {
	uint8_t tag;
	const char *value;
};

UNUSED static int do_job_start(
	struct client *c, uint64_t job, const struct set *sets, uint32_t *pid)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_START);
	int ret;

	wire_u64(&b, job);
	for (; sets && sets->tag; sets++) {
		wire_u8(&b, sets->tag);
		wire_str(&b, sets->value);
	}
	ret = client_call(c, &b, at);
	if (!ret)
		*pid = wire_get_u32(&c->in);
	return ret;
}

UNUSED static int do_job(struct client *c, uint16_t type, uint64_t job, struct proto_job *j)
{
	int ret = do_u64(c, type, job);

	if (!ret) {
		proto_get_job(&c->in, j);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_job_kill(struct client *c, uint64_t job, uint32_t sig)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_KILL);

	wire_u64(&b, job);
	wire_u32(&b, sig);
	return client_call(c, &b, at);
}

/* All of a stream; free() it. */
UNUSED static char *do_job_read(struct client *c, uint64_t job, uint8_t stream, size_t *len)
{
	struct buf all;
	size_t n;

	buf_init(&all, 1u << 30);
	do {
		struct buf b;
		size_t at = client_begin(c, &b, PROTO_JOB_READ);
		const uint8_t *p;

		wire_u64(&b, job);
		wire_u8(&b, stream);
		wire_u64(&b, all.len);
		wire_u32(&b, PROTO_MAX_DATA);
		CHECK(client_call(c, &b, at) == 0);
		p = wire_get_bytes(&c->in, PROTO_MAX_DATA, &n);
		CHECK(wire_end(&c->in));
		CHECK(buf_append(&all, p, n) == 0);
	} while (n);
	if (len)
		*len = all.len;
	return buf_steal(&all);
}

/* Runs a text to its end; the job is left to be read. */
UNUSED static uint64_t run_job(
	struct client *c, const void *text, size_t n, const struct set *sets, struct proto_job *j)
{
	uint64_t job = 0;
	uint32_t pid;

	CHECK(do_job_open(c, &job) == 0);
	for (size_t at = 0; at < n; at += PROTO_MAX_DATA)
		CHECK(do_job_write(c, job, at, (const char *)text + at,
			      n - at < PROTO_MAX_DATA ? n - at : PROTO_MAX_DATA) == 0);
	CHECK(do_job_start(c, job, sets, &pid) == 0);
	CHECK(do_job(c, PROTO_JOB_WAIT, job, j) == 0);
	return job;
}

UNUSED static uint64_t run_text(struct client *c, const char *text, struct proto_job *j)
{
	return run_job(c, text, strlen(text), NULL, j);
}

UNUSED static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}
