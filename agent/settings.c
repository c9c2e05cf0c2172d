/* SPDX-License-Identifier: MIT */
/*
 * Settings. The text is what a user wrote; it is read again where it is used, so there is one form
 * only. The state volume may hold anything: what is loaded is checked for its form as what is set
 * is. Loop's thread.
 */
#include "agent/settings.h"

#include "agent/launch.h"
#include "agent/rights.h"
#include "agent/state_file.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECONDS_MAX  1000000000ull /* 31 years */
#define TTY_SIDE_MAX 9999u
#define SHELL_MAX    256 /* arguments */
#define SAVED_MAX    (PROTO_SETS * (PROTO_CONFIG_MAX + 32))

void settings_fini(struct settings *s)
{
	for (unsigned i = 0; i < PROTO_SETS; i++)
		free(s->text[i]);
	*s = (struct settings){0};
}

int settings_copy(struct settings *to, const struct settings *from)
{
	struct settings s = {0};

	for (unsigned i = 0; i < PROTO_SETS; i++) {
		if (!from->text[i])
			continue;
		s.text[i] = strdup(from->text[i]);
		if (!s.text[i]) {
			settings_fini(&s);
			return -ENOMEM;
		}
	}
	*to = s;
	return 0;
}

char *settings_line(const char **text, bool *failed)
{
	size_t len = strcspn(*text, "\n");
	char *line;

	*failed = false;
	if (!**text)
		return NULL;
	line = strndup(*text, len);
	*failed = !line;
	*text += len + ((*text)[len] ? 1 : 0);
	return line;
}

/* Digits, perhaps a point and more digits; in ms, rounded up. -EINVAL: not so, or too large. */
static int64_t parse_seconds(const char *s)
{
	uint64_t whole = 0, ms = 0, unit = 100;
	bool any = false, rest = false;

	for (; isdigit((unsigned char)*s); s++, any = true) {
		whole = whole * 10 + (uint64_t)(*s - '0');
		if (whole > SECONDS_MAX)
			return -EINVAL;
	}
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++, any = true, unit /= 10) {
			ms += (uint64_t)(*s - '0') * unit;
			rest |= !unit && *s != '0';
		}
	if (*s || !any)
		return -EINVAL;
	return (int64_t)(whole * 1000 + ms + rest);
}

static int check_seconds(const char *text, struct err *err)
{
	if (parse_seconds(text) >= 0)
		return 0;
	return err_set(
		err, EINVAL, "not a number of seconds from 0 to %llu: '%.40s'", SECONDS_MAX, text);
}

/* A side of a terminal; 0: none. */
static unsigned parse_side(const char **s)
{
	unsigned v = 0;

	for (; isdigit((unsigned char)**s) && v <= TTY_SIDE_MAX; ++*s)
		v = v * 10 + (unsigned)(**s - '0');
	return v <= TTY_SIDE_MAX ? v : 0;
}

static int parse_tty(const char *s, unsigned *columns, unsigned *rows)
{
	if (strcmp(s, "none") == 0)
		return SETTINGS_TTY_NONE;
	if (strcmp(s, "pipe") == 0)
		return SETTINGS_TTY_PIPE;
	*columns = parse_side(&s);
	if (!*columns || *s++ != 'x')
		return -EINVAL;
	*rows = parse_side(&s);
	return *rows && !*s ? SETTINGS_TTY_TERMINAL : -EINVAL;
}

static int check_tty(const char *text, struct err *err)
{
	unsigned columns, rows;

	if (parse_tty(text, &columns, &rows) >= 0)
		return 0;
	return err_set(err, EINVAL, "not none, pipe or COLUMNSxROWS: '%.40s'", text);
}

static bool is_key(const char *s, size_t n)
{
	if (!n || isdigit((unsigned char)*s))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' &&
			(!i || (s[i] != '.' && s[i] != '-')))
			return false;
	return true;
}

static int check_env(const char *text, struct err *err)
{
	for (size_t number = 1; *text; number++) {
		size_t len = strcspn(text, "\n");

		if (len && !is_key(text, strcspn(text, "=\n")))
			return err_set(err, EINVAL,
				"line %zu names no variable (KEY=VALUE, or KEY to unset): '%.*s'",
				number, len > 80 ? 80 : (int)len, text);
		text += len + (text[len] ? 1 : 0);
	}
	return 0;
}

static int check_shell(const char *text, struct err *err)
{
	size_t lines = 1;

	if (*text == '\n')
		return err_set(err, EINVAL, "the first line is the shell: it is empty");
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	return lines <= SHELL_MAX ? 0 : err_set(err, EINVAL, "more than %d arguments", SHELL_MAX);
}

static int check_cwd_form(const char *text, struct err *err)
{
	if (*text != '/' || strchr(text, '\n'))
		return err_set(err, EINVAL, "not an absolute path: '%.200s'", text);
	return strlen(text) < PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the path is too long");
}

static int check_cwd(const char *text, struct err *err)
{
	struct stat st;
	int ret = check_cwd_form(text, err);

	if (ret < 0)
		return ret;
	if (stat(text, &st) < 0)
		return err_set(err, errno, "%.300s: %s", text, strerror(errno));
	return S_ISDIR(st.st_mode) ? 0 : err_set(err, ENOTDIR, "%.300s: not a directory", text);
}

static int check_user(const char *text, const struct launch_config *config, struct err *err)
{
	struct settings one = {.text = {[PROTO_SET_USER] = strdup(text)}};
	struct user user;
	int ret = one.text[PROTO_SET_USER] ? settings_user(&one, config, &user, err) : -ENOMEM;

	settings_fini(&one);
	return ret;
}

/* config NULL: its form only. */
static int check(
	unsigned what, const char *text, const struct launch_config *config, struct err *err)
{
	switch (what) {
	case PROTO_SET_TIMEOUT:
	case PROTO_SET_MAX_WAIT:
		return check_seconds(text, err);
	case PROTO_SET_USER:
		return config ? check_user(text, config, err) : 0;
	case PROTO_SET_CWD:
		return config ? check_cwd(text, err) : check_cwd_form(text, err);
	case PROTO_SET_ENV:
		return check_env(text, err);
	case PROTO_SET_SHELL:
		return check_shell(text, err);
	case PROTO_SET_TTY:
		return check_tty(text, err);
	default:
		return err_set(err, EINVAL, "no such setting");
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A new string without the last newlines; where it is one word, without blanks around it. */
static char *trimmed(unsigned what, const uint8_t *p, size_t n)
{
	bool word = what != PROTO_SET_ENV && what != PROTO_SET_SHELL && what != PROTO_SET_CWD;
	const char *s = (const char *)p;

	while (n && (s[n - 1] == '\n' || (word && is_blank(s[n - 1]))))
		n--;
	while (n && word && is_blank(*s)) {
		s++;
		n--;
	}
	return strndup(n ? s : "", n);
}

int settings_set(struct settings *s, const struct launch_config *config, unsigned what,
	const uint8_t *p, size_t n, struct err *err)
{
	cleanup_free char *text = NULL;
	int ret;

	if (n > PROTO_CONFIG_MAX)
		return err_set(err, EINVAL, "longer than %u bytes", PROTO_CONFIG_MAX);
	if (n && memchr(p, 0, n))
		return err_set(err, EINVAL, "a NUL byte in it");
	text = trimmed(what, p, n);
	if (!text)
		return -ENOMEM;
	ret = *text ? check(what, text, config, err) : 0;
	if (ret < 0)
		return ret;
	free(s->text[what]);
	s->text[what] = *text ? steal_ptr(&text) : NULL;
	return 0;
}

/* The name of the sandbox's user, if it has one. */
static const char *default_user(const struct launch_config *config, struct user *user)
{
	if (strchr(config->user_spec, ':') ||
		user_find(config->root_fd, config->user_spec, user, NULL) < 0 || !user->name[0])
		return config->user_spec;
	return user->name;
}

int settings_get(const struct settings *s, const struct launch_config *config, unsigned what,
	struct buf *out)
{
	static const char *const usual[PROTO_SETS] = {[PROTO_SET_TIMEOUT] = "0",
		[PROTO_SET_MAX_WAIT] = "0",
		[PROTO_SET_ENV] = "",
		[PROTO_SET_SHELL] = "sh\n-c",
		[PROTO_SET_TTY] = "none"};
	const char *text = s->text[what];
	struct user user;

	if (!text && what == PROTO_SET_USER)
		text = default_user(config, &user);
	else if (!text && what == PROTO_SET_CWD)
		text = config->workspace;
	else if (!text)
		text = usual[what];
	wire_str(out, text);
	return out->error;
}

int64_t settings_ms(const struct settings *s, unsigned what)
{
	int64_t ms = s->text[what] ? parse_seconds(s->text[what]) : 0;

	return ms > 0 ? ms : 0;
}

enum settings_tty settings_tty(const struct settings *s, unsigned *columns, unsigned *rows)
{
	const char *text = s->text[PROTO_SET_TTY];
	int kind = text ? parse_tty(text, columns, rows) : SETTINGS_TTY_NONE;

	return kind < 0 ? SETTINGS_TTY_NONE : (enum settings_tty)kind;
}

int settings_user(const struct settings *s, const struct launch_config *config, struct user *user,
	struct err *err)
{
	const char *spec = s->text[PROTO_SET_USER];
	int ret = user_find(config->root_fd, spec ? spec : config->user_spec, user, err);

	if (ret == -ENOENT) { /* no such user is not "no such command" */
		if (err)
			err->code = EINVAL;
		return -EINVAL;
	}
	return ret < 0 ? ret : rights_become(user, err);
}

int settings_save(const struct settings *s, int dir_fd)
{
	cleanup_close int fd = -1;
	struct buf b;
	int ret = 0;

	buf_init(&b, SAVED_MAX);
	for (unsigned i = 0; i < PROTO_SETS; i++)
		if (s->text[i])
			buf_printf(&b, "%u %zu %s\n", i, strlen(s->text[i]), s->text[i]);
	if (!b.len && !b.error) {
		buf_fini(&b);
		return unlinkat(dir_fd, "settings", 0) < 0 && errno != ENOENT ? -errno : 0;
	}
	fd = state_create(dir_fd, "settings.new", 0600);
	if (b.error)
		ret = b.error;
	else if (fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len)
		ret = fd < 0 ? -errno : -ENOSPC;
	else if (renameat(dir_fd, "settings.new", dir_fd, "settings") < 0)
		ret = -errno;
	buf_fini(&b);
	return ret;
}

static void load_text(struct settings *s, char *text, const char *end)
{
	unsigned what;
	size_t len;
	int used;

	while (text < end && sscanf(text, "%3u %9zu%n", &what, &len, &used) == 2 &&
		text[used] == ' ') {
		text += used + 1;
		if (!what || what >= PROTO_SETS || len > PROTO_CONFIG_MAX ||
			(size_t)(end - text) <= len || text[len] != '\n')
			return;
		text[len] = 0;
		if (len && strlen(text) == len && !s->text[what] &&
			check(what, text, NULL, NULL) == 0)
			s->text[what] = strdup(text);
		text += len + 1;
	}
}

void settings_load(struct settings *s, int dir_fd)
{
	cleanup_close int fd = state_open(dir_fd, "settings", O_RDONLY, 0);
	cleanup_free char *text = NULL;
	struct stat st;
	ssize_t n;

	*s = (struct settings){0};
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > SAVED_MAX)
		return;
	text = malloc((size_t)st.st_size + 1);
	n = text ? read(fd, text, (size_t)st.st_size) : -1;
	if (n <= 0)
		return;
	text[n] = 0;
	load_text(s, text, text + n);
}
