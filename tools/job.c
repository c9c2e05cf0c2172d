/* SPDX-License-Identifier: MIT */
/* Nothing here knows a protocol or an engine: a job is a directory. The main thread waits for
 * signals and for the end; the others may wait in read or write as long as they like. */
#include "tools/job.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define CHUNK	    65536
#define ARGV_MAX    (16u << 20)
#define WORDS_MAX   2048
#define WORDS_MS    1000
#define PATIENCE_MS 2000 /* with a reader that takes nothing, after a signal */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* One write, so that what comes at once stays apart. It may be stderr that nobody reads: words are
 * not worth waiting for ever. */
void complain(const char *fmt, ...)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	char text[WORDS_MAX];
	size_t len;
	va_list ap;

	snprintf(text, sizeof(text), "%s: ", program_invocation_short_name);
	len = strlen(text);
	va_start(ap, fmt);
	vsnprintf(text + len, sizeof(text) - len, fmt, ap);
	va_end(ap);
	len = strnlen(text, sizeof(text) - 2);
	text[len++] = '\n';
	if (poll(&p, 1, WORDS_MS) > 0 && write(STDERR_FILENO, text, len) < 0)
		return; /* there is nobody else to tell */
}

static bool path_of(const struct job *j, const char *file, char path[PATH_MAX + 64])
{
	return snprintf(path, PATH_MAX + 64, "%s/%s", j->dir, file) < PATH_MAX + 64;
}

void job_text(const char *dir, const char *file, char text[JOB_TEXT_MAX])
{
	char path[PATH_MAX + 64];
	cleanup_close int fd = -1;
	size_t len = 0;
	ssize_t n = 1;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && len < JOB_TEXT_MAX - 1) {
		n = read(fd, text + len, JOB_TEXT_MAX - 1 - len);
		if (n > 0)
			len += (size_t)n;
	}
	text[len] = 0;
}

const char *job_line(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (text && *text && *text != '\n') { /* what a command printed is behind that */
		if (strncmp(text, key, n) == 0 && strncmp(text + n, ": ", 2) == 0)
			return text + n + 2;
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return NULL;
}

static int line_length(const char *line)
{
	return (int)strcspn(line, "\n");
}

bool job_failed(const struct job *j, const char *what, int code)
{
	char text[JOB_TEXT_MAX], ctl[PATH_MAX + 8];
	const char *words;

	snprintf(ctl, sizeof(ctl), "%s/ctl", j->sandbox);
	job_text(ctl, "error", text);
	words = job_line(text, "message");
	if (words && code != ENOENT)
		complain("%s: %s (%.*s)", what, strerror(code), line_length(words), words);
	else
		complain("%s: %s", what, strerror(code));
	return false;
}

/* But those that somebody has us ignore, as nohup does: the command would not see them either. */
static bool take_signals(struct job *j)
{
	struct sigaction old;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&set, passed_on[i]);
	signal(SIGPIPE, SIG_IGN);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return false;
	j->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return j->signals >= 0;
}

/* What we open must not come in the place of a standard descriptor that is closed. */
static void fill_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

bool job_make(struct job *j, const char *sandbox)
{
	*j = (struct job){.signals = -1, .input = -1};
	fill_standard();
	if (strlen(sandbox) >= sizeof(j->sandbox)) {
		complain("%s: %s", sandbox, strerror(ENAMETOOLONG));
		return false;
	}
	memcpy(j->sandbox, sandbox, strlen(sandbox) + 1);
	snprintf(j->dir, sizeof(j->dir), "%s/ctl/jobs/%.5s-XXXXXX", sandbox,
		strchr(program_invocation_short_name, '-')
			? strchr(program_invocation_short_name, '-') + 1
			: "job");
	/* This waits for the sandbox, perhaps for its image: a signal still ends us. */
	if (!mkdtemp(j->dir)) {
		j->dir[0] = 0;
		return job_failed(j, sandbox, errno);
	}
	if (!take_signals(j)) {
		complain("signals: %s", strerror(errno));
		return false;
	}
	return true;
}

/* 0 or an errno. */
static int put(const struct job *j, const char *file, int flags, const void *data, size_t size)
{
	char path[PATH_MAX + 64];
	cleanup_close int fd = -1;
	size_t done = 0;

	if (!path_of(j, file, path))
		return ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	while (fd >= 0 && done < size) {
		ssize_t n = write(fd, (const char *)data + done, size - done);

		if (n < 0 && errno != EINTR)
			return errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return fd < 0 || close(steal_fd(&fd)) < 0 ? errno : 0;
}

static bool put_or_say(
	const struct job *j, const char *file, int flags, const void *data, size_t size)
{
	int code = put(j, file, flags, data, size);

	return !code || job_failed(j, file, code);
}

bool job_set(const struct job *j, const char *file, const char *text)
{
	return put_or_say(j, file, O_TRUNC, text, strlen(text));
}

bool job_add(const struct job *j, const char *file, const char *text)
{
	return put_or_say(j, file, O_APPEND, text, strlen(text));
}

void job_signal(const struct job *j, int sig)
{
	char text[16];
	int code;

	snprintf(text, sizeof(text), "%d\n", sig);
	code = put(j, "signal", O_TRUNC, text, strlen(text));
	if (code && code != ESRCH)
		job_failed(j, "signal", code);
}

bool job_run(const struct job *j, char *const *argv)
{
	cleanup_free char *text = malloc(ARGV_MAX);
	size_t len = 0;

	for (; text && *argv; argv++) {
		size_t n = strlen(*argv) + 1;

		if (n > ARGV_MAX - len) {
			complain("%s", strerror(E2BIG));
			return false;
		}
		memcpy(text + len, *argv, n);
		len += n;
	}
	if (!text)
		complain("%s", strerror(ENOMEM));
	return text && put_or_say(j, "argv", O_TRUNC, text, len);
}

/* 0: the end. Somebody may have made it non-blocking, and it is theirs too. */
static ssize_t read_input(char *data, size_t size)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	ssize_t n;

	while ((n = read(STDIN_FILENO, data, size)) < 0 && (errno == EAGAIN || errno == EINTR))
		poll(&p, 1, -1);
	if (n < 0)
		complain("stdin: %s", strerror(errno));
	return n < 0 ? 0 : n;
}

static void *feed(void *arg)
{
	struct job *j = arg;
	char data[CHUNK], path[PATH_MAX + 64];
	ssize_t n, w = 0;

	while (w >= 0 && (n = read_input(data, sizeof(data))) > 0)
		for (ssize_t at = 0; at < n && w >= 0; at += w)
			w = write(j->input, data + at, (size_t)(n - at));
	if (w >= 0 && path_of(j, "stdin", path))
		unlink(path); /* the end of its input */
	return NULL;
}

bool job_feed(struct job *j)
{
	char path[PATH_MAX + 64];
	pthread_t thread;

	if (!path_of(j, "stdin", path))
		return false;
	j->input = open(path, O_WRONLY | O_CLOEXEC);
	if (j->input < 0)
		return job_failed(j, "stdin", errno);
	if (pthread_create(&thread, NULL, feed, j))
		return job_failed(j, "stdin", EAGAIN);
	pthread_detach(thread);
	return true;
}

/* True: one of them asks for an end. */
static bool pass_signals(struct job *j, bool over, void (*resized)(struct job *j))
{
	struct signalfd_siginfo si;
	bool asked = false;

	while (read(j->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH) {
			if (resized && !over)
				resized(j);
			continue;
		}
		asked |= si.ssi_signo != SIGUSR1 && si.ssi_signo != SIGUSR2;
		if (!over)
			job_signal(j, (int)si.ssi_signo);
	}
	return asked;
}

/* end: its `wait`; done: see struct copy. */
static bool start_copies(struct job *j, int *end, int *done)
{
	static const char *const files[JOB_STREAMS] = {"stdout", "stderr"};
	char path[PATH_MAX + 64];

	*done = eventfd(0, EFD_CLOEXEC);
	*end = path_of(j, "wait", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (*done < 0 || *end < 0)
		return job_failed(j, "wait", errno);
	for (int i = 0; i < JOB_STREAMS; i++) {
		struct copy *c = &j->copies[i];

		c->job = j;
		c->name = files[i];
		c->from = path_of(j, files[i], path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		c->to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
		c->end = *end;
		c->done = *done;
		if (c->from < 0)
			return job_failed(j, files[i], errno);
		if (!copy_start(c))
			return false;
	}
	return true;
}

static uint64_t given(const struct job *j)
{
	return atomic_load(&j->copies[0].given) + atomic_load(&j->copies[1].given);
}

bool job_follow(struct job *j, void (*resized)(struct job *j))
{
	uint64_t before = 0, done = 0, n;
	bool over = false, asked = false;
	int end_fd, done_fd; /* the threads' to the very end */

	if (!start_copies(j, &end_fd, &done_fd))
		return false;
	while (!over || done < JOB_STREAMS) {
		struct pollfd p[] = {{.fd = over ? -1 : end_fd, .events = POLLIN},
			{.fd = done_fd, .events = POLLIN}, {.fd = j->signals, .events = POLLIN}};
		int r = poll(p, sizeof(p) / sizeof(*p), over && asked ? PATIENCE_MS : -1);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return job_failed(j, "wait", errno);
		if (r == 0 && given(j) == before)
			break;
		before = given(j);
		if (p[2].revents && pass_signals(j, over, resized)) {
			if (over)
				break;
			asked = true;
		}
		over |= p[0].revents != 0;
		if (p[1].revents && read(done_fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
			done += n;
	}
	return true;
}

/* -1: not known. */
static int status_of_command(const struct job *j)
{
	char code[JOB_TEXT_MAX], text[JOB_TEXT_MAX];
	const char *words;
	char *end;
	long n;

	job_text(j->dir, "exit_code", code);
	job_text(j->dir, "summary", text);
	words = job_line(text, "message");
	if (words)
		complain("%.*s", line_length(words), words);
	n = strtol(code, &end, 10);
	if (end != code && n >= 0 && n <= 255)
		return (int)n;
	job_text(j->dir, "result", text);
	complain("how it ended is not known%s%.*s", *text ? ": " : "", line_length(text), text);
	return -1;
}

int job_status(struct job *j)
{
	int status = status_of_command(j);
	bool whole = true;

	for (int i = 0; i < JOB_STREAMS; i++)
		whole &= copy_is_whole(&j->copies[i]);
	if (!whole && status >= 0)
		complain("the command's own exit status: %d", status);
	return whole && status >= 0 ? status : JOB_TROUBLE;
}

void job_forget(const struct job *j)
{
	if (j->dir[0] && rmdir(j->dir) < 0 && errno != ENOENT)
		complain("%s: %s", j->dir, strerror(errno));
}
