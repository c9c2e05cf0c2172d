/* SPDX-License-Identifier: MIT */
#include "fs/mountpoint.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MS 10000 /* for a daemon on a machine that is busy */

/* What stands there: 0 for a directory, -errno. Not what the kernel remembers of it: nobody may be
 * there any more, so a child asks. A daemon that is there answers at once; one that was killed
 * while the kernel kept a thread of it has left a mount in which everybody waits. */
static int ask_mountpoint(const char *path)
{
	cleanup_close int from = -1;
	int pipes[2], r = -ETIMEDOUT;
	struct statx st;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		r = statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_TYPE, &st) < 0 ? -errno
		    : S_ISDIR(st.stx_mode)					    ? 0
										    : -ENOTDIR;
		_exit(write(pipes[1], &r, sizeof(r)) != sizeof(r));
	}
	from = pipes[0];
	close(pipes[1]);
	if (pid < 0)
		return -EAGAIN;
	if (poll(&(struct pollfd){.fd = from, .events = POLLIN}, 1, ANSWER_MS) > 0) {
		if (read(from, &r, sizeof(r)) != sizeof(r))
			r = -EIO;
		waitpid(pid, NULL, 0);
	} else {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, WNOHANG); /* the kernel may keep it too */
	}
	return r;
}

static int detach(const char *path)
{
	int status;
	pid_t pid;

	if (umount2(path, MNT_DETACH) == 0)
		return 0;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "--", path, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return -ENOTCONN;
	return 0;
}

int mountpoint_clear(const char *path)
{
	int r = ask_mountpoint(path);

	if (r == -ETIMEDOUT)
		fprintf(stderr,
			"sandboxfs: %s: nobody answers there; if its daemon is dead: umount -f\n",
			path);
	if (r != -ENOTCONN && r != -ECONNABORTED) /* it died; it died while we asked */
		return r;
	return detach(path);
}

/* In mountinfo a space, a tab, a newline and a backslash are \ooo. */
static bool is_path(const char *shown, const char *path)
{
	for (; *path; path++) {
		char want[5] = {*path, 0};

		if (strchr(" \t\n\\", *path))
			snprintf(want, sizeof(want), "\\%03o", (unsigned)(unsigned char)*path);
		if (strncmp(shown, want, strlen(want)) != 0)
			return false;
		shown += strlen(want);
	}
	return !*shown;
}

void mountpoint_device(const char *path, char device[MOUNTPOINT_DEVICE])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	size_t room = 0;

	device[0] = 0;
	while (f && getline(&line, &room, f) > 0) {
		char *save, *field[5];
		int n = 0;
		bool ours = strstr(line, " - fuse.sandboxfs ") != NULL;

		for (char *at = strtok_r(line, " ", &save); at && n < 5;
			at = strtok_r(NULL, " ", &save))
			field[n++] = at;
		if (n == 5 && is_path(field[4], path)) /* the last is on top */
			snprintf(device, MOUNTPOINT_DEVICE, "%s", ours ? field[2] : "");
	}
	if (f)
		fclose(f);
}

void mountpoint_abort(const char *path, const char *device)
{
	const char *minor = strchr(device, ':');
	char now[MOUNTPOINT_DEVICE], file[128];
	cleanup_close int fd = -1;

	if (!minor)
		return;
	snprintf(file, sizeof(file), "/sys/fs/fuse/connections/%s/abort", minor + 1);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) != 1)
		return;
	mountpoint_device(path, now);
	if (strcmp(now, device) != 0)
		return; /* somebody else's by now */
	if (umount2(path, MNT_FORCE | MNT_DETACH) < 0 && fd >= 0)
		detach(path);
}
