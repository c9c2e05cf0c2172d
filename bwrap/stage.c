/* SPDX-License-Identifier: MIT */
/*
 * Every mount is a descriptor first: sources are opened while the caller has its full rights (a
 * sandbox's root may not walk through /root), and are attached to descriptors of places that were
 * found below the sandbox's root, so no link in there can lead a mount out of it. bwrap then takes
 * the tree as it stands.
 */
#include "bwrap/stage.h"

#include "bwrap/ids.h"
#include "bwrap/tree.h"
#include "common/cleanup.h"
#include "sandbox/engine.h"
#include "sandbox/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STATE_NAME "state"

struct source {
	int fd; /* -1: there is none, and it may be so */
	bool file;
	const char *dest;
	char *own_dest; /* owned; NULL: dest is somebody else's */
};

static int set_read_only(int fd)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY};

	return mount_setattr(fd, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0 ? -errno : 0;
}

/* And private: what the host mounts beneath it later is not the sandbox's, and would come without
 * these flags. */
static int confine(int fd, bool read_only)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					   (read_only ? MOUNT_ATTR_RDONLY : 0),
		.propagation = MS_PRIVATE};

	return mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0 ? -errno : 0;
}

/* What a template names: its place was checked when the sandbox was made, and since then the
 * sandbox itself may have put a link there. */
static int open_volume(
	const char *path, const char *dest, bool read_only, struct source *s, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	cleanup_close int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat st = {0};
	int r = 0;

	s->dest = dest;
	if (fd >= 0)
		s->fd = open_tree(
			fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		r = -errno;
	r = r < 0 ? r : confine(s->fd, read_only);
	if (r < 0)
		return err_set(err, -r, "%s for %s: %s", path, dest,
			r == -ELOOP ? "it is, or lies behind, a link now" : strerror(-r));
	s->file = !S_ISDIR(st.st_mode);
	return 0;
}

static int open_source(const char *path, const char *dest, bool read_only, bool may_lack,
	struct source *s, struct err *err)
{
	struct stat st;
	int r;

	s->dest = dest;
	s->fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (s->fd < 0 && may_lack && errno == ENOENT)
		return 0;
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return err_set(err, errno, "%s for %s: %s", path, dest, strerror(errno));
	s->file = !S_ISDIR(st.st_mode);
	r = confine(s->fd, read_only);
	return r < 0 ? err_set(err, -r, "%s for %s: %s", path, dest, strerror(-r)) : 0;
}

static int config(int fs, const char *key, const char *value)
{
	return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int open_tmpfs(const char *const *a, struct source *s, struct err *err)
{
	cleanup_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int r = fs < 0 ? -errno : 0;

	s->dest = a[1];
	if (r == 0 && strcmp(a[2], "0") != 0)
		r = config(fs, "size", a[2]);
	r = r < 0 ? r : config(fs, "mode", a[3]);
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = -errno;
	if (r == 0)
		s->fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (r == 0 && s->fd < 0)
		r = -errno;
	return r < 0 ? err_set(err, -r, "a tmpfs for %s: %s", a[1], strerror(-r)) : 0;
}

static int open_one(const char *const *w, struct source *s, struct err *err)
{
	if (strcmp(w[0], "bind") == 0)
		return open_volume(w[1], w[2], false, s, err);
	if (strcmp(w[0], "robind") == 0)
		return open_volume(w[1], w[2], true, s, err);
	if (strcmp(w[0], "tryrobind") == 0)
		return open_source(w[1], w[2], true, true, s, err);
	return open_tmpfs(w, s, err);
}

static int attach(int root_fd, struct source *s, uid_t owner, struct err *err)
{
	cleanup_close int at = -1;

	if (s->fd < 0)
		return 0;
	at = tree_make(root_fd, s->dest, s->file, owner, err);
	if (at < 0)
		return at;
	if (move_mount(s->fd, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_set(err, errno, "%s cannot be mounted: %s", s->dest, strerror(errno));
	close(s->fd);
	s->fd = -1;
	return 0;
}

/* A fresh tmpfs is whose mounts it: in the sandbox it is to be root's. Read-only only then. */
static int own(const struct source *s, uid_t owner, bool read_only, struct err *err)
{
	int r = fchownat(s->fd, "", owner, owner, AT_EMPTY_PATH) < 0 ? -errno : 0;

	if (r == 0 && read_only)
		r = set_read_only(s->fd);
	return r < 0 ? err_set(err, -r, "a tmpfs for %s: %s", s->dest, strerror(-r)) : 0;
}

/* The root on its own mount. */
static int mount_root(const char *lower, bool user, struct err *err)
{
	char options[512];

	if (mount("tmpfs", STAGE, "tmpfs", 0, "mode=755") < 0 || mkdir(STAGE STAGE_ROOT, 0755) < 0)
		return err_set(
			err, errno, "no place to put the root together: %s", strerror(errno));
	if (!lower) {
		if (mount("root", STAGE STAGE_ROOT, NULL, MS_BIND, NULL) < 0 ||
			mount(NULL, STAGE STAGE_ROOT, NULL,
				MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV, NULL) < 0)
			return err_set(err, errno, "the sandbox's root: %s", strerror(errno));
		return 0;
	}
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=upper,workdir=work,index=off%s",
		lower, user ? ",userxattr" : "");
	if (mount("overlay", STAGE STAGE_ROOT, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return err_set(err, errno, "the image's root cannot be mounted (overlay): %s",
			strerror(errno));
	return 0;
}

bool stage_overlay(const char *dir, bool user)
{
	static const char *const names[] = {"lower", "upper", "work/work", "work"};
	char top[PATH_MAX], options[64];
	bool can;

	snprintf(top, sizeof(top), "%s/.try-XXXXXX", dir);
	if (!mkdtemp(top) || chdir(top) < 0)
		return false;
	can = mkdir("lower", 0700) == 0 && mkdir("upper", 0700) == 0 && mkdir("work", 0700) == 0;
	snprintf(options, sizeof(options), "lowerdir=lower,upperdir=upper,workdir=work,index=off%s",
		user ? ",userxattr" : "");
	can = can && mount("overlay", "lower", "overlay", 0, options) == 0;
	if (can)
		can = mkdir("lower/x", 0700) == 0 && rmdir("lower/x") == 0;
	umount2("lower", MNT_DETACH);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		rmdir(names[i]);
	rmdir(top);
	return can;
}

static bool is_tmpfs(const char *word)
{
	return strcmp(word, "tmpfs") == 0 || strcmp(word, "rotmpfs") == 0;
}

static bool is_mount(const char *word)
{
	return strcmp(word, "bind") == 0 || strcmp(word, "robind") == 0 ||
	       strcmp(word, "tryrobind") == 0 || is_tmpfs(word);
}

/* A sandbox's own groups, where a container has them: of /sys/fs/cgroup/memory/PARENT/ID the place
 * is /sys/fs/cgroup/memory. */
static int open_group(const char *path, struct source *s, struct err *err)
{
	s->own_dest = strdup(path);
	if (!s->own_dest)
		return err_set(err, ENOMEM, "out of memory");
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(s->own_dest, '/');

		if (slash)
			*slash = 0;
	}
	return open_source(path, s->own_dest, true, false, s, err);
}

/* /sys has nothing else, and nothing can be put there. */
static int make_sys(int root_fd, uid_t owner, struct err *err)
{
	static const char *const options[] = {"mode", "755", "size", "65536", NULL};
	cleanup_close int fd =
		stage_new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	int r = fd < 0 ? fd : tree_make_plain(root_fd, "sys", owner, err);

	if (r == 0 && move_mount(fd, "", root_fd, "sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		r = -errno;
	return r < 0 ? err_set(err, -r, "the sandbox's /sys: %s", strerror(-r)) : 0;
}

static int close_sys(int root_fd, struct err *err)
{
	cleanup_close int fd = openat(root_fd, "sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : set_read_only(fd);

	return r < 0 ? err_set(err, -r, "the sandbox's /sys: %s", strerror(-r)) : 0;
}

static int finish(
	struct source *s, size_t n, bool groups, bool read_only, uid_t owner, struct err *err)
{
	cleanup_close int root = open(STAGE STAGE_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = root < 0 ? err_set(err, errno, "the sandbox's root: %s", strerror(errno)) : 0;

	r = r < 0 ? r : tree_make_plain(root, "proc", owner, err);
	r = r < 0 ? r : tree_make_plain(root, &SPEC_OURS[1], owner, err);
	r = r < 0 ? r : stage_dev(root, owner, err);
	r = r < 0 || !groups ? r : make_sys(root, owner, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = attach(root, &s[i], owner, err);
	r = r < 0 || !groups ? r : close_sys(root, err);
	if (r == 0 && read_only && (r = set_read_only(root)) < 0)
		err_set(err, -r, "the root cannot be made read-only: %s", strerror(-r));
	return r;
}

static int open_all(const struct plan *p, const char *agent, char *const *groups, uid_t owner,
	struct source *s, size_t *n, struct err *err)
{
	int r = open_source(STATE_NAME, ENGINE_STATE_DIR, false, false, &s[(*n)++], err);

	r = r < 0 ? r : open_source(agent, ENGINE_AGENT_PATH, true, false, &s[(*n)++], err);
	for (; r == 0 && *groups; groups++)
		r = open_group(*groups, &s[(*n)++], err);
	for (size_t i = 0; r == 0 && i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1) {
		const char *const *w = &p->words[i];

		if (!is_mount(w[0]))
			continue;
		r = open_one(w, &s[*n], err);
		if (r == 0 && is_tmpfs(w[0]))
			r = own(&s[*n], owner, strcmp(w[0], "rotmpfs") == 0, err);
		++*n;
	}
	return r;
}

int stage_make(
	const struct plan *p, const char *agent, char *const *groups, bool user, struct err *err)
{
	/* Of root inside, as it is called from where we stand. */
	uid_t owner = user ? 0 : IDS_BASE;
	const char *lower = NULL;
	bool read_only = false;
	size_t n = 0, room = p->n_words + 2;
	struct source *s;
	int r;

	for (char *const *g = groups; *g; g++)
		room++;
	s = calloc(room, sizeof(*s));
	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < room; i++)
		s[i].fd = -1;
	for (size_t i = 0; i < p->n_words; i += (size_t)plan_args(p->words[i]) + 1) {
		if (strcmp(p->words[i], "lower") == 0)
			lower = p->words[i + 1];
		read_only |= strcmp(p->words[i], "readonly") == 0;
	}
	r = open_all(p, agent, groups, owner, s, &n, err);
	r = r < 0 ? r : mount_root(lower, user, err);
	r = r < 0 ? r : finish(s, n, *groups, read_only, owner, err);
	for (size_t i = 0; i < n; i++) {
		if (s[i].fd >= 0)
			close(s[i].fd);
		free(s[i].own_dest);
	}
	free(s);
	return r;
}

/* A copy of the mounts at `path`, at `at` beneath the stage; what is a link is one there too. */
static int keep(const char *path, const char *at)
{
	char to[PATH_MAX], text[PATH_MAX];
	cleanup_close int fd = -1;
	struct stat st;
	ssize_t n;

	snprintf(to, sizeof(to), STAGE "%s", at);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(st.st_mode) && strcmp(path, at) == 0) {
		n = readlink(path, text, sizeof(text) - 1);
		if (n < 0)
			return -errno;
		text[n] = 0;
		return symlink(text, to) < 0 ? -errno : 0;
	}
	fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0)
		return -errno;
	if ((S_ISDIR(st.st_mode) ? mkdir(to, 0755) : mknod(to, S_IFREG | 0644, 0)) < 0 ||
		move_mount(fd, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

/* By PATH, as a shell would. */
static int find_bwrap(char *path, size_t size)
{
	const char *all = getenv("PATH"), *at = all ? all : "/usr/bin:/bin";

	for (size_t n; *at; at += n + (at[n] ? 1 : 0)) {
		n = strcspn(at, ":");
		snprintf(path, size, "%.*s/bwrap", (int)n, at);
		if (at[0] == '/' && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

int stage_enter(struct err *err)
{
	/* bwrap with its libraries, and what it looks at. */
	static const char *const kept[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
		"/libx32", "/nix", "/gnu", "/proc"};
	char bwrap[PATH_MAX];
	int r = find_bwrap(bwrap, sizeof(bwrap));

	if (r < 0)
		return err_set(err, -r, "bwrap is not installed: apt-get install bubblewrap");
	for (size_t i = 0; r == 0 && i < sizeof(kept) / sizeof(*kept); i++)
		r = keep(kept[i], kept[i]);
	r = r < 0 ? r : keep(bwrap, STAGE_BWRAP);
	if (r == 0 && (mkdir(STAGE "/etc", 0755) < 0 || mkdir(STAGE "/tmp", 0755) < 0))
		r = -errno;
	r = r < 0 ? r : keep("/etc/ld.so.cache", "/etc/ld.so.cache");
	if (r == 0 && (chdir(STAGE) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
			      umount2(".", MNT_DETACH) < 0 || chdir("/") < 0))
		r = -errno;
	return r < 0 ? err_set(err, -r, "no place to run bwrap in: %s", strerror(-r)) : 0;
}
