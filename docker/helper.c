/* SPDX-License-Identifier: MIT */
/*
 * The program is a child with two pipes and a process group of its own, so that what it may have
 * started ends with it. Its standard error is ours. It is waited for by its pidfd: nothing here
 * touches other children. Owns nothing between calls.
 */
#include "docker/helper.h"

#include "common/cleanup.h"
#include "sandbox/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define HELPER_MS   10000
#define SERVER_MAX  4096u
#define PREFIX	    "docker-credential-"
#define NAME_MAX_ED 64u

extern char **environ;

struct helper {
	pid_t pid;
	int out; /* its standard output */
	int stop_fd;
	int64_t end_ms;
};

/* A name, not a path: it comes from a file, and is looked for in PATH only. */
static bool is_name(const char *s)
{
	return *s && strlen(s) <= NAME_MAX_ED && !strchr(s, '/');
}

static int spawn(struct helper *h, const char *name, int in, int out)
{
	char program[sizeof(PREFIX) + NAME_MAX_ED + 1], get[] = "get";
	char *argv[] = {program, get, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	snprintf(program, sizeof(program), PREFIX "%s", name);
	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files))
		return -ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return -ENOMEM;
	}
	r = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	r = r ? r : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	r = r ? r : posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
	r = r ? r : posix_spawnattr_setsigmask(&attr, &none);
	r = r ? r : posix_spawnattr_setsigdefault(&attr, &all);
	r = r ? r
	      : posix_spawnattr_setflags(&attr,
			POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = r ? r : posix_spawnp(&h->pid, program, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* The server's name is less than a pipe holds, so nobody is waited for. */
static int start(struct helper *h, const char *name, const char *server)
{
	int in[2], out[2], r = 0;
	size_t len = strlen(server);

	if (pipe2(in, O_CLOEXEC))
		return -errno;
	if (pipe2(out, O_CLOEXEC)) {
		r = -errno;
		close(in[0]);
		close(in[1]);
		return r;
	}
	if (len > SERVER_MAX || write(in[1], server, len) != (ssize_t)len)
		r = -EINVAL;
	r = r ? r : spawn(h, name, in[0], out[1]);
	close(in[0]);
	close(in[1]);
	close(out[1]);
	if (r)
		close(out[0]);
	else
		h->out = out[0];
	return r;
}

/* Waits for fd, the time's end, or the stop. */
static int wait_fd(const struct helper *h, int fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = h->stop_fd, .events = POLLIN}};
	int64_t left = h->end_ms - loop_now_ms();
	int n = poll(p, 2, left > 0 ? (int)left : 0);

	if (n < 0 && errno != EINTR)
		return -errno;
	if (p[1].revents)
		return -EINTR;
	if (n == 0)
		return -ETIMEDOUT;
	return 0;
}

static int read_all(const struct helper *h, struct buf *out)
{
	char chunk[4096];
	ssize_t n;
	int r;

	for (;;) {
		r = wait_fd(h, h->out);
		if (r < 0)
			return r;
		n = read(h->out, chunk, sizeof(chunk));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0 && buf_append(out, chunk, (size_t)n))
			return out->error;
	}
}

/* The exit status, or -errno; it is dead and gone either way. */
static int finish(const struct helper *h, int r)
{
	cleanup_close int pidfd = pidfd_open(h->pid, 0);
	int status = 0;

	if (r == 0)
		r = pidfd < 0 ? -errno : wait_fd(h, pidfd);
	if (r < 0)
		kill(-h->pid, SIGKILL);
	while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int words(const char *name, int r, const struct buf *out, struct err *err)
{
	const char *said = out->len ? (const char *)out->data : "";

	if (r > 0 && strcasestr(said, "credentials not found"))
		return err_set(err, ENOENT, PREFIX "%s has no credentials", name);
	if (strchr(said, '{')) /* an answer, and maybe a secret in it */
		said = "";
	if (r > 0)
		return err_set(err, EIO, PREFIX "%s failed with exit code %d%s%.200s", name, r,
			*said ? ": " : "", said);
	if (r == -ETIMEDOUT)
		return err_set(err, ETIMEDOUT, PREFIX "%s did not end within %d s", name,
			HELPER_MS / 1000);
	if (r == -E2BIG)
		return err_set(err, EPROTO, PREFIX "%s says too much", name);
	if (r == -EINTR)
		return err_set(err, EINTR, "interrupted");
	return err_set(err, -r, PREFIX "%s: %s", name, strerror(-r));
}

int helper_get(const char *name, const char *server, int stop_fd, struct buf *out, struct err *err)
{
	struct helper h = {.stop_fd = stop_fd, .end_ms = loop_now_ms() + HELPER_MS};
	int r;

	if (!is_name(name))
		return err_set(err, EINVAL, "\"%.64s\" is no credential helper's name", name);
	r = start(&h, name, server);
	if (r == 0) {
		r = finish(&h, read_all(&h, out));
		close(h.out);
	} else if (r == -ENOENT) {
		return err_set(err, ENOPKG, PREFIX "%s is not installed", name);
	}
	return r ? words(name, r, out, err) : 0;
}
