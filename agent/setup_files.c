/* SPDX-License-Identifier: MIT */
/*
 * Files, directories and links of the setup. The image is hostile, and volumes may be shared with
 * running sandboxes: each part of a path is opened by itself, never through a link, and a file is
 * made anew, never written through what was there. Before anything else runs; the main thread.
 */
#include "agent/setup_files.h"

#include "agent/sys.h"
#include "agent/user.h"
#include "common/cleanup.h"
#include "common/proto.h"
#include "common/setup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

struct owner {
	uint32_t uid, gid;
};

static int failed(int code, const char *path, struct err *err)
{
	return err_set(err, code, "%s: %s", path, strerror(code));
}

/* A user namespace may have few ids. */
static int not_given(int code, const char *path, struct owner o, struct err *err)
{
	return err_set(err, code, "%s: it cannot be given to %u:%u: %s", path, o.uid, o.gid,
		code == EINVAL ? "the sandbox's user namespace has no such id" : strerror(code));
}

static int give_fd(int fd, const char *path, struct owner o, uint32_t mode, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return failed(errno, path, err);
	if ((st.st_uid != o.uid || st.st_gid != o.gid) && fchown(fd, o.uid, o.gid) < 0)
		return not_given(errno, path, o, err);
	/* After chown, which takes set-id bits. */
	return fchmod(fd, mode & 07777) < 0 ? failed(errno, path, err) : 0;
}

static int words(struct err *err, int code, int dir, const char *name, const char *path)
{
	char target[256];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n >= 0) {
		target[n] = 0;
		return err_set(err, ELOOP,
			"%s: %s in the way is a link (to %s); name the real path", path, name,
			target);
	}
	return err_set(err, code, "%s: %s: %s", path, name, strerror(code));
}

/* Opens the directory dir/name, making it if need be; *made. */
static int enter(int dir, const char *name, const char *path, struct owner o, uint32_t mode,
	bool *made, struct err *err)
{
	cleanup_close int fd = -1;
	int r;

	*made = mkdirat(dir, name, 0700) == 0;
	if (!*made && errno != EEXIST && errno != EROFS)
		return words(err, errno, dir, name, path);
	r = errno;
	fd = sys_open_beneath(dir, name, DIR_FLAGS, 0);
	if (fd < 0)
		return words(err, errno == ENOENT && !*made ? r : errno, dir, name, path);
	r = *made ? give_fd(fd, path, o, mode, err) : 0;
	return r < 0 ? r : steal_fd(&fd);
}

/* The directory that path's last part is in; *last points into path. */
static int enter_parent(
	int root_fd, const char *path, struct owner o, const char **last, struct err *err)
{
	cleanup_close int dir = sys_open_beneath(root_fd, ".", DIR_FLAGS, 0);
	const char *p = path + 1, *slash;
	char name[PROTO_NAME_MAX + 1];
	bool made;

	if (dir < 0)
		return err_set(err, errno, "/: %s", strerror(errno));
	for (; (slash = strchr(p, '/')); p = slash + 1) {
		int next;

		if ((size_t)(slash - p) >= sizeof(name))
			return err_set(err, ENAMETOOLONG, "%s: %s", path, strerror(ENAMETOOLONG));
		memcpy(name, p, (size_t)(slash - p));
		name[slash - p] = 0;
		next = enter(dir, name, path, o, 0755, &made, err);
		if (next < 0)
			return next;
		close(dir);
		dir = next;
	}
	*last = p;
	return steal_fd(&dir);
}

int setup_dir(
	int root_fd, const char *path, uint32_t mode, uint32_t uid, uint32_t gid, struct err *err)
{
	struct owner o = {uid, gid};
	const char *name = "";
	bool made;
	cleanup_close int dir = enter_parent(root_fd, path, o, &name, err);
	cleanup_close int fd = -1;

	if (dir < 0 || !*name)
		return dir < 0 ? dir : 1;
	fd = enter(dir, name, path, o, mode, &made, err);
	return fd < 0 ? fd : !made;
}

/* A new file in the place of whatever was there. What cannot be taken away (the engine mounts a few
 * files of /etc) is written itself. */
static int open_new(int dir, const char *name)
{
	struct stat st;
	int fd;

	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
		if (errno != EBUSY)
			return -errno;
		fd = sys_open_beneath(dir, name, O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY, 0);
	} else {
		fd = sys_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static int write_file(
	int dir, const char *name, const struct setup_record *r, struct owner o, struct err *err)
{
	cleanup_close int fd = open_new(dir, name);
	size_t done = 0;

	if (fd < 0)
		return failed(-fd, r->name, err);
	while (done < r->n_bytes) {
		ssize_t n = write(fd, r->bytes + done, r->n_bytes - done);

		if (n < 0 && errno != EINTR)
			return failed(errno, r->name, err);
		done += n > 0 ? (size_t)n : 0;
	}
	return give_fd(fd, r->name, o, r->id, err);
}

static int write_link(
	int dir, const char *name, const struct setup_record *r, struct owner o, struct err *err)
{
	if ((unlinkat(dir, name, 0) < 0 && errno != ENOENT) || symlinkat(r->home, dir, name) < 0)
		return failed(errno, r->name, err);
	return (o.uid || o.gid) && fchownat(dir, name, o.uid, o.gid, AT_SYMLINK_NOFOLLOW) < 0
		       ? not_given(errno, r->name, o, err)
		       : 0;
}

int setup_file(int root_fd, const struct setup_record *r, struct err *err)
{
	cleanup_close int dir = -1;
	struct owner o = {0, 0};
	struct user user;
	const char *name = "";
	int ret;

	if (*r->owner) {
		ret = user_find(root_fd, r->owner, &user, err);
		if (ret < 0)
			return err_prefix(err, "the owner of %s", r->name);
		o = (struct owner){user.uid, user.gid};
	}
	if (r->kind == SETUP_DIR)
		return setup_dir(root_fd, r->name, r->id, o.uid, o.gid, err);
	dir = enter_parent(root_fd, r->name, o, &name, err);
	if (dir < 0)
		return dir;
	return r->kind == SETUP_FILE ? write_file(dir, name, r, o, err)
				     : write_link(dir, name, r, o, err);
}
