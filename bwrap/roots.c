/* SPDX-License-Identifier: MIT */
/*
 * Unpacked images in DATA/roots, which all daemons on the directory share. A root goes when a new
 * one has come, its archive has gone or is another, and no sandbox stands on it.
 *
 * roots/.lock: whoever is about to use a root, until its sandbox is there for all to see, holds it
 * shared; whoever removes some holds it alone, for moments. A root that is being made or removed is
 * `.new-X` or `.rm-KEY`, and its maker holds a flock of it: what nobody holds was left by a daemon
 * that died. Any thread.
 */
#include "bwrap/roots.h"

#include "bwrap/plan.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FROM ".from" /* KEY.from links to the archive */

static int open_lock(const struct bwrap *b, int how, struct err *err)
{
	cleanup_close int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/roots/.lock", b->data);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	while (fd >= 0 && flock(fd, how) < 0)
		if (errno != EINTR)
			return err_set(err, errno, "%s: %s", path, strerror(errno));
	return fd < 0 ? err_set(err, errno, "%s: %s", path, strerror(errno)) : steal_fd(&fd);
}

int roots_hold(const struct bwrap *b, struct err *err)
{
	return open_lock(b, LOCK_SH, err);
}

int roots_new(const struct bwrap *b, char *dir, size_t size, struct err *err)
{
	cleanup_close int held = roots_hold(b, err), fd = -1;

	if (held < 0)
		return held;
	snprintf(dir, size, "%s/roots/.new-XXXXXX", b->data);
	if (!mkdtemp(dir))
		return err_set(err, errno, "%s: %s", dir, strerror(errno));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fchmod(fd, 0755) < 0) {
		err_set(err, errno, "%s: %s", dir, strerror(errno));
		rmdir(dir);
		return -err->code;
	}
	return steal_fd(&fd);
}

int roots_put(const struct bwrap *b, const char *dir, const char *key, const char *archive,
	struct err *err)
{
	char root[PATH_MAX], from[PATH_MAX];

	snprintf(root, sizeof(root), "%s/roots/%s", b->data, key);
	snprintf(from, sizeof(from), "%s/roots/%s" FROM, b->data, key);
	if (archive && symlink(archive, from) < 0 && errno != EEXIST)
		return err_set(err, errno, "%s: %s", from, strerror(errno));
	if (rename(dir, root) == 0)
		return 0;
	if (access(root, F_OK) < 0)
		return err_set(err, errno, "%s: %s", root, strerror(errno));
	/* Another daemon was faster; its tree is as good. */
	roots_drop(b, dir);
	return 0;
}

void roots_drop(const struct bwrap *b, const char *dir)
{
	const char *argv[] = {"launch", "remove", dir, NULL};
	struct err ignored = {0};

	bwrap_launch(b, argv, -1, NULL, NULL, &ignored);
	rmdir(dir);
}

/* --- which are used -------------------------------------------------------------------------- */

/* Adds the name of the root that the sandbox stands on, ending in NUL. */
static int add_lower(int ns_fd, const char *id, struct buf *used)
{
	cleanup_close int fd = openat(ns_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct plan p = {0};
	struct err err = {0};
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	r = plan_read(fd, &p, &err);
	for (size_t i = 0; r == 0 && i < p.n_words; i += (size_t)plan_args(p.words[i]) + 1) {
		const char *slash;

		if (strcmp(p.words[i], "lower") != 0)
			continue;
		slash = strrchr(p.words[i + 1], '/');
		if (slash)
			buf_append(used, slash + 1, strlen(slash + 1) + 1);
	}
	plan_fini(&p);
	return r == -ENOENT ? 0 : r; /* it has just gone, or was never finished */
}

static int add_namespace(int boxes, const char *name, struct buf *used)
{
	int fd = openat(boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	while (r == 0 && (e = readdir(d)))
		if (e->d_name[0] != '.')
			r = add_lower(fd, e->d_name, used);
	return r;
}

static int find_used(const struct bwrap *b, struct buf *used)
{
	char path[PATH_MAX];
	cleanup_closedir DIR *d = NULL;
	struct dirent *e;
	int r = 0;

	snprintf(path, sizeof(path), "%s/boxes", b->data);
	d = opendir(path);
	while (r == 0 && d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			r = add_namespace(dirfd(d), e->d_name, used);
	return !d ? -errno : used->error ? -ENOMEM : r;
}

static bool is_used(const struct buf *used, const char *key)
{
	for (size_t at = 0; at < used->len; at += strlen((char *)used->data + at) + 1)
		if (strcmp((char *)used->data + at, key) == 0)
			return true;
	return false;
}

/* Would a sandbox that is made now stand on it? */
static bool is_current(int roots, const char *key)
{
	char from[NAME_MAX + 1], archive[PATH_MAX], now[BWRAP_KEY_MAX];
	struct err ignored = {0};
	ssize_t n;

	if (strncmp(key, "host-", 5) == 0) {
		bwrap_host_key(now);
		return strcmp(key, now) == 0;
	}
	snprintf(from, sizeof(from), "%.200s" FROM, key);
	n = readlinkat(roots, from, archive, sizeof(archive) - 1);
	if (n < 0)
		return errno != ENOENT;
	archive[n] = 0;
	return bwrap_archive_key(archive, now, &ignored) == 0 && strcmp(key, now) == 0;
}

/* --- removing -------------------------------------------------------------------------------- */

static bool is_hidden(const char *name)
{
	return strncmp(name, ".new-", 5) == 0 || strncmp(name, ".rm-", 4) == 0;
}

static bool is_root(const char *name)
{
	size_t n = strlen(name), f = strlen(FROM);

	return name[0] != '.' && (n < f || strcmp(name + n - f, FROM) != 0);
}

/* With the lock alone: out of sight with those that nobody needs. */
static int hide_old(const struct bwrap *b, DIR *roots)
{
	int fd = dirfd(roots), r;
	struct dirent *e;
	struct buf used;

	buf_init(&used, 64u << 20);
	r = find_used(b, &used);
	while (r == 0 && (e = readdir(roots))) {
		char to[NAME_MAX + 1];

		if (!is_root(e->d_name) || is_used(&used, e->d_name) || is_current(fd, e->d_name))
			continue;
		snprintf(to, sizeof(to), ".rm-%.200s", e->d_name);
		renameat(fd, e->d_name, fd, to);
		snprintf(to, sizeof(to), "%.200s" FROM, e->d_name);
		unlinkat(fd, to, 0);
	}
	buf_fini(&used);
	return r;
}

static void drop_hidden(const struct bwrap *b, DIR *roots)
{
	struct err ignored = {0};
	char path[PATH_MAX];
	struct dirent *e;

	rewinddir(roots);
	while ((e = readdir(roots))) {
		cleanup_close int fd = -1, held = -1;

		if (!is_hidden(e->d_name))
			continue;
		held = open_lock(b, LOCK_EX | LOCK_NB, &ignored); /* not in roots_new() */
		fd = openat(
			dirfd(roots), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (held < 0 || fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		close(steal_fd(&held));
		snprintf(path, sizeof(path), "%s/roots/%s", b->data, e->d_name);
		roots_drop(b, path);
	}
}

void roots_sweep(const struct bwrap *b, bool old)
{
	struct err ignored = {0};
	cleanup_close int held = open_lock(b, LOCK_EX | LOCK_NB, &ignored);
	cleanup_closedir DIR *d = NULL;
	char path[PATH_MAX];

	if (held < 0)
		return; /* somebody is making a sandbox: another time */
	snprintf(path, sizeof(path), "%s/roots", b->data);
	d = opendir(path);
	if (d && old)
		hide_old(b, d);
	close(steal_fd(&held));
	if (d)
		drop_hidden(b, d);
}
