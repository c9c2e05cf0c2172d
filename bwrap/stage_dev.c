/* SPDX-License-Identifier: MIT */
/*
 * A sandbox's /dev: the six devices that everything needs, terminals of its own, and /dev/shm.
 * bwrap could make it, but reads the whole table of mounts again for each device.
 */
#include "bwrap/stage.h"

#include "bwrap/tree.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define SHM_USUAL "67108864" /* Docker's */

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const struct {
	const char *name, *text;
} links[] = {{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}};

int stage_new_mount(const char *type, const char *const *options, unsigned attr)
{
	cleanup_close int fs = fsopen(type, FSOPEN_CLOEXEC);
	int r = fs < 0 ? -errno : 0;

	for (; r == 0 && *options; options += 2)
		r = fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0 ? -errno : 0;
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = -errno;
	if (r == 0 && (r = fsmount(fs, FSMOUNT_CLOEXEC, attr)) < 0)
		r = -errno;
	return r;
}

static int attach(int fd, int at, const char *name)
{
	return move_mount(fd, "", at, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int make_device(int dev, const char *name)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	cleanup_close int made = -1, fd = -1;
	char path[32];

	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	made = openat(dev, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	if (fd < 0 || made < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return attach(fd, dev, name);
}

static int fill(int dev, uid_t owner)
{
	static const char *const terminals[] = {"ptmxmode", "0666", "mode", "620", NULL};
	cleanup_close int pts = -1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(devices) / sizeof(*devices); i++)
		r = make_device(dev, devices[i]);
	for (size_t i = 0; r == 0 && i < sizeof(links) / sizeof(*links); i++)
		r = symlinkat(links[i].text, dev, links[i].name) < 0 ? -errno : 0;
	if (r == 0 && (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 ||
			      fchmodat(dev, "shm", 01777, 0) < 0 ||
			      fchownat(dev, "shm", owner, owner, 0) < 0 ||
			      fchownat(dev, "", owner, owner, AT_EMPTY_PATH) < 0))
		r = -errno;
	if (r < 0)
		return r;
	pts = stage_new_mount("devpts", terminals, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	return pts < 0 ? pts : attach(pts, dev, "pts");
}

int stage_dev(int root_fd, uid_t owner, struct err *err)
{
	static const char *const options[] = {"mode", "755", "size", SHM_USUAL, NULL};
	/* Each device is a mount of its own, for which this does not count. */
	cleanup_close int dev = -1, tmpfs = stage_new_mount(
					    "tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	int r = tmpfs < 0 ? tmpfs : tree_make_plain(root_fd, "dev", owner, err);

	if (r == 0)
		r = attach(tmpfs, root_fd, "dev");
	if (r == 0 && (dev = openat(root_fd, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		r = -errno;
	r = r < 0 ? r : fill(dev, owner);
	return r < 0 ? err_set(err, -r, "the sandbox's /dev: %s", strerror(-r)) : 0;
}
