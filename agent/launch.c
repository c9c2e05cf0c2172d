/* SPDX-License-Identifier: MIT */
/* Prepares a command: arguments, environment, user, streams. Loop's thread; all memory of one
 * launch is freed after the fork. */
#include "agent/launch.h"

#include "agent/input.h"
#include "agent/state_file.h"
#include "agent/terminal.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define INLINE_MAX   (100u << 10) /* Linux takes 128 KiB in one argument */
#define ARGV_MAX     (16u << 20)
#define SCRIPT_PATH  "/proc/self/fd/3" /* RUN_SCRIPT_FD */

/* A growing NULL-terminated list of owned strings. */
struct words {
	char **list;
	size_t n, cap;
};

static int words_add(struct words *w, char *s)
{
	if (!s)
		return -ENOMEM;
	if (w->n + 1 >= w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 32;
		char **list = realloc(w->list, cap * sizeof(char *));

		if (!list) {
			free(s);
			return -ENOMEM;
		}
		w->list = list;
		w->cap = cap;
	}
	w->list[w->n++] = s;
	w->list[w->n] = NULL;
	return 0;
}

static void words_fini(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i]);
	free(w->list);
}

#define auto_words __attribute__((cleanup(words_fini)))

/* Where KEY=... stands in the environment, or where it would be added. */
static size_t env_at(const struct words *env, const char *key, size_t len)
{
	size_t i;

	for (i = 0; i < env->n; i++)
		if (strncmp(env->list[i], key, len) == 0 && env->list[i][len] == '=')
			break;
	return i;
}

/* "KEY=VALUE" sets, "KEY" unsets. */
static int env_set(struct words *env, const char *setting)
{
	size_t len = strcspn(setting, "="), at = env_at(env, setting, len);
	char *copy;

	if (!setting[len]) {
		if (at == env->n)
			return 0;
		free(env->list[at]);
		env->list[at] = env->list[--env->n];
		env->list[env->n] = NULL;
		return 0;
	}
	copy = strdup(setting);
	if (at == env->n || !copy)
		return words_add(env, copy);
	free(env->list[at]);
	env->list[at] = copy;
	return 0;
}

static int env_set_to(struct words *env, const char *key, const char *value)
{
	char text[512];

	snprintf(text, sizeof(text), "%s=%s", key, value);
	return env_set(env, text);
}

/* The lines of the setting: "KEY=VALUE" or "KEY". */
static int env_set_lines(struct words *env, const char *text)
{
	bool failed = false;
	int ret = 0;
	char *line;

	while (!ret && (line = settings_line(&text, &failed))) {
		ret = *line ? env_set(env, line) : 0;
		free(line);
	}
	return failed ? -ENOMEM : ret;
}

static int make_env(const struct launch_config *config, const struct settings *set,
	const struct user *user, struct words *env)
{
	unsigned columns, rows;
	int ret = 0;

	for (char **e = config->envp; *e && !ret; e++)
		if (strchr(*e, '='))
			ret = words_add(env, strdup(*e));
	if (!ret)
		ret = env_set_to(env, "HOME", user->home);
	if (!ret && user->name[0])
		ret = env_set_to(env, "USER", user->name);
	if (!ret && user->name[0])
		ret = env_set_to(env, "LOGNAME", user->name);
	for (char **e = config->more_env; e && *e && !ret; e++)
		ret = env_set(env, *e);
	if (!ret && env_at(env, "PATH", 4) == env->n)
		ret = env_set_to(env, "PATH", DEFAULT_PATH);
	if (!ret && set->text[PROTO_SET_ENV])
		ret = env_set_lines(env, set->text[PROTO_SET_ENV]);
	if (!ret && settings_tty(set, &columns, &rows) == SETTINGS_TTY_TERMINAL &&
		env_at(env, "TERM", 4) == env->n)
		ret = env_set_to(env, "TERM", "xterm");
	return ret;
}

/* NUL-separated arguments. */
static int split_argv(const char *text, size_t n, struct words *argv)
{
	int ret = 0;

	for (size_t at = 0; at < n && !ret; at += strlen(text + at) + 1)
		ret = words_add(argv, strdup(text + at));
	return ret;
}

/* "#!interpreter argument": as the kernel would. */
static int interpreter_argv(const char *text, struct words *argv)
{
	size_t end = strcspn(text, "\n"), len;
	const char *at = text + 2, *last = text + end;
	int ret;

	while (last > at && (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\r'))
		last--;
	while (at < last && (*at == ' ' || *at == '\t'))
		at++;
	len = strcspn(at, " \t\r\n");
	if (at >= last || !len)
		return -ENOEXEC;
	ret = words_add(argv, strndup(at, len));
	at += len;
	while (at < last && (*at == ' ' || *at == '\t'))
		at++;
	if (!ret && at < last)
		ret = words_add(argv, strndup(at, (size_t)(last - at)));
	return ret ? ret : words_add(argv, strdup(SCRIPT_PATH));
}

/* The shell with the text as an argument, or, where that is too long, with the file: the option
 * that would take the text as an argument goes. */
static int shell_argv(
	const char *shell, const char *text, size_t n, struct words *argv, bool *script)
{
	bool failed = false;
	int ret = 0;
	char *arg;

	*script = n > INLINE_MAX || memchr(text, 0, n);
	while (!ret && (arg = settings_line(&shell, &failed))) {
		size_t len = strlen(arg);
		bool last = !*shell, dash_c = len >= 2 && arg[0] == '-' && arg[len - 1] == 'c';

		if (*script && last && dash_c) {
			arg[len - 1] = 0;
			if (len == 2) {
				free(arg);
				break;
			}
		}
		ret = words_add(argv, arg);
	}
	if (ret || failed)
		return ret ? ret : -ENOMEM;
	return words_add(argv, strdup(*script ? SCRIPT_PATH : text));
}

/* The text's beginning, or all of it where that is needed; a new string. */
static char *read_text(int fd, size_t want, size_t *len)
{
	char *text = malloc(want + 1);
	size_t n = 0;

	while (text && n < want) {
		ssize_t got = pread(fd, text + n, want - n, (off_t)n);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (text)
		text[n] = 0;
	*len = n;
	return text;
}

static int make_argv(const char *shell, bool is_argv, int text_fd, uint64_t size,
	struct words *argv, bool *script, struct err *err)
{
	size_t want = is_argv ? ARGV_MAX : INLINE_MAX + 1, n = 0;
	cleanup_free char *text = NULL;
	int ret;

	*script = false;
	if (is_argv && size > ARGV_MAX)
		return err_set(err, E2BIG, "the arguments are too long");
	text = read_text(text_fd, size < want ? (size_t)size : want, &n);
	/* Room before argv[0]: see run.h. */
	ret = text ? words_add(argv, strdup("")) : -ENOMEM;
	if (ret)
		return err_set(err, ENOMEM, "no memory for the command");
	if (is_argv) {
		ret = split_argv(text, n, argv);
	} else if (n >= 2 && text[0] == '#' && text[1] == '!') {
		*script = true;
		ret = interpreter_argv(text, argv);
		if (ret == -ENOEXEC)
			return err_set(err, ENOEXEC, "no interpreter after #!");
	} else {
		ret = shell_argv(shell ? shell : "sh\n-c", text, n, argv, script);
	}
	return ret ? err_set(err, -ret, "the command: %s", strerror(-ret)) : 0;
}

/* Nothing to read: /dev/null, or the end of a pipe where an image has none. */
static int open_nothing(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), p[2];
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	close(p[1]);
	return p[0];
}

/* What a command's standard streams are made of; -1: none. */
struct streams {
	int in, out, err; /* the command's */
	int live;	  /* our end of a live input */
	int file;	  /* what was written before the start */
	bool terminal;
};

#define STREAMS_NONE ((struct streams){-1, -1, -1, -1, -1, false})

static void streams_close(struct streams *s)
{
	int fds[] = {s->in, s->out, s->err, s->live, s->file};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

#define auto_streams __attribute__((cleanup(streams_close)))

static int open_terminal(const struct user *user, unsigned columns, unsigned rows, int dir_fd,
	struct job *j, struct streams *s, struct err *err)
{
	cleanup_close int own = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	int error = terminal_open(user, columns, rows, &s->live, &s->in, err);

	if (error < 0)
		return error;
	s->terminal = true;
	s->out = fcntl(s->in, F_DUPFD_CLOEXEC, 0);
	s->err = fcntl(s->in, F_DUPFD_CLOEXEC, 0);
	if (own < 0 || s->out < 0 || s->err < 0)
		return err_set(err, EMFILE, "no descriptors for the command");
	j->output = output_new_terminal(steal_fd(&own), s->live, &error);
	if (!j->output)
		return err_set(err, -error, "the terminal's output: %s", strerror(-error));
	return 0;
}

static int open_pipes(bool live, int dir_fd, struct job *j, struct streams *s, struct err *err)
{
	int error = 0, own = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0), p[2];

	if (own < 0)
		return err_set(err, EMFILE, "no descriptors for the command");
	j->output = output_new(own, &s->out, &s->err, &error);
	if (!j->output)
		return err_set(err, -error, "no pipe for the output: %s", strerror(-error));
	if (live) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_set(err, errno, "no pipe for the input: %s", strerror(errno));
		s->in = p[0];
		s->live = p[1];
		/* 0666: programs open /dev/stdin anew. */
		if (fcntl(s->live, F_SETFL, O_NONBLOCK) < 0 || fchmod(s->in, 0666) < 0)
			return err_set(err, errno, "the input: %s", strerror(errno));
		return 0;
	}
	s->in = s->file >= 0 ? steal_fd(&s->file) : open_nothing();
	return s->in < 0 ? err_set(err, EMFILE, "no descriptors for the command") : 0;
}

static int start(
	struct run_spec *spec, const struct user *user, int dir_fd, struct job *j, struct err *err)
{
	auto_streams struct streams s = STREAMS_NONE;
	unsigned columns = 0, rows = 0;
	enum settings_tty tty = settings_tty(&j->set, &columns, &rows);
	int report = -1, ret;
	pid_t pid;

	if (j->stdin_size)
		s.file = state_open(dir_fd, "stdin", O_RDONLY, 0);
	ret = tty == SETTINGS_TTY_TERMINAL
		      ? open_terminal(user, columns, rows, dir_fd, j, &s, err)
		      : open_pipes(tty == SETTINGS_TTY_PIPE, dir_fd, j, &s, err);
	if (ret < 0)
		return ret;
	spec->in = s.in;
	spec->out = s.out;
	spec->err = s.err;
	spec->terminal = s.terminal;
	if (s.live >= 0) {
		j->input =
			input_new(steal_fd(&s.live), steal_fd(&s.file), s.terminal, j->input_ended);
		if (!j->input)
			return err_set(err, ENOMEM, "no memory for the input");
	}
	pid = run_start(spec, &report);
	if (pid < 0)
		return err_set(err, -pid, "fork: %s", strerror(-pid));
	j->supervisor = pid;
	j->report.fd = report;
	return 0;
}

int launch_job(const struct launch_config *config, bool is_argv, int dir_fd, struct job *j,
	struct err *err)
{
	cleanup_close int text_fd = state_open(dir_fd, "command", O_RDONLY, 0);
	const char *cwd = j->set.text[PROTO_SET_CWD];
	auto_words struct words argv = {0};
	auto_words struct words env = {0};
	const char *path;
	struct user user;
	bool script;
	size_t at;
	int ret;

	if (text_fd < 0)
		return err_set(err, errno, "the command's text is gone: %s", strerror(errno));
	ret = settings_user(&j->set, config, &user, err);
	if (ret < 0)
		return ret;
	ret = make_argv(j->set.text[PROTO_SET_SHELL], is_argv, text_fd, j->command_size, &argv,
		&script, err);
	if (ret < 0)
		return ret;
	if (argv.n < 2)
		return err_set(err, ENOENT, "no command was given");
	if (make_env(config, &j->set, &user, &env) < 0)
		return err_set(err, ENOMEM, "no memory for the environment");
	at = env_at(&env, "PATH", 4);
	path = at < env.n ? env.list[at] + 5 : DEFAULT_PATH;
	struct run_spec spec = {.argv = argv.list + 1,
		.envp = env.list,
		.path = path,
		.cwd = cwd ? cwd : config->workspace,
		.user = geteuid() == 0 ? &user : NULL,
		.files = config->files,
		.script = script ? text_fd : -1};

	snprintf(j->program, sizeof(j->program), "%s", argv.list[1]);
	snprintf(j->cwd, sizeof(j->cwd), "%s", spec.cwd);
	return start(&spec, &user, dir_fd, j, err);
}
