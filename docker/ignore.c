/* SPDX-License-Identifier: MIT */
/*
 * A pattern becomes a row of steps, and a path is matched against all places in the row at once,
 * byte by byte: no pattern can make that long. The meaning is that of the docker command: * and ?
 * stop at a slash, ** does not, and "**" followed by a slash is any number of directories.
 */
#include "docker/ignore.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 4096u
#define STEPS_MAX    4096u

enum step_kind {
	STEP_CHAR,
	STEP_ONE,	/* ? */
	STEP_SET,	/* [...] */
	STEP_MANY,	/* *: any but slashes */
	STEP_ALL,	/* ** at the end */
	STEP_DIRS,	/* **: nothing, or */
	STEP_DIRS_LOOP, /* anything up to a slash */
};

struct step {
	enum step_kind kind;
	uint8_t c;
	uint32_t set[8]; /* STEP_SET: a bit a byte */
};

struct pattern {
	bool except;
	struct step *steps;
	size_t n;
};

struct ignore {
	struct pattern *patterns;
	size_t n;
	bool exceptions;
	uint8_t at[2][STEPS_MAX + 1]; /* where a match is, and where it will be */
};

static bool in_set(const struct step *s, uint8_t c)
{
	return s->set[c >> 5] >> (c & 31) & 1;
}

/* "[a-z^]..." at p, of which the bracket was read; how many bytes it has, 0 if it does not end. */
static size_t read_set(const char *p, struct step *s)
{
	const char *start = p;
	bool negated = *p == '^', first = true;

	p += negated;
	for (; *p && (*p != ']' || first); first = false) {
		uint8_t from, to;

		p += *p == '\\' && p[1];
		from = to = (uint8_t)*p++;
		if (*p == '-' && p[1] && p[1] != ']') {
			p++;
			p += *p == '\\' && p[1];
			to = (uint8_t)*p++;
		}
		for (unsigned c = from; c <= to; c++)
			s->set[c >> 5] |= 1u << (c & 31);
	}
	for (size_t i = 0; negated && i < 8; i++)
		s->set[i] = ~s->set[i];
	return *p ? (size_t)(p + 1 - start) : 0;
}

/* One or two steps for what stands at p; how many bytes that was, 0 if it is wrong. */
static size_t compile_one(const char *p, struct step *s, size_t *n)
{
	size_t len;

	s[0] = (struct step){.kind = STEP_CHAR, .c = (uint8_t)*p};
	*n = 1;
	switch (*p) {
	case '*':
		len = strspn(p, "*");
		if (len == 1) {
			s[0].kind = STEP_MANY;
			return 1;
		}
		if (!p[len]) {
			s[0].kind = STEP_ALL;
			return len;
		}
		s[0].kind = STEP_DIRS;
		s[1] = (struct step){.kind = STEP_DIRS_LOOP};
		*n = 2;
		return len + (p[len] == '/');
	case '?':
		s[0].kind = STEP_ONE;
		return 1;
	case '[':
		s[0].kind = STEP_SET;
		len = read_set(p + 1, &s[0]);
		return len ? len + 1 : 0;
	case '\\':
		if (!p[1])
			return 0;
		s[0].c = (uint8_t)p[1];
		return 2;
	default:
		return 1;
	}
}

static int compile(struct pattern *to, const char *text, struct err *err)
{
	size_t len = strlen(text), n, used;

	if (len >= STEPS_MAX)
		return err_set(err, EINVAL, "a pattern is longer than %u bytes", STEPS_MAX - 1);
	to->steps = calloc(len + 2, sizeof(*to->steps)); /* no byte makes more than one */
	if (!to->steps)
		return err_set(err, ENOMEM, "out of memory");
	for (const char *p = text; *p; p += used) {
		used = compile_one(p, to->steps + to->n, &n);
		if (!used)
			return err_set(err, EINVAL, "\"%.100s\" is no pattern", text);
		to->n += n;
	}
	return 0;
}

/* Takes out what means nothing: "." and empty parts, and "x/.."; and a slash at either end. */
static void clean(char *s)
{
	char *to = s, *p = s;

	while (*p) {
		size_t len = strcspn(p, "/");
		bool dot = len == 0 || (len == 1 && *p == '.');

		if (len == 2 && p[0] == '.' && p[1] == '.' && to > s &&
			!(to - s >= 2 && to[-1] == '.' && to[-2] == '.' &&
				(to - s == 2 || to[-3] == '/'))) {
			while (to > s && *--to != '/')
				;
			dot = true;
		}
		if (!dot) {
			if (to > s)
				*to++ = '/';
			memmove(to, p, len);
			to += len;
		}
		p += len;
		p += *p == '/';
	}
	*to = 0;
}

static void trim(char **s)
{
	size_t len;

	*s += strspn(*s, " \t\r\v\f");
	len = strlen(*s);
	while (len && strchr(" \t\r\v\f", (*s)[len - 1]))
		(*s)[--len] = 0;
}

static int add_line(struct ignore *i, char *line, struct err *err)
{
	struct pattern p = {0}, *more;
	int rc;

	if (*line == '#')
		return 0;
	trim(&line);
	p.except = *line == '!';
	if (p.except) {
		line++;
		trim(&line);
		if (!*line)
			return err_set(err, EINVAL, "an exception without a pattern");
	}
	clean(line);
	if (!*line)
		return 0;
	if (i->n == PATTERNS_MAX)
		return err_set(err, EINVAL, "more than %u patterns", PATTERNS_MAX);
	rc = compile(&p, line, err);
	more = rc ? NULL : realloc(i->patterns, (i->n + 1) * sizeof(*more));
	if (!more) {
		free(p.steps);
		return rc ? rc : err_set(err, ENOMEM, "out of memory");
	}
	i->patterns = more;
	i->patterns[i->n++] = p;
	i->exceptions |= p.except;
	return 0;
}

int ignore_parse(const char *text, size_t len, struct ignore **out, struct err *err)
{
	cleanup_free char *copy = strndup(text, len);
	struct ignore *i = calloc(1, sizeof(*i));
	char *line = copy, *end, *rest = NULL;
	unsigned number = 0;
	int rc = 0;

	if (!copy || !i) {
		free(i);
		return err_set(err, ENOMEM, "out of memory");
	}
	if (!strncmp(line, "\xef\xbb\xbf", 3))
		line += 3;
	for (; line && rc == 0; line = rest) {
		end = strchr(line, '\n');
		rest = end ? end + 1 : NULL;
		if (end)
			*end = 0;
		number++;
		rc = add_line(i, line, err);
	}
	if (rc) {
		ignore_free(i);
		if (err)
			err_prefix(err, ".dockerignore, line %u", number);
		return rc;
	}
	*out = i;
	return 0;
}

void ignore_free(struct ignore *i)
{
	if (!i)
		return;
	for (size_t k = 0; k < i->n; k++)
		free(i->patterns[k].steps);
	free(i->patterns);
	free(i);
}

bool ignore_has_exceptions(const struct ignore *i)
{
	return i->exceptions;
}

/* A match stands before step k: there, and wherever one comes from there without a byte. */
static void stand(const struct pattern *p, uint8_t *at, size_t k)
{
	for (; !at[k]; k++) {
		at[k] = 1;
		if (k == p->n)
			return;
		if (p->steps[k].kind == STEP_DIRS) {
			at[k + 1] = 1;
			k++; /* behind the loop too */
		} else if (p->steps[k].kind != STEP_MANY && p->steps[k].kind != STEP_ALL) {
			return;
		}
	}
}

static void take(const struct pattern *p, size_t k, uint8_t c, uint8_t *next)
{
	const struct step *s = &p->steps[k];

	switch (s->kind) {
	case STEP_CHAR:
		if (s->c == c)
			stand(p, next, k + 1);
		return;
	case STEP_ONE:
		if (c != '/')
			stand(p, next, k + 1);
		return;
	case STEP_SET:
		if (c != '/' && in_set(s, c))
			stand(p, next, k + 1);
		return;
	case STEP_MANY:
		if (c != '/')
			stand(p, next, k);
		return;
	case STEP_ALL:
		stand(p, next, k);
		return;
	case STEP_DIRS:
		return; /* its loop stands beside it */
	case STEP_DIRS_LOOP:
		next[k] = 1;
		if (c == '/')
			stand(p, next, k + 1);
		return;
	}
}

/* The path's first n bytes, and those of every directory that it is in. */
static bool matches(struct ignore *i, const struct pattern *p, const char *path)
{
	uint8_t *now = i->at[0], *next = i->at[1], *swap;

	memset(now, 0, p->n + 1);
	stand(p, now, 0);
	for (; *path; path++) {
		if (*path == '/' && now[p->n])
			return true;
		memset(next, 0, p->n + 1);
		for (size_t k = 0; k < p->n; k++)
			if (now[k])
				take(p, k, (uint8_t)*path, next);
		swap = now;
		now = next;
		next = swap;
	}
	return now[p->n];
}

bool ignore_matches(struct ignore *i, const char *path)
{
	bool ignored = false;

	for (size_t k = 0; k < i->n; k++)
		if (ignored == i->patterns[k].except && matches(i, &i->patterns[k], path))
			ignored = !i->patterns[k].except;
	return ignored;
}
