/* SPDX-License-Identifier: MIT */
/*
 * The process waits for orders, and forks for each: a child takes the rights of who asks for good,
 * acts, and answers on a socket that came with the order. A path is resolved beneath the mount and
 * nowhere else, from a descriptor that proves to be this mount; so nothing is ever made in the
 * directory under it. All of them end with the daemon.
 */
#include "fs/doer.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

/* The real and saved ids stay the daemon's, or the user could stop the process, and with it
 * everybody's errands; rights go by the others. All end with the daemon: a change of ids forgets
 * that, so it is said again. */
static int act_as(const struct doer_order *o, struct err *err)
{
	if (geteuid() != 0 && o->uid != geteuid())
		return err_set(
			err, EPERM, "the daemon is not root, and cannot act as user %u", o->uid);
	if (geteuid() == 0 && (setgroups((size_t)o->n_groups, o->groups) < 0 ||
				      setresgid((gid_t)-1, o->gid, (gid_t)-1) < 0 ||
				      setresuid((uid_t)-1, o->uid, (uid_t)-1) < 0))
		return err_set(err, errno, "cannot act as user %u: %s", o->uid, strerror(errno));
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_set(err, errno, "%s", strerror(errno));
	return 0;
}

/* The mount's root, if it is this mount that stands there. */
static int open_root(const char *mountpoint, const struct doer_order *o, struct err *err)
{
	cleanup_close int fd = open(mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct timespec *t = &o->mounted;
	struct statfs sfs;
	struct stat st;

	if (fd < 0 || fstatfs(fd, &sfs) < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "cannot reach the mount: %s", strerror(errno));
	if (sfs.f_type != FUSE_SUPER_MAGIC || st.st_mtim.tv_sec != t->tv_sec ||
		st.st_mtim.tv_nsec != t->tv_nsec)
		return err_set(err, ENOTCONN, "%s is not this mount", mountpoint);
	return steal_fd(&fd);
}

/* A child's work. */
struct work {
	const char *mountpoint;
	struct doer_order order;
	int root;
};

/* A path, as the directory that it is in, and its last name. */
struct place {
	int dir;
	const char *name;
};

static void place_fini(const struct place *p)
{
	cleanup_closep(&p->dir);
}

#define cleanup_place __attribute__((cleanup(place_fini)))

/* Below the mount; the text is changed. */
static int reach(const struct work *w, char *path, struct place *at, struct err *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	size_t n = strlen(w->mountpoint);
	struct stat st;
	char *last;

	if (strncmp(path, w->mountpoint, n) == 0 && path[n] == '/')
		path += n + strspn(path + n, "/");
	if (*path == '/')
		return err_set(err, EINVAL, "%s is not in this mount", path);
	for (n = strlen(path); n && path[n - 1] == '/';)
		path[--n] = 0;
	last = strrchr(path, '/');
	at->name = last ? last + 1 : path;
	if (last)
		*last = 0;
	if (!*at->name || strcmp(at->name, ".") == 0 || strcmp(at->name, "..") == 0)
		return err_set(err, EINVAL, "a path ends in a name");
	at->dir = (int)syscall(SYS_openat2, w->root, last ? path : ".", &how, sizeof(how));
	if (at->dir < 0)
		return err_set(err, errno, "%s: %s", last ? path : ".", strerror(errno));
	/* Its writer holds its lock until we are done. */
	if (strcmp(at->name, "do") == 0 && fstatat(at->dir, "do", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		st.st_ino == w->order.own_ino)
		return err_set(err, EPERM, "this file stays");
	return 0;
}

/* The next word, which quotes may hold together; changes the text. NULL: none, or *bad. */
static char *next_word(char **at, bool *bad)
{
	char *p = *at + strspn(*at, " \t"), *word = p;

	if (!*p)
		return NULL;
	if (*p == '\'' || *p == '"') {
		word = p + 1;
		p = strchr(word, *p);
		*bad |= !p || (p[1] && !strchr(" \t", p[1]));
		if (*bad)
			return NULL;
	} else {
		p += strcspn(p, " \t");
	}
	*at = *p ? p + 1 : p;
	*p = 0;
	return word;
}

static int call(const char *verb, const struct place *p, const struct place *q)
{
	if (strcmp(verb, "mkdir") == 0)
		return mkdirat(p->dir, p->name, 0777);
	if (strcmp(verb, "mv") == 0)
		return renameat(p->dir, p->name, q->dir, q->name);
	return unlinkat(p->dir, p->name, strcmp(verb, "rmdir") == 0 ? AT_REMOVEDIR : 0);
}

static int act(const struct work *w, char *line, struct err *err)
{
	bool bad = false;
	char *verb = next_word(&line, &bad), *from = verb ? next_word(&line, &bad) : NULL;
	bool two = verb && strcmp(verb, "mv") == 0;
	char *to = two ? next_word(&line, &bad) : NULL;
	cleanup_place struct place p = {.dir = -1}, q = {.dir = -1};
	int r;

	if (!verb && !bad)
		return 0;
	if (!verb || (!two && strcmp(verb, "mkdir") != 0 && strcmp(verb, "rmdir") != 0 &&
			     strcmp(verb, "rm") != 0))
		return err_set(err, EINVAL, "a line is mkdir P, rmdir P, rm P or mv P Q");
	if (!from || (two && !to) || next_word(&line, &bad) || bad)
		return err_set(err, EINVAL, "%s takes %s; a path with blanks stands in quotes",
			verb, two ? "two paths" : "one path");
	r = reach(w, from, &p, err);
	if (r == 0 && two)
		r = reach(w, to, &q, err);
	if (r == 0 && call(verb, &p, &q) < 0)
		r = err_set(err, errno, "%s", strerror(errno));
	return r;
}

/* The first that fails ends it. */
static void act_all(const struct work *w, char *text, struct err *err)
{
	char *next;

	for (char *line = text; line && !err->code; line = next) {
		cleanup_free char *shown = NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line[strcspn(line, "\r")] = 0;
		if (*line == '#')
			continue;
		shown = strdup(line);
		if (act(w, line, err) < 0)
			err_prefix(err, "%s", shown ? shown : "");
	}
}

/* All that is in a descriptor, as a string; NULL: it cannot be had. */
static char *slurp(int fd)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) < 0 || st.st_size < 0)
		return NULL;
	text = calloc(1, (size_t)st.st_size + 1);
	if (text && pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return NULL;
	}
	return text;
}

/* When nobody waits for the answer any more the kernel kills us: a call on the mount may last as
 * long as its sandbox does not answer. Said while the ids are the daemon's, which may do that. */
static void end_with(int answer)
{
	struct pollfd p = {.fd = answer, .events = POLLRDHUP};

	if (fcntl(answer, F_SETOWN, getpid()) < 0 || fcntl(answer, F_SETSIG, SIGKILL) < 0 ||
		fcntl(answer, F_SETFL, O_ASYNC) < 0 || poll(&p, 1, 0) != 0)
		_exit(1);
}

static void child(struct work *w, int text_fd, int answer)
{
	char *text = slurp(text_fd);
	struct err err = {0};

	end_with(answer);
	w->root = open_root(w->mountpoint, &w->order, &err);
	if (!text)
		err_set(&err, ENOMEM, "no memory for that");
	if (!err.code && act_as(&w->order, &err) == 0)
		act_all(w, text, &err);
	send(answer, &err, sizeof(err), MSG_NOSIGNAL);
	_exit(0);
}

/* The next order, with the descriptors of its text and for its answer. False: the daemon has
 * gone. */
static bool next_order(int sock, struct doer_order *o, int fds[2])
{
	char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec iov = {.iov_base = o, .iov_len = sizeof(*o)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = n == sizeof(*o) ? CMSG_FIRSTHDR(&msg) : NULL;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return false;
	memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	return true;
}

/* Nothing of the daemon's is kept: not the engine's connection, not the terminal, not what it says
 * to a parent. */
static void close_others(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (sock > 3)
		close_range(3, (unsigned)sock - 1, 0);
	close_range((unsigned)sock + 1, ~0u, 0);
}

static void serve(int sock, const char *mountpoint)
{
	struct work w = {.mountpoint = mountpoint};
	int fds[2];

	close_others(sock);
	signal(SIGCHLD, SIG_IGN); /* nobody waits for the children */
	prctl(PR_SET_NAME, "sandboxfs-do");
	if (chdir("/") < 0)
		_exit(1);
	while (next_order(sock, &w.order, fds)) {
		pid_t pid = fork();

		if (pid == 0) {
			close(sock);
			child(&w, fds[0], fds[1]);
		}
		close(fds[0]);
		close(fds[1]); /* without a child the daemon sees the end of it */
	}
	_exit(0);
}

int doer_start(const char *mountpoint, struct doer *d)
{
	int socks[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		serve(socks[1], mountpoint);
	close(socks[1]);
	if (pid < 0) {
		close(socks[0]);
		return -EAGAIN;
	}
	*d = (struct doer){.sock = socks[0], .pid = pid};
	return 0;
}

void doer_end(struct doer *d)
{
	if (d->sock < 0)
		return;
	close(d->sock);
	while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
		;
	d->sock = -1;
}

static int send_order(const struct doer *d, const struct doer_order *o, const int fds[2])
{
	char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct doer_order copy = *o;
	struct iovec iov = {.iov_base = &copy, .iov_len = sizeof(copy)};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	return sendmsg(d->sock, &msg, MSG_NOSIGNAL) == sizeof(copy) ? 0 : -errno;
}

static int put_text(const char *text)
{
	cleanup_close int fd = memfd_create("lines", MFD_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0 || pwrite(fd, text, n, 0) != (ssize_t)n)
		return -1;
	return steal_fd(&fd);
}

int doer_begin(const struct doer *d, const struct doer_order *o, const char *text, struct err *err)
{
	cleanup_close int text_fd = put_text(text), here = -1, there = -1;
	int socks[2], r = -1;

	if (text_fd >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) == 0) {
		here = socks[0];
		there = socks[1];
		r = send_order(d, o, (int[]){text_fd, there});
	}
	if (r < 0)
		return err_set(err, EIO, "the process that acts here cannot be reached");
	return steal_fd(&here);
}

int doer_wait(int fd, struct err *err)
{
	struct err got;
	ssize_t n;

	do
		n = recv(fd, &got, sizeof(got), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(got))
		return err_set(err, EIO, "the process that acted here ended before its time");
	*err = got;
	return -got.code;
}

void doer_leave(int fd)
{
	shutdown(fd, SHUT_RDWR);
}
