/* SPDX-License-Identifier: MIT */
/*
 * The way to each name is gone one component after the other, by descriptors and never through a
 * link, so no name leads out whatever the archive has made before. The last directory's descriptor
 * is kept, since members of one directory mostly follow each other. One thread.
 *
 * Directories are the caller's alone (0700) until the end: only then their modes can be such that
 * the caller itself could not write there, and only then their times stay.
 */
#include "bwrap/unpack_tree.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIRS_MAX (256u << 20) /* bytes that are kept for the end */
#define OPEN_DIR (O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Kept for each directory; the path follows, with its NUL, padded to the next record. */
struct dir_record {
	struct unpack_meta meta;
	size_t size; /* with the path */
};

void unpack_tree_init(struct unpack_tree *t, int root, bool one_id)
{
	*t = (struct unpack_tree){.root = root, .one_id = one_id, .parent_fd = -1};
	buf_init(&t->dirs, DIRS_MAX);
}

void unpack_tree_fini(struct unpack_tree *t)
{
	if (t->parent_fd >= 0)
		close(t->parent_fd);
	buf_fini(&t->dirs);
}

int unpack_tree_path(const char *name, char path[PATH_MAX], struct err *err)
{
	const char *s = name;
	size_t n = 0;

	if (*s == '/')
		return err_set(err, EINVAL,
			"member %.200s has an absolute name: pack it from within the directory "
			"(tar -C DIR -c .)",
			name);
	while (*s) {
		size_t len = strcspn(s, "/");

		if (len == 2 && memcmp(s, "..", 2) == 0)
			return err_set(err, EINVAL,
				"member %.200s has '..' in its name: pack it from within the "
				"directory (tar -C DIR -c .)",
				name);
		if (len && !(len == 1 && *s == '.')) {
			if (n + len + 2 > PATH_MAX)
				return err_set(err, ENAMETOOLONG,
					"member %.200s...: the name is too long", name);
			if (n)
				path[n++] = '/';
			memcpy(path + n, s, len);
			n += len;
		}
		s += len;
		s += *s == '/';
	}
	path[n] = 0;
	return 0;
}

/* What stands in the way at dir/name, where a directory has to be. */
static int not_a_way(int dir, const char *name, const char *path, int code, struct err *err)
{
	struct stat st;

	if (code != ENOTDIR || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, code, "%.300s: %s", path, strerror(code));
	if (S_ISLNK(st.st_mode))
		return err_set(err, EINVAL,
			"member %.200s goes through '%.100s', which the archive made a symbolic "
			"link: pack it from one directory only",
			path, name);
	return err_set(err, EINVAL,
		"member %.200s is beneath '%.100s', which is not a directory in the archive", path,
		name);
}

/* The directory dir/name, made if there is none. */
static int enter(int dir, const char *name, const char *path, bool make, struct err *err)
{
	int fd = openat(dir, name, O_PATH | OPEN_DIR);

	if (fd < 0 && errno == ENOENT && make) {
		if (mkdirat(dir, name, 0700) < 0)
			return err_set(err, errno, "%.300s: %s", path, strerror(errno));
		fd = openat(dir, name, O_PATH | OPEN_DIR);
	}
	return fd < 0 ? not_a_way(dir, name, path, errno, err) : fd;
}

static int remember(
	struct unpack_tree *t, const char *path, const struct unpack_meta *m, struct err *err)
{
	size_t len = strlen(path) + 1, align = _Alignof(struct dir_record);
	size_t size = (sizeof(struct dir_record) + len + align - 1) / align * align;
	struct dir_record *r = (void *)buf_reserve(&t->dirs, size);

	if (!r)
		return err_set(err, t->dirs.error == -E2BIG ? E2BIG : ENOMEM,
			"%.300s: too many directories", path);
	*r = (struct dir_record){.meta = *m, .size = size};
	memcpy(r + 1, path, len);
	t->dirs.len += size;
	t->n_dirs++;
	return 0;
}

/* What a directory has that no member is about: as root's own mkdir would make it. */
static const struct unpack_meta plain_dir = {
	.mode = 0755, .times = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}}};

/* Is the directory `above` the first len bytes of what is known already? */
static bool is_parent(const struct unpack_tree *t, const char *path, size_t len)
{
	return t->parent_fd >= 0 && strlen(t->parent) == len && memcmp(t->parent, path, len) == 0;
}

/* The directory that path's last component is in, kept in t. *last points into path. */
static int parent_of(
	struct unpack_tree *t, const char *path, bool make, const char **last, struct err *err)
{
	cleanup_close int dir = -1;
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0, at = 0;
	char part[PATH_MAX];

	*last = slash ? slash + 1 : path;
	if (is_parent(t, path, len))
		return t->parent_fd;
	dir = openat(t->root, ".", O_PATH | OPEN_DIR);
	if (dir < 0)
		return err_set(err, errno, "the directory to unpack to: %s", strerror(errno));
	while (at < len) {
		size_t n = strcspn(path + at, "/");
		struct stat st;
		int next;

		memcpy(part, path + at, n);
		part[n] = 0;
		at += n;
		if (make && fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
			char above[PATH_MAX];
			int ret;

			snprintf(above, sizeof(above), "%.*s", (int)at, path);
			ret = remember(t, above, &plain_dir, err);
			if (ret < 0)
				return ret;
		}
		next = enter(dir, part, path, make, err);
		if (next < 0)
			return next;
		close(dir);
		dir = next;
		at++;
	}
	if (t->parent_fd >= 0)
		close(t->parent_fd);
	t->parent_fd = steal_fd(&dir);
	memcpy(t->parent, path, len);
	t->parent[len] = 0;
	return t->parent_fd;
}

/* Room for a new name that is no directory; the descriptor of its directory. */
static int make_room(struct unpack_tree *t, const char *path, const char **last, struct err *err)
{
	int dir;

	if (!*path)
		return err_set(err, EINVAL, "the archive's root is not a directory");
	dir = parent_of(t, path, true, last, err);
	if (dir < 0)
		return dir;
	if (unlinkat(dir, *last, 0) == 0 || errno == ENOENT)
		return dir;
	if (errno == EISDIR || errno == EPERM)
		return err_set(err, EINVAL,
			"member %.300s is in the archive as a directory and as something else",
			path);
	return err_set(err, errno, "%.300s: %s", path, strerror(errno));
}

static int cannot_give(int code, const char *path, const struct unpack_meta *m, struct err *err)
{
	if (code == EINVAL)
		return err_set(err, EINVAL,
			"%.300s belongs to %u:%u, and there is no such id here: pack it with "
			"owners "
			"from 0 to 65535",
			path, m->uid, m->gid);
	return err_set(
		err, code, "%.300s: its owner %u:%u: %s", path, m->uid, m->gid, strerror(code));
}

int unpack_tree_give(const struct unpack_tree *t, int fd, const char *path,
	const struct unpack_meta *m, struct err *err)
{
	/* The owner first: a chown takes set-id bits away. */
	if (!t->one_id && fchown(fd, m->uid, m->gid) < 0)
		return cannot_give(errno, path, m, err);
	if (fchmod(fd, m->mode & 07777) < 0)
		return err_set(err, errno, "%.300s: its mode: %s", path, strerror(errno));
	return 0;
}

int unpack_tree_dir(
	struct unpack_tree *t, const char *path, const struct unpack_meta *m, struct err *err)
{
	const char *last = path;
	int dir, fd;

	if (*path) {
		dir = parent_of(t, path, true, &last, err);
		if (dir < 0)
			return dir;
		fd = enter(dir, last, path, true, err);
		if (fd < 0)
			return fd;
		close(fd);
	}
	return remember(t, path, m, err);
}

int unpack_tree_symlink(struct unpack_tree *t, const char *path, const char *text,
	const struct unpack_meta *m, struct err *err)
{
	const char *last = path;
	int dir = make_room(t, path, &last, err);

	if (dir < 0)
		return dir;
	if (symlinkat(text, dir, last) < 0)
		return err_set(err, errno, "the symbolic link %.300s: %s", path, strerror(errno));
	if (!t->one_id && fchownat(dir, last, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot_give(errno, path, m, err);
	if (utimensat(dir, last, m->times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "%.300s: its times: %s", path, strerror(errno));
	return 0;
}

int unpack_tree_fifo(
	struct unpack_tree *t, const char *path, const struct unpack_meta *m, struct err *err)
{
	const char *last = path;
	int dir = make_room(t, path, &last, err);

	if (dir < 0)
		return dir;
	if (mkfifoat(dir, last, 0600) < 0)
		return err_set(err, errno, "the FIFO %.300s: %s", path, strerror(errno));
	if (!t->one_id && fchownat(dir, last, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot_give(errno, path, m, err);
	/* It was made here a moment ago, so it is no link. */
	if (fchmodat(dir, last, m->mode & 07777, 0) < 0 ||
		utimensat(dir, last, m->times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "%.300s: %s", path, strerror(errno));
	return 0;
}

int unpack_tree_link(struct unpack_tree *t, const char *path, const char *to, struct err *err)
{
	cleanup_close int from = -1;
	const char *last = path, *name = to;
	struct stat st;
	int dir, of;

	/* t keeps one directory only, so that of the first is kept here. */
	of = *to ? parent_of(t, to, false, &name, err) : t->root;
	if (of == -ENOENT || (of >= 0 && *to && fstatat(of, name, &st, AT_SYMLINK_NOFOLLOW) < 0))
		return err_set(err, EINVAL,
			"member %.200s is a hard link to %.200s, which is not before it in the "
			"archive",
			path, to);
	if (of < 0)
		return of;
	if (!*to || S_ISDIR(st.st_mode))
		return err_set(err, EINVAL, "member %.200s is a hard link to the directory %.200s",
			path, *to ? to : ".");
	/* To itself: there already. */
	if (strcmp(path, to) == 0)
		return 0;
	from = fcntl(of, F_DUPFD_CLOEXEC, 0);
	if (from < 0)
		return err_set(err, errno, "%.300s: %s", path, strerror(errno));
	dir = make_room(t, path, &last, err);
	if (dir < 0)
		return dir;
	if (linkat(from, name, dir, last, 0) < 0)
		return err_set(err, errno, "the hard link %.200s to %.200s: %s", path, to,
			strerror(errno));
	return 0;
}

int unpack_tree_file(struct unpack_tree *t, const char *path, struct err *err)
{
	const char *last = path;
	int dir = make_room(t, path, &last, err), fd;

	if (dir < 0)
		return dir;
	fd = openat(dir, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_set(err, errno, "%.300s: %s", path, strerror(errno)) : fd;
}

int unpack_tree_open_dir(struct unpack_tree *t, const char *path, struct err *err)
{
	const char *last = ".";
	int dir = *path ? parent_of(t, path, false, &last, err) : t->root, fd;

	if (dir < 0)
		return dir;
	fd = openat(dir, last, O_RDONLY | OPEN_DIR);
	return fd < 0 ? err_set(err, errno, "%.300s: %s", *path ? path : ".", strerror(errno)) : fd;
}

static const char *path_of(const struct dir_record *r)
{
	return (const char *)(r + 1);
}

/* What is beneath first, and of two for the same directory the one that came last. */
static int deepest_first(const void *a, const void *b)
{
	const struct dir_record *x = *(const struct dir_record *const *)a;
	const struct dir_record *y = *(const struct dir_record *const *)b;
	int order = strcmp(path_of(y), path_of(x));

	return order ? order : (x < y) - (x > y);
}

static int finish_dir(struct unpack_tree *t, const struct dir_record *r, struct err *err)
{
	const char *path = path_of(r);
	cleanup_close int fd = unpack_tree_open_dir(t, path, err);
	int ret;

	if (fd < 0)
		return fd;
	if (!*path)
		path = ".";
	ret = unpack_tree_give(t, fd, path, &r->meta, err);
	if (!ret && futimens(fd, r->meta.times) < 0)
		return err_set(err, errno, "%.300s: its times: %s", path, strerror(errno));
	return ret;
}

int unpack_tree_finish(struct unpack_tree *t, struct err *err)
{
	cleanup_free const struct dir_record **list = calloc(t->n_dirs + 1, sizeof(void *));
	const char *last = NULL;
	size_t at = 0;
	int ret = 0;

	if (!list)
		return err_set(err, ENOMEM, "no memory");
	for (size_t i = 0; i < t->n_dirs; i++) {
		list[i] = (const void *)(t->dirs.data + at);
		at += list[i]->size;
	}
	qsort(list, t->n_dirs, sizeof(void *), deepest_first);
	for (size_t i = 0; i < t->n_dirs && !ret; i++) {
		if (!last || strcmp(last, path_of(list[i])) != 0)
			ret = finish_dir(t, list[i], err);
		last = path_of(list[i]);
	}
	return ret;
}
