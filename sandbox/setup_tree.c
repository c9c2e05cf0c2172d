/* SPDX-License-Identifier: MIT */
/*
 * Host files and directories on their way into a sandbox. The template gives a real path that was
 * allowed; so no link is followed on the way to it nor beneath it, whatever changes meanwhile.
 * Owns nothing; any thread.
 */
#include "sandbox/setup.h"

#include "common/cleanup.h"
#include "common/proto.h"
#include "common/setup_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DEPTH_MAX 64
#define CHUNK	  65536u

struct tree {
	struct setup_pack *p;
	const struct spec_file *f;
	char path[PROTO_PATH_MAX]; /* inside */
	size_t len;
};

static int open_source(const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int bad_source(const struct tree *t, const char *why)
{
	return err_set(t->p->err, errno ? errno : EINVAL, "files: %s%s for %s: %s", t->f->source,
		strlen(t->path) > strlen(t->f->path) ? " (in it)" : "", t->path, why);
}

/* Who may read a directory with that mode of files may enter it. */
static uint32_t mode_of(const struct tree *t, const struct stat *st)
{
	uint32_t mode = t->f->mode & 07777;

	if (!t->f->has_mode)
		return st->st_mode & 0777;
	return S_ISDIR(st->st_mode) ? (mode & 0777) | (mode & 0444) >> 2 : mode;
}

static void put_head(struct tree *t, uint8_t kind)
{
	wire_u8(&t->p->b, kind);
	wire_str(&t->p->b, t->path);
	wire_str(&t->p->b, t->f->owner ? t->f->owner : "");
}

/* As long as it was when it was opened; one that has shrunk meanwhile is told. */
static int put_regular(struct tree *t, int fd, const struct stat *st)
{
	uint64_t left = (uint64_t)st->st_size;
	int r;

	if (left > SETUP_MAX)
		return errno = EFBIG, bad_source(t, "larger than 256 MiB");
	put_head(t, SETUP_FILE);
	wire_u32(&t->p->b, mode_of(t, st));
	wire_u32(&t->p->b, (uint32_t)left);
	while (left) {
		size_t want = left < CHUNK ? (size_t)left : CHUNK;
		uint8_t *to = buf_reserve(&t->p->b, want);
		ssize_t n = to ? read(fd, to, want) : 0;

		if (!to)
			return setup_flush(t->p);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bad_source(t, strerror(errno));
		if (n == 0)
			return errno = EAGAIN, bad_source(t, "it became shorter while it was read");
		t->p->b.len += (size_t)n;
		left -= (uint64_t)n;
		r = setup_flush(t->p);
		if (r < 0)
			return r;
	}
	return setup_flush(t->p);
}

static int put_link(struct tree *t, int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return bad_source(t, strerror(errno));
	target[n] = 0;
	put_head(t, SETUP_LINK);
	wire_str(&t->p->b, target);
	return 0;
}

static int put_node(struct tree *t, int fd, unsigned depth);

static int put_entry(struct tree *t, int dir, const char *name, unsigned depth)
{
	size_t len = t->len, n = strlen(name);
	cleanup_close int fd = -1;
	struct stat st;
	int r;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (len + n + 2 > sizeof(t->path))
		return errno = ENAMETOOLONG, bad_source(t, "a path in it is too long");
	t->path[len] = '/';
	memcpy(t->path + len + 1, name, n + 1);
	t->len = len + 1 + n;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		r = bad_source(t, strerror(errno));
	} else if (S_ISLNK(st.st_mode)) {
		r = put_link(t, dir, name);
	} else {
		fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		r = fd < 0 ? bad_source(t, strerror(errno)) : put_node(t, fd, depth + 1);
	}
	t->path[len] = 0;
	t->len = len;
	return r;
}

static int put_dir(struct tree *t, int fd, const struct stat *st, unsigned depth)
{
	int copy = depth < DEPTH_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	cleanup_closedir DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *e;
	int r;

	if (depth >= DEPTH_MAX)
		return errno = ELOOP, bad_source(t, "directories too deep");
	if (!d) {
		r = bad_source(t, strerror(errno));
		if (copy >= 0)
			close(copy);
		return r;
	}
	put_head(t, SETUP_DIR);
	wire_u32(&t->p->b, mode_of(t, st));
	r = setup_flush(t->p);
	while (r == 0 && (errno = 0, e = readdir(d)))
		r = put_entry(t, fd, e->d_name, depth);
	return r == 0 && errno ? bad_source(t, strerror(errno)) : r;
}

static int put_node(struct tree *t, int fd, unsigned depth)
{
	struct stat st;

	errno = 0;
	if (fstat(fd, &st) < 0)
		return bad_source(t, strerror(errno));
	if (S_ISREG(st.st_mode))
		return put_regular(t, fd, &st);
	if (S_ISDIR(st.st_mode))
		return put_dir(t, fd, &st, depth);
	return bad_source(t, "neither a file nor a directory nor a link");
}

int setup_put_source(struct setup_pack *p, const struct spec_file *f)
{
	struct tree t = {.p = p, .f = f};
	cleanup_close int fd = -1;

	snprintf(t.path, sizeof(t.path), "%s", f->path);
	t.len = strlen(t.path);
	fd = open_source(f->source);
	return fd < 0 ? bad_source(&t, strerror(errno)) : put_node(&t, fd, 0);
}
