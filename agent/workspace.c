/* SPDX-License-Identifier: MIT */
/*
 * Makes the workspace, as root, at every start: by then parts of its path may be the sandbox's
 * user's, who could have put a link there to have a directory of his choice made by root and given
 * to him. So each part is opened by itself, and only root's own links (as /var/run in images) are
 * followed. The main thread.
 */
#include "agent/workspace.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PART_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define LINKS_MAX  40

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

struct walk {
	int dir;
	char rest[PATH_MAX]; /* of the path, from dir on */
	unsigned links;
	bool last_is_link;
};

static bool is_empty(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool empty = d;

	if (!d && fd >= 0)
		close(fd);
	while (empty && (e = readdir(d)))
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	return empty;
}

/* A fresh volume or tmpfs in the workspace's place is root's until somebody says otherwise. */
static bool is_fresh_mount(int dir)
{
	struct stat here, up;

	return fstat(dir, &here) == 0 && fstatat(dir, "..", &up, 0) == 0 &&
	       here.st_dev != up.st_dev && here.st_uid == 0 && is_empty(dir);
}

/* Where that cannot be, the sandbox is there all the same, and its log says why. */
static void give(int dir, const char *path, const struct user *user)
{
	if (fchownat(dir, "", user->uid, user->gid, AT_EMPTY_PATH) < 0)
		log_warn("the workspace: %s cannot be given to %u:%u: %s", path, user->uid,
			user->gid, errno == EINVAL ? "there is no such id" : strerror(errno));
}

static int go_to(struct walk *w, int fd)
{
	if (fd < 0)
		return -errno;
	if (w->dir >= 0)
		close(w->dir);
	w->dir = fd;
	return 0;
}

/* Puts the link's text before the rest. -ELOOP: it is not root's. */
static int follow(struct walk *w, const char *name)
{
	char text[PATH_MAX], all[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != 0 || ++w->links > LINKS_MAX)
		return -ELOOP;
	n = readlinkat(w->dir, name, text, sizeof(text) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ENOENT;
	text[n] = 0;
	if (!w->rest[strspn(w->rest, "/")])
		w->last_is_link = true;
	if ((size_t)snprintf(all, sizeof(all), "%s/%s", text, w->rest) >= sizeof(all))
		return -ENAMETOOLONG;
	memcpy(w->rest, all, strlen(all) + 1);
	return text[0] == '/' ? go_to(w, open("/", PART_FLAGS)) : 0;
}

/* One part further, making it if need be. */
static int step(struct walk *w, const char *path, const struct user *user)
{
	size_t from = strspn(w->rest, "/"), n = strcspn(w->rest + from, "/");
	char name[NAME_MAX + 1];
	bool made;
	int fd, why;

	if (n >= sizeof(name))
		return -ENAMETOOLONG;
	memcpy(name, w->rest + from, n);
	name[n] = 0;
	memmove(w->rest, w->rest + from + n, strlen(w->rest + from + n) + 1);
	if (!n)
		return 0;
	made = mkdirat(w->dir, name, 0755) == 0;
	why = made ? 0 : errno;
	if (!made && why != EEXIST && why != EISDIR && why != EROFS)
		return -why;
	fd = openat(w->dir, name, PART_FLAGS);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return follow(w, name);
	if (fd < 0)
		return errno == ENOENT && why ? -why : -errno;
	if (made && user->uid != geteuid())
		give(fd, path, user);
	return go_to(w, fd);
}

int workspace_make(const char *path, const struct user *user)
{
	struct walk w = {.dir = -1};
	struct stat st;
	int ret;

	if (strlen(path) >= sizeof(w.rest) || path[0] != '/')
		return -EINVAL;
	memcpy(w.rest, path, strlen(path) + 1);
	ret = go_to(&w, open("/", PART_FLAGS));
	while (!ret && w.rest[0])
		ret = step(&w, path, user);
	if (!ret && user->uid && !w.last_is_link && is_fresh_mount(w.dir))
		give(w.dir, path, user);
	/* Somebody else's link to what is there does no harm: nothing is made or given. */
	if (ret == -ELOOP && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		ret = 0;
	if (w.dir >= 0)
		close(w.dir);
	return ret;
}
