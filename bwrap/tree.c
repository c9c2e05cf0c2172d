/* SPDX-License-Identifier: MIT */
#include "bwrap/tree.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int open_below(int root_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int make_in(int parent, const char *name, bool file)
{
	cleanup_close int made = -1;

	if (!file)
		return mkdirat(parent, name, 0755) < 0 ? -errno : 0;
	made = openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	return made < 0 ? -errno : 0;
}

/* A link that leads nowhere, as /etc/resolv.conf is in many an image: it goes. Only on the root's
 * own mount, where that is a change of the sandbox's and nobody else's. */
static int drop_link(int root_fd, const char *up, const char *name)
{
	cleanup_close int parent = open_below(root_fd, up, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
	struct stat st;

	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISLNK(st.st_mode))
		return -EEXIST;
	return unlinkat(parent, name, 0) < 0 ? -errno : 0;
}

/* Makes what is missing at `path`, whose parent is there. */
static int make_last(int root_fd, const char *path, bool file, uid_t owner)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	cleanup_close int parent = -1;
	char up[PATH_MAX];
	int r;

	snprintf(up, sizeof(up), "%.*s", (int)(name - path), path);
	if (!up[0])
		snprintf(up, sizeof(up), ".");
	parent = open_below(root_fd, up, O_PATH | O_DIRECTORY, 0);
	if (parent < 0)
		return parent;
	r = make_in(parent, name, file);
	if (r == -EEXIST && (r = drop_link(root_fd, up, name)) == 0)
		r = make_in(parent, name, file);
	if (r < 0)
		return r;
	return fchownat(parent, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int tree_make(int root_fd, const char *path, bool file, uid_t owner, struct err *err)
{
	char part[PATH_MAX];
	size_t n = 0, len = strlen(path);
	int fd;

	if (len >= sizeof(part))
		return err_set(err, ENAMETOOLONG, "%.64s...: too long", path);
	fd = open_below(root_fd, path, O_PATH, 0);
	while (fd == -ENOENT && path[n]) {
		int r;

		n += strspn(path + n, "/");
		n += strcspn(path + n, "/");
		memcpy(part, path, n);
		part[n] = 0;
		fd = open_below(root_fd, part, O_PATH, 0);
		if (fd == -ENOENT) {
			r = make_last(
				root_fd, part, file && !path[n + strspn(path + n, "/")], owner);
			if (r < 0)
				return err_set(err, -r, "%s cannot be made in the sandbox: %s",
					part, strerror(-r));
			fd = open_below(root_fd, path, O_PATH, 0);
		} else if (fd >= 0 && n < len) {
			close(fd);
			fd = -ENOENT;
		}
	}
	return fd < 0 ? err_set(err, -fd, "%s in the sandbox: %s", path, strerror(-fd)) : fd;
}

int tree_make_plain(int root_fd, const char *name, uid_t owner, struct err *err)
{
	struct stat st;

	if (fstatat(root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(st.st_mode))
			return 0;
		if (unlinkat(root_fd, name, 0) < 0)
			return err_set(err, errno, "/%s in the sandbox is no directory: %s", name,
				strerror(errno));
	}
	if (mkdirat(root_fd, name, 0755) < 0 ||
		fchownat(root_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(
			err, errno, "/%s cannot be made in the sandbox: %s", name, strerror(errno));
	return 0;
}

/* Where nothing can be moved out of. As deep as there are such in one another. */
static int empty_apart(int dir, const char *name)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err err = {0};
	int r = fd < 0 ? -errno : tree_empty(fd, &err);

	return r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

/* One level: what is not empty moves up to top, to be a level of its own later. */
static int empty_level(int top, int fd, unsigned *moved, char *path, size_t size)
{
	cleanup_closedir DIR *d = fdopendir(dup(fd));
	struct dirent *e;
	int r;

	if (!d)
		return -errno;
	rewinddir(d);
	while ((e = readdir(d))) {
		char to[32];

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno == EISDIR || errno == EPERM) {
			if (unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
				continue;
		}
		snprintf(path, size, "%s", e->d_name);
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
		if (fd == top)
			continue;
		do {
			snprintf(to, sizeof(to), ".%u", (*moved)++);
			r = renameat2(fd, e->d_name, top, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
		} while (r == -EEXIST);
		if (r == -EXDEV) /* a volume of its own, as btrfs lets everybody make them */
			r = empty_apart(fd, e->d_name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int empty_top(int top, unsigned *moved, bool *more, char *path, size_t size)
{
	cleanup_closedir DIR *d = fdopendir(dup(top));
	struct dirent *e;

	*more = false;
	if (!d)
		return -errno;
	rewinddir(d);
	while ((e = readdir(d))) {
		cleanup_close int fd = -1;
		int r;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		fd = openat(top, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		/* Its modes may forbid it to an owner who is not root. */
		fchmod(fd, 0700);
		*more = true;
		r = empty_level(top, fd, moved, path, size);
		if (r < 0)
			return r;
		if (unlinkat(top, e->d_name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY)
			return -errno;
	}
	return 0;
}

int tree_empty(int fd, struct err *err)
{
	char path[NAME_MAX + 1] = "";
	unsigned moved = 0;
	bool more = true;
	int r = empty_level(fd, fd, &moved, path, sizeof(path));

	while (r == 0 && more)
		r = empty_top(fd, &moved, &more, path, sizeof(path));
	return r < 0 ? err_set(err, -r, "%s cannot be removed: %s", path, strerror(-r)) : 0;
}
