/* SPDX-License-Identifier: MIT */
/*
 * Sandboxes' directories: made under a name that nobody looks at, then moved into place as a whole;
 * removed the other way round. A name is given and taken with the namespace's lock (flock of
 * .lock, so between daemons too), held for moments. What is in box.json is true; .names is an
 * index, believed only where box.json agrees.
 */
#include "bwrap/bwrap.h"

#include "bwrap/ids.h"
#include "bwrap/record.h"
#include "bwrap/roots.h"
#include "bwrap/run.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define NEW	 "new-" /* behind a dot, before the id */
#define RM	 "rm-"
#define SHORT_ID 12

static void cleanup_record(struct record *r)
{
	record_fini(r);
}

#define auto_record __attribute__((cleanup(cleanup_record)))

static int lock(const struct bwrap *b, struct err *err)
{
	cleanup_close int fd = openat(b->boxes_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(err, errno, "%s/.lock: %s", b->boxes, strerror(errno));
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(err, errno, "%s/.lock: %s", b->boxes, strerror(errno));
	return steal_fd(&fd);
}

/* The name that the index has for it, a new string; else a part of its id. */
static char *indexed_name(const struct bwrap *b, const char *id)
{
	int fd = openat(b->boxes_fd, ".names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char has[BWRAP_ID_LEN + 1];
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (readlinkat(fd, e->d_name, has, sizeof(has)) == BWRAP_ID_LEN &&
			memcmp(has, id, BWRAP_ID_LEN) == 0)
			return strdup(e->d_name);
	return strndup(id, SHORT_ID);
}

int bwrap_record(const struct bwrap *b, const char *id, int fd, struct record *r, struct err *err)
{
	struct stat st = {0};
	int ret = record_read(fd, r, err);

	if (ret == 0 || ret == -ENOENT || ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM)
		return ret;
	log_warn("%s/%s: %s", b->boxes, id, err->msg);
	fstat(fd, &st);
	*r = (struct record){.name = indexed_name(b, id),
		.owner = st.st_uid,
		.template = strdup(""),
		.config = strdup(""),
		.image_id = strdup(""),
		.error = strdup(err->msg),
		.created = st.st_mtim.tv_sec};
	if (r->name && r->template && r->config && r->image_id && r->error)
		return 0;
	record_fini(r);
	return err_set(err, ENOMEM, "out of memory");
}

/* With the lock: takes the name for id, unless another sandbox has it. */
static int take_name(const struct bwrap *b, const char *name, const char *id, struct err *err)
{
	auto_record struct record r = {0};
	struct err ignored = {0};
	cleanup_close int names = -1, fd = -1;
	char has[BWRAP_ID_LEN + 1];
	ssize_t n;

	names = openat(b->boxes_fd, ".names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (names < 0)
		return err_set(err, errno, "%s/.names: %s", b->boxes, strerror(errno));
	n = readlinkat(names, name, has, sizeof(has) - 1);
	if (n == BWRAP_ID_LEN) {
		has[n] = 0;
		fd = strcmp(has, id) == 0 ? -1 : bwrap_box(b, has, &ignored);
		if (fd >= 0 && bwrap_record(b, has, fd, &r, &ignored) == 0 &&
			r.mark != ENGINE_MARK_REMOVING && strcmp(r.name, name) == 0)
			return err_set(err, EEXIST, "there is a sandbox %s", name);
	}
	unlinkat(names, name, 0);
	if (symlinkat(id, names, name) < 0)
		return err_set(err, errno, "the name %s: %s", name, strerror(errno));
	return 0;
}

static void drop_name(const struct bwrap *b, const char *name, const char *id)
{
	cleanup_close int names = openat(b->boxes_fd, ".names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char has[BWRAP_ID_LEN + 1];
	ssize_t n = names < 0 ? -1 : readlinkat(names, name, has, sizeof(has) - 1);

	if (n == BWRAP_ID_LEN && memcmp(has, id, BWRAP_ID_LEN) == 0)
		unlinkat(names, name, 0);
}

int bwrap_rename(
	struct engine *e, const char *id, const char *name, enum engine_mark mark, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = bwrap_box(b, id, err), held = -1, changing = -1;
	auto_record struct record r = {0};
	char *old;
	int ret;

	if (fd < 0)
		return fd;
	held = lock(b, err);
	changing = held < 0 ? held : record_lock(fd, err);
	if (changing < 0)
		return changing;
	ret = mark == ENGINE_MARK_REMOVING ? bwrap_record(b, id, fd, &r, err)
					   : record_read(fd, &r, err);
	if (ret < 0)
		return ret;
	if (mark == ENGINE_MARK_REMOVING)
		name = "";
	if (*name && strcmp(name, r.name) != 0)
		ret = take_name(b, name, id, err);
	if (ret < 0)
		return ret;
	old = r.name;
	r.name = strdup(name);
	r.mark = mark;
	ret = r.name ? record_write(fd, &r, err) : err_set(err, ENOMEM, "out of memory");
	if (ret == 0 && strcmp(old, name) != 0)
		drop_name(b, old, id);
	else if (ret < 0 && strcmp(old, name) != 0)
		drop_name(b, name, id);
	free(old);
	return ret;
}

static int new_id(char *id, struct err *err)
{
	uint8_t bytes[BWRAP_ID_LEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, EIO, "no random numbers");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* A directory of the sandbox's own, root's inside. */
static int make_dir(int fd, const char *name, mode_t mode, struct err *err)
{
	if (mkdirat(fd, name, mode) < 0 || fchmodat(fd, name, mode, 0) < 0 ||
		(!geteuid() && fchownat(fd, name, IDS_BASE, IDS_BASE, 0) < 0))
		return err_set(err, errno, "the sandbox's directory %s: %s", name, strerror(errno));
	return 0;
}

static int fill(const struct bwrap *b, const struct spec *spec, const char *id, const char *key,
	int fd, struct err *err)
{
	struct record r = {.name = spec->name,
		.owner = spec->owner,
		.template = spec->template,
		.config = spec->config,
		.image_id = (char[80]){""},
		.error = (char[1]){""},
		.created = time(NULL),
		.limits = {.memory = spec->mem_limit,
			.cpu_quota_us = (uint64_t)spec->cpus_milli * 100,
			.cpu_period_us = spec->cpus_milli ? 100000 : 0,
			.pids = spec->pids_limit}};
	int ret;

	if (key && strcmp(spec->image, BWRAP_HOST_IMAGE) != 0)
		snprintf(r.image_id, 80, "%.79s", key);
	ret = make_dir(fd, "state", 0700, err);
	if (ret == 0 && key) {
		ret = make_dir(fd, "upper", 0755, err);
		ret = ret < 0 ? ret : make_dir(fd, "work", 0755, err);
	}
	ret = ret < 0 ? ret : bwrap_make_plan(b, spec, id, key, fd, err);
	return ret < 0 ? ret : record_write(fd, &r, err);
}

/* Empties and removes a directory that is out of sight: `.rm-ID` or `.new-ID`. */
static int destroy(const struct bwrap *b, const char *name, struct err *err)
{
	cleanup_free char *path = NULL;
	const char *argv[] = {"launch", "remove", NULL, NULL};
	int r;

	if (asprintf(&path, "%s/%s", b->boxes, name) < 0) {
		path = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	argv[2] = path;
	r = bwrap_launch(b, argv, -1, NULL, NULL, err);
	if (r == 0 && unlinkat(b->boxes_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_set(err, errno, "%s: %s", path, strerror(errno));
	return r;
}

int bwrap_create(struct engine *e, const struct spec *spec, char **out, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = -1, held = -1, root = -1;
	cleanup_free char *key = NULL, *copy = NULL;
	char id[BWRAP_ID_LEN + 1], hidden[BWRAP_ID_LEN + 8];
	struct err ignored = {0};
	bool made = false;
	int r = bwrap_check_spec(e, spec, err);

	root = r < 0 ? r : roots_hold(b, err);
	r = r < 0 ? r : root < 0 ? root : 0;
	if (r == 0 && strcmp(spec->image, BWRAP_HOST_IMAGE) != 0)
		r = bwrap_image_key(b, spec->image, &key, err);
	else if (r == 0 && b->overlay)
		r = bwrap_host_root(b, &key, &made, err);
	r = r < 0 ? r : new_id(id, err);
	if (r < 0)
		return r;
	copy = strdup(id);
	if (!copy)
		return err_set(err, ENOMEM, "out of memory");
	snprintf(hidden, sizeof(hidden), "." NEW "%s", id);
	held = lock(b, err);
	if (held < 0)
		return held;
	if (mkdirat(b->boxes_fd, hidden, 0700) < 0)
		return err_set(err, errno, "%s: %s", b->boxes, strerror(errno));
	fd = openat(b->boxes_fd, hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Whoever sweeps sees by this that somebody is at it. */
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		r = err_set(err, errno, "%s/%s: %s", b->boxes, hidden, strerror(errno));
	close(steal_fd(&held));
	r = r < 0 ? r : fill(b, spec, id, key, fd, err);
	held = r < 0 ? r : lock(b, err);
	r = r < 0 ? r : held < 0 ? held : take_name(b, spec->name, id, err);
	if (r == 0 && renameat(b->boxes_fd, hidden, b->boxes_fd, id) < 0) {
		r = err_set(err, errno, "%s: %s", b->boxes, strerror(errno));
		drop_name(b, spec->name, id);
	}
	if (r < 0)
		destroy(b, hidden, &ignored);
	else
		*out = steal_ptr(&copy);
	if (made) {
		close(steal_fd(&held));
		close(steal_fd(&root));
		roots_sweep(b, true);
	}
	return r;
}

int bwrap_put_state(struct engine *e, const char *id, const char *name, int fd, struct err *err)
{
	cleanup_close int box = bwrap_box(bwrap_of(e), id, err), to = -1;
	char path[64], part[65536];
	off_t at = 0;
	ssize_t n;

	if (box < 0)
		return box;
	snprintf(path, sizeof(path), "state/%s", name);
	to = openat(box, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0 || (!geteuid() && fchown(to, IDS_BASE, IDS_BASE) < 0))
		return err_set(err, errno, "the setup of the sandbox: %s", strerror(errno));
	while ((n = pread(fd, part, sizeof(part), at)) > 0) {
		errno = ENOSPC; /* a write that is cut short says nothing else */
		if (write(to, part, (size_t)n) != n) {
			n = -1;
			break;
		}
		at += n;
	}
	return n < 0 ? err_set(err, errno, "the setup of the sandbox: %s", strerror(errno)) : 0;
}

int bwrap_remove(struct engine *e, const char *id, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	struct err none = {0};
	cleanup_close int fd = bwrap_box(b, id, &none), held = -1;
	auto_record struct record r = {0};
	char hidden[BWRAP_ID_LEN + 8];
	int ret;

	if (fd < 0)
		return fd == -ENOENT ? 0 : err_set(err, -fd, "%s", none.msg);
	flock(fd, LOCK_EX); /* nobody starts it between its end and its going */
	ret = run_kill(b, id, fd, err);
	if (ret < 0)
		return ret;
	snprintf(hidden, sizeof(hidden), "." RM "%s", id);
	held = lock(b, err);
	if (held < 0)
		return held;
	if (bwrap_record(b, id, fd, &r, &none) == 0 && *r.name)
		drop_name(b, r.name, id);
	if (renameat(b->boxes_fd, id, b->boxes_fd, hidden) < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "%s: %s", hidden, strerror(errno));
	close(steal_fd(&held));
	cgroups_remove(b->cgroups, id);
	return destroy(b, hidden, err);
}

void bwrap_sweep(const struct bwrap *b, bool old)
{
	cleanup_closedir DIR *d = fdopendir(fcntl(b->boxes_fd, F_DUPFD_CLOEXEC, 0));
	struct err ignored = {0};
	struct dirent *e;

	if (d)
		rewinddir(d);
	while (d && (e = readdir(d))) {
		cleanup_close int fd = -1, held = -1;

		if (strncmp(e->d_name, "." NEW, 5) != 0 && strncmp(e->d_name, "." RM, 4) != 0)
			continue;
		held = lock(b, &ignored); /* not between somebody's mkdir and flock */
		fd = openat(
			b->boxes_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (held < 0 || fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		close(steal_fd(&held));
		if (strlen(e->d_name) > BWRAP_ID_LEN)
			cgroups_remove(b->cgroups, e->d_name + strlen(e->d_name) - BWRAP_ID_LEN);
		destroy(b, e->d_name, &ignored);
	}
	roots_sweep(b, old);
}
