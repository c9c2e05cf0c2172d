/* SPDX-License-Identifier: MIT */
/* Prepares a command: arguments, environment, user, streams. Loop's thread; all memory of one
 * launch is freed after the fork. */
#include "agent/launch.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SETTINGS_MAX 4096	  /* values of one kind */
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

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void launch_fini(struct launch *l)
{
	free(l->user);
	free(l->cwd);
	free_list(l->env, l->n_env);
	free_list(l->shell, l->n_shell);
	*l = (struct launch){0};
}

static int add_setting(char ***list, size_t *n, char *value)
{
	char **bigger = *n < SETTINGS_MAX ? realloc(*list, (*n + 1) * sizeof(char *)) : NULL;

	if (!bigger) {
		free(value);
		return -E2BIG;
	}
	*list = bigger;
	bigger[(*n)++] = value;
	return 0;
}

static int parse_one(struct launch *l, uint8_t tag, char *value)
{
	switch (tag) {
	case PROTO_SET_ARGV:
		l->argv = true;
		if (*value) {
			free(value);
			return -EINVAL;
		}
		free(value);
		return 0;
	case PROTO_SET_USER:
		free(l->user);
		l->user = value;
		return 0;
	case PROTO_SET_CWD:
		free(l->cwd);
		l->cwd = value;
		return 0;
	case PROTO_SET_ENV:
		if (!*value || *value == '=') {
			free(value);
			return -EINVAL;
		}
		return add_setting(&l->env, &l->n_env, value);
	case PROTO_SET_SHELL:
		return add_setting(&l->shell, &l->n_shell, value);
	default:
		free(value);
		return -EINVAL;
	}
}

int launch_parse(struct wire_in *in, struct launch *l)
{
	int ret = 0;

	while (!ret && in->p < in->end && !in->bad) {
		uint8_t tag = wire_get_u8(in);
		char *value = wire_get_str(in, PROTO_CONFIG_MAX);

		ret = value ? parse_one(l, tag, value) : -EINVAL;
	}
	return ret;
}

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

static int make_env(const struct launch_config *config, const struct launch *l,
	const struct user *user, struct words *env)
{
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
	if (!ret && env_at(env, "PATH", 4) == env->n)
		ret = env_set_to(env, "PATH", DEFAULT_PATH);
	for (size_t i = 0; i < l->n_env && !ret; i++)
		ret = env_set(env, l->env[i]);
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
	const struct launch *l, const char *text, size_t n, struct words *argv, bool *script)
{
	char *const usual[] = {(char[]){"sh"}, (char[]){"-c"}};
	char *const *shell = l->n_shell ? l->shell : usual;
	size_t n_shell = l->n_shell ? l->n_shell : 2;
	int ret = 0;

	*script = n > INLINE_MAX || memchr(text, 0, n);
	for (size_t i = 0; i < n_shell && !ret; i++) {
		size_t len = strlen(shell[i]);

		if (!*script || i + 1 < n_shell || len < 2 || shell[i][0] != '-' ||
			shell[i][len - 1] != 'c')
			ret = words_add(argv, strdup(shell[i]));
		else if (len > 2)
			ret = words_add(argv, strndup(shell[i], len - 1));
	}
	if (ret)
		return ret;
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

static int make_argv(const struct launch *l, int text_fd, uint64_t size, struct words *argv,
	bool *script, struct err *err)
{
	size_t want = l->argv ? ARGV_MAX : INLINE_MAX + 1, n = 0;
	cleanup_free char *text = NULL;
	int ret;

	*script = false;
	if (l->argv && size > ARGV_MAX)
		return err_set(err, E2BIG, "the arguments are too long");
	text = read_text(text_fd, size < want ? (size_t)size : want, &n);
	/* Room before argv[0]: see run.h. */
	ret = text ? words_add(argv, strdup("")) : -ENOMEM;
	if (ret)
		return err_set(err, ENOMEM, "no memory for the command");
	if (l->argv) {
		ret = split_argv(text, n, argv);
	} else if (n >= 2 && text[0] == '#' && text[1] == '!') {
		*script = true;
		ret = interpreter_argv(text, argv);
		if (ret == -ENOEXEC)
			return err_set(err, ENOEXEC, "no interpreter after #!");
	} else {
		ret = shell_argv(l, text, n, argv, script);
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

static int start(struct run_spec *spec, int dir_fd, struct job *j, struct err *err)
{
	cleanup_close int out = -1, errs = -1, in = open_nothing();
	int error = 0, report = -1, own = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	pid_t pid;

	if (in < 0 || own < 0)
		return err_set(err, EMFILE, "no descriptors for the command");
	j->output = output_new(own, &out, &errs, &error);
	if (!j->output)
		return err_set(err, -error, "no pipe for the output: %s", strerror(-error));
	spec->in = in;
	spec->out = out;
	spec->err = errs;
	pid = run_start(spec, &report);
	if (pid < 0)
		return err_set(err, -pid, "fork: %s", strerror(-pid));
	j->supervisor = pid;
	j->report.fd = report;
	return 0;
}

int launch_job(const struct launch_config *config, const struct launch *l, int dir_fd,
	struct job *j, struct err *err)
{
	cleanup_close int text_fd = openat(dir_fd, "command", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	auto_words struct words argv = {0};
	auto_words struct words env = {0};
	const char *path;
	struct user user;
	bool script;
	size_t at;
	int ret;

	if (text_fd < 0)
		return err_set(err, errno, "the command's text is gone: %s", strerror(errno));
	ret = user_find(config->root_fd, l->user ? l->user : config->user_spec, &user, err);
	if (ret < 0)
		return ret == -ENOENT ? -EINVAL : ret; /* no such user is not "no such command" */
	if (geteuid() != 0 && user.uid != geteuid())
		return err_set(err, EPERM, "the agent is not root: it cannot run as %u", user.uid);
	ret = make_argv(l, text_fd, j->command_size, &argv, &script, err);
	if (ret < 0)
		return ret;
	if (argv.n < 2)
		return err_set(err, ENOENT, "no command was given");
	if (make_env(config, l, &user, &env) < 0)
		return err_set(err, ENOMEM, "no memory for the environment");
	at = env_at(&env, "PATH", 4);
	path = at < env.n ? env.list[at] + 5 : DEFAULT_PATH;
	struct run_spec spec = {.argv = argv.list + 1,
		.envp = env.list,
		.path = path,
		.cwd = l->cwd ? l->cwd : config->workspace,
		.user = geteuid() == 0 ? &user : NULL,
		.files = config->files,
		.script = script ? text_fd : -1};

	snprintf(j->program, sizeof(j->program), "%s", argv.list[1]);
	snprintf(j->cwd, sizeof(j->cwd), "%s", spec.cwd);
	return start(&spec, dir_fd, j, err);
}
