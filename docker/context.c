/* SPDX-License-Identifier: MIT */
/*
 * A walk by descriptors: each directory is opened in the one above it and never by a path, with no
 * link followed, so that whatever changes meanwhile nothing outside of the context is read. A step
 * writes one member's head, or a piece of its content, into `out`, so little is ever in memory.
 */
#include "docker/context.h"

#include "common/cleanup.h"
#include "docker/follow.h"
#include "docker/ignore.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define IGNORE_FILE ".dockerignore"
#define DEPTH_MAX   128u
#define CHUNK	    65536u
#define OUT_MAX	    (1u << 20)
#define STOP_EVERY  256u

struct level {
	DIR *dir;
	size_t path_len; /* of the directory's own path, with a slash; 0: the root */
};

struct context {
	const char *name, *dockerfile;
	int root, stop_fd;
	unsigned steps;
	struct ignore *ignore; /* NULL: there is none */
	struct archive *tar;
	struct archive_entry *entry;
	struct buf out;	 /* made, and not read yet */
	struct buf path; /* of the member under way */
	struct level levels[DEPTH_MAX];
	size_t depth;
	int file; /* being packed; -1: none */
	la_int64_t left;
	bool ended;
	uint8_t chunk[CHUNK];
};

/* Without links in it, or not beneath `at`: what the caller asks for by `resolve`. */
static int open_safely(int at, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};

	return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

static int load(int fd, struct buf *out, const char *name, struct err *err)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "%s is no regular file", name);
	rc = buf_read_fd(out, fd);
	if (rc == -E2BIG)
		return err_set(err, EFBIG, "%s is too large", name);
	return rc ? err_set(err, -rc, "%s: %s", name, strerror(-rc)) : 0;
}

/* A link is no way out of not sending secrets: it is an error. */
static int load_ignore(struct context *c, struct err *err)
{
	cleanup_close int fd =
		openat(c->root, IGNORE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct buf text;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_set(err, errno == ELOOP ? EINVAL : errno, "%s/" IGNORE_FILE ": %s",
			c->name, errno == ELOOP ? "a link is not followed" : strerror(errno));
	buf_init(&text, IGNORE_FILE_MAX);
	rc = load(fd, &text, IGNORE_FILE, err);
	if (rc == 0 && text.len)
		rc = ignore_parse((char *)text.data, text.len, &c->ignore, err);
	buf_fini(&text);
	return rc;
}

static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t n)
{
	struct context *c = arg;

	return buf_append(&c->out, p, n) ? -1 : (la_ssize_t)n;
}

static void forget(struct context *c)
{
	while (c->depth)
		closedir(c->levels[--c->depth].dir);
	if (c->file >= 0)
		close(steal_fd(&c->file));
	archive_write_free(c->tar);
	c->tar = NULL;
	buf_reset(&c->out);
	buf_reset(&c->path);
	c->ended = false;
}

static const char *member(const struct context *c)
{
	return c->path.len ? (const char *)c->path.data : "";
}

static int enter(struct context *c, int fd, struct err *err)
{
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir) {
		int code = errno;

		if (fd >= 0)
			close(fd);
		return err_set(err, code, "%s/%s: %s", c->name, member(c), strerror(code));
	}
	if (c->depth == DEPTH_MAX) {
		closedir(dir);
		return err_set(err, ELOOP, "%s is deeper than %u directories", c->name, DEPTH_MAX);
	}
	c->levels[c->depth++] = (struct level){.dir = dir, .path_len = c->path.len};
	return 0;
}

int context_rewind(struct context *c, struct err *err)
{
	int fd;

	forget(c);
	c->tar = archive_write_new();
	/* GNU's form takes names of any bytes and length. No blocks: what is made can be sent. */
	if (!c->tar || archive_write_set_format_gnutar(c->tar) ||
		archive_write_add_filter_none(c->tar) ||
		archive_write_set_bytes_per_block(c->tar, 0) ||
		archive_write_open(c->tar, c, NULL, on_write, NULL))
		return err_set(err, ENOMEM, "cannot make an archive");
	fd = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return enter(c, fd, err);
}

int context_open(
	const char *dir, const char *dockerfile, int stop_fd, struct context **out, struct err *err)
{
	struct context *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (!c)
		return err_set(err, ENOMEM, "out of memory");
	c->name = dir;
	c->dockerfile = dockerfile;
	c->stop_fd = stop_fd;
	c->file = -1;
	buf_init(&c->out, OUT_MAX);
	buf_init(&c->path, PATH_MAX);
	c->entry = archive_entry_new();
	c->root = open_safely(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
	if (c->root < 0)
		rc = err_set(err, errno, "the build's context %s: %m", dir);
	else if (!c->entry)
		rc = err_set(err, ENOMEM, "out of memory");
	rc = rc ? rc : load_ignore(c, err);
	rc = rc ? rc : context_rewind(c, err);
	if (rc)
		context_close(c);
	else
		*out = c;
	return rc;
}

void context_close(struct context *c)
{
	if (!c)
		return;
	forget(c);
	archive_entry_free(c->entry);
	ignore_free(c->ignore);
	if (c->root >= 0)
		close(c->root);
	buf_fini(&c->out);
	buf_fini(&c->path);
	free(c);
}

int context_dockerfile(struct context *c, struct buf *out, struct err *err)
{
	cleanup_close int fd =
		open_safely(c->root, c->dockerfile, O_RDONLY | O_NONBLOCK, RESOLVE_BENEATH);

	if (fd < 0)
		return err_set(err, errno, "%s/%s: %m", c->name, c->dockerfile);
	return load(fd, out, c->dockerfile, err);
}

/* The member at c->path is wanted. */
static bool wanted(const struct context *c)
{
	const char *path = (const char *)c->path.data;

	return !c->ignore || !strcmp(path, c->dockerfile) || !strcmp(path, IGNORE_FILE) ||
	       !ignore_matches(c->ignore, path);
}

/* In an ignored directory there may be something that is wanted. */
static bool worth_entering(const struct context *c)
{
	return ignore_has_exceptions(c->ignore) ||
	       (!strncmp((const char *)c->path.data, c->dockerfile, c->path.len) &&
		       c->dockerfile[c->path.len] == '/');
}

static int tar_failed(struct context *c, struct err *err)
{
	const char *why = archive_error_string(c->tar);

	return err_set(
		err, EIO, "cannot pack %s/%s: %s", c->name, member(c), why ? why : "out of memory");
}

/* The head of a member; everything is root's, as with the docker command. */
static int put_head(struct context *c, const struct stat *st, const char *link, struct err *err)
{
	archive_entry_clear(c->entry);
	archive_entry_set_pathname(c->entry, member(c));
	archive_entry_set_mode(c->entry, st->st_mode);
	archive_entry_set_mtime(c->entry, st->st_mtim.tv_sec, 0);
	archive_entry_set_size(c->entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	archive_entry_set_uid(c->entry, 0);
	archive_entry_set_gid(c->entry, 0);
	if (link)
		archive_entry_set_symlink(c->entry, link);
	if (archive_write_header(c->tar, c->entry) < ARCHIVE_WARN)
		return tar_failed(c, err);
	return 0;
}

static int put_link(
	struct context *c, int dir, const char *name, const struct stat *st, struct err *err)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL
			       ? 0
			       : err_set(err, errno, "%s/%s: %m", c->name, member(c));
	text[n] = 0;
	return put_head(c, st, text, err);
}

/* Begins a file: its content comes with the next steps. Gone, or something else by now: not there.
 */
static int put_file(struct context *c, int dir, const char *name, struct err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENXIO
			       ? 0
			       : err_set(err, errno, "%s/%s: %m", c->name, member(c));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (rc = put_head(c, &st, NULL, err))) {
		close(fd);
		return rc;
	}
	c->file = fd;
	c->left = st.st_size;
	return 0;
}

static int put_content(struct context *c, struct err *err)
{
	size_t want = c->left < (la_int64_t)CHUNK ? (size_t)c->left : CHUNK;
	ssize_t n = want ? read(c->file, c->chunk, want) : 0;

	if (n < 0)
		return err_set(err, errno, "%s/%s: %m", c->name, member(c));
	if (want && n == 0)
		return err_set(
			err, EIO, "%s/%s became shorter while it was packed", c->name, member(c));
	if (n && archive_write_data(c->tar, c->chunk, (size_t)n) != n)
		return tar_failed(c, err);
	c->left -= n;
	if (!c->left)
		close(steal_fd(&c->file));
	return 0;
}

static int put_dir(struct context *c, int dir, const char *name, const struct stat *st, bool want,
	struct err *err)
{
	int rc = want ? put_head(c, st, NULL, err) : 0, fd;

	if (rc || (!want && !worth_entering(c)))
		return rc;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0;
	if (buf_puts(&c->path, "/")) {
		if (fd >= 0)
			close(fd);
		return err_set(err, ENAMETOOLONG, "%s has a path that is too long", c->name);
	}
	return enter(c, fd, err);
}

static int put_member(struct context *c, const char *name, struct err *err)
{
	const struct level *l = &c->levels[c->depth - 1];
	int dir = dirfd(l->dir);
	struct stat st;
	bool want;

	c->path.len = l->path_len;
	if (buf_puts(&c->path, name))
		return err_set(err, ENAMETOOLONG, "%s has a path that is too long", c->name);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : err_set(err, errno, "%s/%s: %m", c->name, member(c));
	want = wanted(c);
	if (S_ISDIR(st.st_mode))
		return put_dir(c, dir, name, &st, want, err);
	if (!want)
		return 0;
	if (S_ISREG(st.st_mode))
		return put_file(c, dir, name, err);
	if (S_ISLNK(st.st_mode))
		return put_link(c, dir, name, &st, err);
	return S_ISFIFO(st.st_mode) ? put_head(c, &st, NULL, err) : 0;
}

/* One piece more. */
static int step(struct context *c, struct err *err)
{
	struct dirent *d;

	if (c->file >= 0)
		return put_content(c, err);
	if (!c->depth) {
		c->ended = true;
		c->path.len = 0;
		return archive_write_close(c->tar) ? tar_failed(c, err) : 0;
	}
	errno = 0;
	d = readdir(c->levels[c->depth - 1].dir);
	if (!d && errno)
		return err_set(err, errno, "cannot read a directory of %s: %m", c->name);
	if (!d) {
		closedir(c->levels[--c->depth].dir);
		return 0;
	}
	if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
		return 0;
	return put_member(c, d->d_name, err);
}

ssize_t context_read(struct context *c, void *p, size_t n, struct err *err)
{
	while (!c->out.len && !c->ended) {
		/* Of what is ignored nothing is sent, however much there is. */
		int rc = ++c->steps % STOP_EVERY == 0 && follow_stopped(c->stop_fd)
				 ? err_set(err, EINTR, "interrupted")
				 : step(c, err);

		if (rc)
			return rc;
		if (c->out.error)
			return err_set(err, ENOMEM, "out of memory");
	}
	n = c->out.len < n ? c->out.len : n;
	if (n) {
		memcpy(p, c->out.data, n);
		buf_consume(&c->out, n);
	}
	return (ssize_t)n;
}
