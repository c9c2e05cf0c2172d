/* SPDX-License-Identifier: MIT */
/* The embedded engine: opening it, describing it, its table of calls, and running its launcher. */
#include "bwrap/bwrap.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LINE_MAX_LEN 4096u
#define MADE_MAX     (1u << 20)

extern char **environ;

static void bwrap_close(struct engine *e)
{
	struct bwrap *b = bwrap_of(e);

	if (b->boxes_fd >= 0)
		close(b->boxes_fd);
	cgroups_free(b->cgroups);
	free(b->data);
	free(b->boxes);
	free(b->agent);
	free(b->launch);
	free(b->version);
	free(b);
}

static int bwrap_describe(struct engine *e, char **text, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	char ids[96];

	if (b->ids > 1)
		snprintf(ids, sizeof(ids), "a user namespace with %u ids", b->ids);
	else
		snprintf(
			ids, sizeof(ids), "a user namespace with one id (no range in /etc/subuid)");
	if (asprintf(text,
		    "engine: bwrap\nversion: %s\naddress: %s\n"
		    "isolation: %s, mount, pid, net (unless network_mode is host), ipc, uts and "
		    "cgroup namespaces, "
		    "no-new-privileges, few capabilities; shares the host's kernel\n"
		    "limits: %s\n",
		    b->version, b->data, ids, cgroups_words(b->cgroups)) < 0) {
		*text = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* Processes are counted in any case: ids_enclose(). */
static unsigned bwrap_limits_lacking(const struct engine *e)
{
	const struct bwrap *b = (const struct bwrap *)(const void *)e;

	return (ENGINE_LIMIT_MEMORY | ENGINE_LIMIT_CPU) & ~cgroups_can(b->cgroups);
}

/* --- calls that write: where there is no room, in words that say what to do ------------------- */

static bool is_full(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

static int room(struct engine *e, int r, struct err *err)
{
	struct err said = *err;

	return is_full(r) ? err_set(err, -r,
				    "%.250s; free space in %.150s, or name another place with -o "
				    "engine=bwrap,host=DIRECTORY",
				    said.msg, bwrap_of(e)->data)
			  : r;
}

static int create(struct engine *e, const struct spec *spec, char **id, struct err *err)
{
	return room(e, bwrap_create(e, spec, id, err), err);
}

static int put_state(struct engine *e, const char *id, const char *name, int fd, struct err *err)
{
	return room(e, bwrap_put_state(e, id, name, fd, err), err);
}

static int image_pull(struct engine *e, const char *image, const char *platform,
	const struct engine_fetcher *f, struct err *err)
{
	return room(e, bwrap_image_pull(e, image, platform, f, err), err);
}

static int start(struct engine *e, const char *id, struct err *err)
{
	return room(e, bwrap_start(e, id, err), err);
}

static int pause_box(struct engine *e, const char *id, bool pause, struct err *err)
{
	return room(e, bwrap_pause(e, id, pause, err), err);
}

static int rename_box(
	struct engine *e, const char *id, const char *name, enum engine_mark mark, struct err *err)
{
	return room(e, bwrap_rename(e, id, name, mark, err), err);
}

static int update(struct engine *e, const char *id, unsigned which,
	const struct engine_limits *limits, struct err *err)
{
	return room(e, bwrap_update(e, id, which, limits, err), err);
}

static const struct engine_ops bwrap_ops = {
	.name = "bwrap",
	.default_image = BWRAP_HOST_IMAGE,
	.limits_lacking = bwrap_limits_lacking,
	.close = bwrap_close,
	.describe = bwrap_describe,
	.check = bwrap_check_spec,
	.image_check = bwrap_image_check,
	.image_pull = image_pull,
	.create = create,
	.put_state = put_state,
	.start = start,
	.stop = bwrap_stop,
	.pause = pause_box,
	.rename = rename_box,
	.update = update,
	.remove = bwrap_remove,
	.inspect = bwrap_inspect,
	.list = bwrap_list,
	.logs = bwrap_logs,
	.watch = bwrap_watch,
	.connect = bwrap_connect,
};

int bwrap_box(const struct bwrap *b, const char *id, struct err *err)
{
	int fd = -ENOENT;

	if (strspn(id, "0123456789abcdef") == BWRAP_ID_LEN && !id[BWRAP_ID_LEN]) {
		fd = openat(b->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	return fd < 0 ? err_set(err, -fd, "the sandbox %.12s: %s", id, strerror(-fd)) : fd;
}

static int spawn(const char *program, const char *const *argv, int out, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = posix_spawnp(pid, program, &actions, &attr, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

struct hearing {
	char text[LINE_MAX_LEN + 1];
	size_t len;
	void (*line)(void *arg, const char *text);
	void *arg;
	struct err *err;
	bool failed;
};

static void hear(struct hearing *h, char *text)
{
	char *words;

	if (strncmp(text, "error ", 6) == 0) {
		long code = strtol(text + 6, &words, 10);

		h->failed = true;
		err_set(h->err, code > 0 && code < 134 ? (int)code : EIO, "%s",
			words + (*words == ' '));
	} else if (h->line) {
		h->line(h->arg, text);
	}
}

/* 0 at the end of it. */
static int hear_more(struct hearing *h, int fd)
{
	ssize_t n = read(fd, h->text + h->len, LINE_MAX_LEN - h->len);
	char *from = h->text, *end;

	if (n < 0)
		return errno == EINTR ? 1 : -errno;
	h->len += (size_t)n;
	h->text[h->len] = 0;
	while ((end = strchr(from, '\n'))) {
		*end = 0;
		hear(h, from);
		from = end + 1;
	}
	h->len -= (size_t)(from - h->text);
	memmove(h->text, from, h->len);
	if (h->len == LINE_MAX_LEN)
		h->len = 0;
	return n > 0;
}

int bwrap_launch(const struct bwrap *b, const char *const *argv, int stop_fd,
	void (*line)(void *arg, const char *text), void *arg, struct err *err)
{
	cleanup_free struct hearing *h = calloc(1, sizeof(*h));
	cleanup_close int out = -1;
	int pipes[2], status = 0, r;
	bool stopped = false;
	pid_t pid;

	if (!h)
		return err_set(err, ENOMEM, "out of memory");
	if (!b->launch)
		return err_set(err, ENOENT, "cannot find the launcher of embedded sandboxes");
	*h = (struct hearing){.line = line, .arg = arg, .err = err};
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(err, errno, "no pipe: %s", strerror(errno));
	out = pipes[0];
	r = spawn(b->launch, argv, pipes[1], &pid);
	close(pipes[1]);
	if (r < 0)
		return err_set(err, -r, "%s: %s", b->launch, strerror(-r));
	for (r = 1; r > 0;) {
		struct pollfd p[] = {
			{.fd = out, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents && !stopped) {
			stopped = true;
			kill(pid, SIGTERM);
		}
		if (p[0].revents)
			r = hear_more(h, out);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (stopped)
		return err_set(err, EINTR, "interrupted");
	if (h->failed)
		return -err->code;
	if (status != 0)
		return err_set(err, EIO, "%s ended with status %#x", b->launch, (unsigned)status);
	return 0;
}

/* made: those that were not there, each with its NUL. */
static int make_dirs(const char *path, struct buf *made, struct err *err)
{
	cleanup_free char *part = strdup(path);

	if (!part)
		return err_set(err, ENOMEM, "out of memory");
	for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = 0;
		if (mkdir(part, 0700) == 0)
			buf_append(made, part, strlen(part) + 1);
		else if (errno != EEXIST)
			return err_set(err, errno,
				"%s for the sandboxes' files: %s (%sname another place with "
				"XDG_DATA_HOME or -o engine=bwrap,host=DIRECTORY)",
				part, strerror(errno),
				is_full(-errno) ? "free space there, or " : "");
		if (!slash)
			return 0;
		*slash = '/';
	}
}

/* The newest first. What is not empty is somebody's by now. */
static void drop_dirs(const struct buf *made)
{
	for (size_t at = made->len; at > 0;) {
		for (at--; at > 0 && made->data[at - 1]; at--)
			;
		rmdir((const char *)made->data + at);
	}
}

/* Where it is all kept: what -o host says, $XDG_DATA_HOME/sandboxfs, or ~/.local/share/sandboxfs.
 */
int bwrap_place(const char *host, struct engine_place *place, struct err *err)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int n;

	if (host && *host && *host != '/')
		return err_set(err, EINVAL, "host=%s: the embedded engine's is a directory", host);
	if (host && *host)
		n = asprintf(&place->host, "%s", host);
	else if (xdg && *xdg == '/')
		n = asprintf(&place->host, "%s/sandboxfs", xdg);
	else
		n = asprintf(&place->host, "%s/.local/share/sandboxfs",
			home && *home == '/' ? home : "/root");
	if (n < 0) {
		place->host = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static void take_ids(void *arg, const char *line)
{
	struct bwrap *b = arg;

	sscanf(line, "ids %u", &b->ids);
	b->overlay |= strcmp(line, "overlay") == 0;
}

/* `bwrap --version`: is it there, and which? */
static int find_bwrap(struct bwrap *b, struct err *err)
{
	static const char *const argv[] = {"bwrap", "--version", NULL};
	char text[64] = "";
	int pipes[2], status, r;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(err, errno, "no pipe: %s", strerror(errno));
	r = spawn("bwrap", argv, pipes[1], &pid);
	close(pipes[1]);
	n = r < 0 ? 0 : read(pipes[0], text, sizeof(text) - 1);
	close(pipes[0]);
	if (r == 0)
		waitpid(pid, &status, 0);
	if (n <= 0 || strncmp(text, "bubblewrap ", 11) != 0)
		return err_set(
			err, ENOENT, "bubblewrap is not installed: apt-get install bubblewrap");
	text[strcspn(text, "\n")] = 0;
	b->version = strdup(text + 11);
	return b->version ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* One name for it, however it was spelled: the groups of its sandboxes are called by it, and
 * volumes are not looked for behind links. */
static int real_place(struct bwrap *b, const char *namespace, struct err *err)
{
	char *real = realpath(b->data, NULL), *boxes;

	if (!real)
		return err_set(err, errno, "%s: %s", b->data, strerror(errno));
	free(b->data);
	b->data = real;
	if (asprintf(&boxes, "%s/boxes/%s", real, namespace) < 0)
		return err_set(err, ENOMEM, "out of memory");
	free(b->boxes);
	b->boxes = boxes;
	return 0;
}

/* Whoever else could write there would say what is swept, and what sandboxes are made from, with
 * this daemon's rights. */
static int check_owner(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return err_set(err, EPERM,
			"%s belongs to user %u: sandboxes' files must be in a directory of your "
			"own (you are user %u)",
			path, st.st_uid, geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, EPERM,
			"%s can be written by others, and has sandboxes' files: chmod go-w it",
			path);
	return 0;
}

static int find_place(
	struct bwrap *b, const struct engine_config *config, struct buf *made, struct err *err)
{
	char path[PATH_MAX];
	int r;

	b->data = strdup(config->place->host);
	if (!b->data || asprintf(&b->boxes, "%s/boxes/%s", b->data, config->namespace) < 0) {
		b->boxes = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	r = make_dirs(b->data, made, err);
	r = r < 0 ? r : check_owner(b->data, err);
	snprintf(path, sizeof(path), "%s/.names", b->boxes);
	r = r < 0 ? r : make_dirs(path, made, err);
	for (size_t i = 0; r == 0 && i < 3; i++) {
		static const char *const more[] = {"images", "roots", "volumes"};

		snprintf(path, sizeof(path), "%s/%s", b->data, more[i]);
		r = make_dirs(path, made, err);
	}
	r = r < 0 ? r : real_place(b, config->namespace, err);
	if (r < 0)
		return r;
	b->boxes_fd = open(b->boxes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->boxes_fd < 0)
		return err_set(err, errno, "%s: %s", b->boxes, strerror(errno));
	b->cgroups = cgroups_new(b->data);
	return b->cgroups ? 0 : err_set(err, ENOMEM, "out of memory");
}

int bwrap_engine_open(const struct engine_config *config, struct engine **e, struct err *err)
{
	const char *check[] = {"launch", "check", NULL, NULL};
	struct bwrap *b = calloc(1, sizeof(*b));
	cleanup_free char *key = NULL;
	bool new_root = false;
	struct buf made;
	int r;

	if (!b)
		return err_set(err, ENOMEM, "out of memory");
	b->engine.ops = &bwrap_ops;
	b->boxes_fd = -1;
	b->agent = strdup(config->agent_path);
	b->launch = config->launch_path ? strdup(config->launch_path) : NULL;
	r = b->agent ? 0 : err_set(err, ENOMEM, "out of memory");
	r = r < 0 ? r : find_bwrap(b, err);
	buf_init(&made, MADE_MAX);
	r = r < 0 ? r : find_place(b, config, &made, err);
	check[2] = b->data;
	r = r < 0 ? r : bwrap_launch(b, check, -1, take_ids, b, err);
	if (r < 0)
		drop_dirs(&made);
	buf_fini(&made);
	/* Now, so that the first sandbox does not wait for it. Where there is no room for it, those
	 * that are there can still be used, or removed. */
	if (r == 0 && b->overlay) {
		struct err why = {0};

		r = bwrap_host_root(b, &key, &new_root, &why);
		if (is_full(r)) {
			log_warn("%s", why.msg);
			r = 0;
		} else if (r < 0) {
			*err = why;
		}
	}
	if (r < 0) {
		bwrap_close(&b->engine);
		return r;
	}
	bwrap_sweep(b, new_root);
	*e = &b->engine;
	return 0;
}
