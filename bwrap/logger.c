/* SPDX-License-Identifier: MIT */
/*
 * The only one of ours that stays beside bwrap. A pipe rather than the file itself, since lines
 * have no times of their own, and since the file must not grow for as long as somebody inside
 * prints: of more than LOG_MAX bytes the newest LOG_KEPT stay. One thread.
 */
#include "bwrap/logger.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LINE_LEN 16384 /* a longer one becomes several */
#define LOG_MAX	 (1 << 20)
#define LOG_KEPT (LOG_MAX / 2)
#define TIME_LEN 40

struct log {
	int fd;
	off_t at; /* its end */
};

/* Disk full, or whatever it is: the sandbox goes on without. */
static void put(struct log *l, const char *p, size_t n)
{
	ssize_t done = pwrite(l->fd, p, n, l->at);

	if (done > 0)
		l->at += done;
}

static void make_room(struct log *l)
{
	static char kept[LOG_KEPT];
	ssize_t n = pread(l->fd, kept, sizeof(kept), l->at - LOG_KEPT);
	const char *line = n > 0 ? memchr(kept, '\n', (size_t)n) : NULL;

	l->at = 0;
	if (line)
		put(l, line + 1, (size_t)(kept + n - line - 1));
	if (ftruncate(l->fd, l->at) < 0)
		l->at = 0;
}

static void put_line(struct log *l, const char *p, size_t n)
{
	static char line[TIME_LEN + LINE_LEN + 1];
	struct timespec now;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(line, TIME_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(line + len, TIME_LEN - len, ".%06ldZ ", now.tv_nsec / 1000);
	memcpy(line + len, p, n);
	len += n;
	line[len++] = '\n';
	if (l->at + (off_t)len > LOG_MAX)
		make_room(l);
	put(l, line, len);
}

static void run(int from, int log_fd)
{
	static char text[LINE_LEN];
	struct log l = {.fd = log_fd};
	struct stat st;
	size_t len = 0;
	ssize_t n;

	if (fstat(log_fd, &st) == 0)
		l.at = st.st_size;
	while ((n = read(from, text + len, sizeof(text) - len)) != 0) {
		char *line = text, *end;

		if (n < 0 && errno != EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
		while ((end = memchr(line, '\n', len))) {
			put_line(&l, line, (size_t)(end - line));
			len -= (size_t)(end + 1 - line);
			line = end + 1;
		}
		memmove(text, line, len);
		if (len == sizeof(text)) {
			put_line(&l, text, len);
			len = 0;
		}
	}
	if (len)
		put_line(&l, text, len);
}

/* Nothing but these two stays open: not the engine's pipe, nor the agent's socket. */
static void close_others(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

	if (low > 0)
		close_range(0, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0u, 0);
}

int logger_start(int log_fd, pid_t *pid, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "no pipe: %s", strerror(errno));
	*pid = fork();
	if (*pid == 0) {
		setsid();
		signal(SIGXFSZ, SIG_IGN); /* whoever mounted may have such a limit */
		close_others(ends[0], log_fd);
		run(ends[0], log_fd);
		_exit(0);
	}
	close(ends[0]);
	if (*pid < 0) {
		close(ends[1]);
		return err_set(err, errno, "no process: %s", strerror(errno));
	}
	return ends[1];
}

void logger_last(int log_fd, char *text, size_t size)
{
	struct stat st;
	ssize_t n = -1;
	char *line;

	if (fstat(log_fd, &st) == 0)
		n = pread(log_fd, text, size - 1,
			st.st_size > (off_t)size - 1 ? st.st_size - (off_t)size + 1 : 0);
	text[n > 0 ? n : 0] = 0;
	for (n = (ssize_t)strlen(text); n > 0 && text[n - 1] == '\n';)
		text[--n] = 0;
	line = strrchr(text, '\n');
	line = strchr(line ? line : text, ' '); /* after the time */
	if (line)
		memmove(text, line + 1, strlen(line));
}
