/* SPDX-License-Identifier: MIT */
/*
 * A namespace's maps are written from outside of it. So a child stays behind, waits until its
 * parent has entered, and writes them: by itself for root, by newuidmap for others, whose range
 * /etc/subuid grants.
 */
#include "bwrap/ids.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define NOTIFY_SHARE 4

struct range {
	unsigned long start, count; /* count 0: none is granted */
};

/* The first range of `path` that is the user's: lines NAME:START:COUNT. */
static struct range granted(const char *path, const char *name, uid_t uid)
{
	struct range r = {0};
	char line[512], number[16];
	FILE *f = fopen(path, "re");

	snprintf(number, sizeof(number), "%u", uid);
	while (f && !r.count && fgets(line, sizeof(line), f)) {
		char *save = NULL, *who = strtok_r(line, ":", &save);
		char *start = strtok_r(NULL, ":", &save), *count = strtok_r(NULL, ":\n", &save);

		if (!who || !start || !count ||
			(strcmp(who, name) != 0 && strcmp(who, number) != 0))
			continue;
		r.start = strtoul(start, NULL, 10);
		r.count = strtoul(count, NULL, 10);
	}
	if (f)
		fclose(f);
	return r;
}

/* By the file, else as the session says: a program without shared libraries can ask no directory
 * service, and what is wrong here newuidmap refuses. */
static void name_of(uid_t uid, char *name, size_t size)
{
	const char *said = getenv("USER");
	const struct passwd *pw = NULL;
	FILE *f = fopen("/etc/passwd", "re");

	snprintf(name, size, "%s", said ? said : "");
	while (f && (pw = fgetpwent(f)) && pw->pw_uid != uid)
		;
	if (pw)
		snprintf(name, size, "%s", pw->pw_name);
	if (f)
		fclose(f);
}

static int write_file(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	return fd < 0 ? -errno : write(fd, text, n) == (ssize_t)n ? 0 : -errno;
}

static int write_map(pid_t pid, const char *which, unsigned long outside, unsigned long count)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, which);
	snprintf(text, sizeof(text), "0 %lu %lu\n", outside, count);
	return write_file(path, text);
}

/* newuidmap PID 0 UID 1 1 START COUNT */
static int run_map(const char *program, pid_t pid, unsigned long self, struct range r)
{
	char num[5][24];
	pid_t child;
	int status;

	snprintf(num[0], sizeof(num[0]), "%d", pid);
	snprintf(num[1], sizeof(num[1]), "%lu", self);
	snprintf(num[2], sizeof(num[2]), "%lu", r.start);
	snprintf(num[3], sizeof(num[3]), "%lu",
		r.count < IDS_COUNT - 1 ? r.count : (unsigned long)IDS_COUNT - 1);
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp(program, program, num[0], "0", num[1], "1", "1", num[2], num[3],
			(char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return -EPERM;
	return 0;
}

/* In the child that stays outside. The number of ids that there are then, or 0: none. */
static unsigned map_from_outside(pid_t pid, unsigned unused)
{
	char name[256];
	struct range uids, gids;

	(void)unused;
	if (getuid() == 0)
		return write_map(pid, "uid_map", IDS_BASE, IDS_COUNT) == 0 &&
				       write_map(pid, "gid_map", IDS_BASE, IDS_COUNT) == 0
			       ? IDS_COUNT
			       : 0;
	name_of(getuid(), name, sizeof(name));
	uids = granted("/etc/subuid", name, getuid());
	gids = granted("/etc/subgid", name, getuid());
	uids.count = gids.count = uids.count < gids.count ? uids.count : gids.count;
	if (!uids.count || run_map("newgidmap", pid, getgid(), gids) < 0)
		return 0;
	if (run_map("newuidmap", pid, getuid(), uids) < 0)
		return 0;
	return uids.count < IDS_COUNT ? (unsigned)uids.count + 1 : IDS_COUNT;
}

/* From inside an ordinary user can have its own id, and no other. */
static int map_one(uid_t uid, gid_t gid)
{
	int r = write_file("/proc/self/setgroups", "deny");

	r = r < 0 ? r : write_map(getpid(), "uid_map", uid, 1);
	return r < 0 ? r : write_map(getpid(), "gid_map", gid, 1);
}

static int forbidden(int code, struct err *err)
{
	/* ENOSPC is the namespaces' limit, and no disk's. */
	return err_set(err, code == ENOSPC ? EPERM : code,
		code == EPERM || code == ENOSPC || code == EACCES
			? "user namespaces are forbidden here (%s): allow them with sysctl "
			  "user.max_user_namespaces=100000 and, where the kernel has it, "
			  "kernel.unprivileged_userns_clone=1 and "
			  "kernel.apparmor_restrict_unprivileged_userns=0"
			: "no user namespace: %s",
		strerror(code));
}

static int become_root(bool groups, struct err *err)
{
	if ((groups && setgroups(0, NULL) < 0) || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_set(err, errno, "cannot become root of the user namespace: %s",
			strerror(errno));
	return 0;
}

/* A new user namespace, whose maps `map` writes in a child that stays outside; its answer, 0: none.
 */
static int unshare_mapped(unsigned (*map)(pid_t pid, unsigned arg), unsigned arg, unsigned *n)
{
	pid_t self = getpid(), child;
	int go[2], done[2], r = 0;
	char c = 0;

	*n = 0;
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(done, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		close(go[1]);
		if (read(go[0], &c, 1) == 1)
			*n = map(self, arg);
		_exit(write(done[1], n, sizeof(*n)) == (ssize_t)sizeof(*n) ? 0 : 1);
	}
	close(go[0]);
	close(done[1]);
	if (unshare(CLONE_NEWUSER) < 0)
		r = -errno;
	else if (write(go[1], &c, 1) != 1 || read(done[0], n, sizeof(*n)) != (ssize_t)sizeof(*n))
		r = -EIO;
	close(go[1]);
	close(done[0]);
	waitpid(child, NULL, 0);
	return r;
}

int ids_enter(unsigned *count, struct err *err)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	unsigned n;
	int r = unshare_mapped(map_from_outside, 0, &n);

	if (r == 0 && !n)
		r = uid ? map_one(uid, gid) : -EPERM;
	if (r < 0)
		return forbidden(-r, err);
	*count = n ? n : 1;
	return become_root(n > 0, err);
}

static unsigned map_same(pid_t pid, unsigned count)
{
	char path[64], text[64];
	int n = snprintf(text, sizeof(text), "0 0 1\n");

	/* Two lines: one may not span two of the outer map. */
	if (count > 1)
		snprintf(text + n, sizeof(text) - (size_t)n, "1 1 %u\n", count - 1);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (write_file(path, text) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	return write_file(path, text) < 0 ? 0 : count;
}

/* What the host grants each user, and all sandboxes of a daemon are its user's: of that a quarter.
 * The agent takes two instances and an eighth of the watches; the rest is for programs. */
static int share_notify(void)
{
	static const struct {
		const char *host, *own;
	} all[] = {{"inotify/max_user_instances", "max_inotify_instances"},
		{"inotify/max_user_watches", "max_inotify_watches"},
		{"fanotify/max_user_groups", "max_fanotify_groups"},
		{"fanotify/max_user_marks", "max_fanotify_marks"}};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(all) / sizeof(*all); i++) {
		char path[64], text[32] = "";
		cleanup_close int fd = -1;

		snprintf(path, sizeof(path), "/proc/sys/fs/%s", all[i].host);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			continue; /* the kernel has none of these */
		snprintf(text, sizeof(text), "%lu", strtoul(text, NULL, 10) / NOTIFY_SHARE);
		snprintf(path, sizeof(path), "/proc/sys/user/%s", all[i].own);
		r = write_file(path, text);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

int ids_enclose(unsigned count, unsigned long processes, struct err *err)
{
	struct rlimit limit = {.rlim_cur = processes, .rlim_max = processes};
	unsigned n;
	int r;

	if (processes && setrlimit(RLIMIT_NPROC, &limit) < 0)
		return err_set(
			err, errno, "a limit of %lu processes: %s", processes, strerror(errno));
	/* Root's process has changed its ids, so the kernel keeps its files in /proc from whoever
	 * is to write the maps. bwrap, which we become, is as open as any. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0)
		return err_set(err, errno, "no user namespace: %s", strerror(errno));
	/* Before: the limits of this namespace hold the next one as a whole, its own each user. */
	r = share_notify();
	if (r < 0)
		return err_set(err, -r, "a share of inotify: %s", strerror(-r));
	r = unshare_mapped(map_same, count, &n);
	if (r < 0 || !n)
		return forbidden(r < 0 ? -r : EPERM, err);
	return become_root(count > 1, err);
}

int ids_close(struct err *err)
{
	if (write_file("/proc/sys/user/max_user_namespaces", "0") < 0)
		return err_set(err, EPERM, "cannot forbid user namespaces inside");
	return 0;
}
