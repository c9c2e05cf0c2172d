/* SPDX-License-Identifier: MIT */
/* Sandbox names as container names and back. Pure, any thread. */
#include "docker/name.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define NAME_MAX_LEN 1024u
#define ID_IN_NAME   32 /* characters; enough to be unique, short enough to read */

/* Not isalnum(): that one asks the locale. */
static bool alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool name_is_id(const char *s)
{
	size_t n = s ? strspn(s, "0123456789abcdef") : 0;

	return n >= 12 && n <= 64 && !s[n];
}

/* Parts [A-Za-z0-9][A-Za-z0-9_.-]* with '@' or ':' between them. */
static bool well_formed(const char *s)
{
	bool start = true;

	for (; *s; s++) {
		if (*s == '@' || *s == ':') {
			if (start)
				return false;
			start = true;
			continue;
		}
		if (!alnum(*s) && (start || !strchr("_.-", *s)))
			return false;
		start = false;
	}
	return !start;
}

static void escape(struct buf *b, const char *s, bool namespace)
{
	for (; *s; s++) {
		if (*s == '_')
			buf_puts(b, "__");
		else if (*s == '@')
			buf_puts(b, "_a");
		else if (*s == ':')
			buf_puts(b, "_c");
		else if (*s == '-' && namespace)
			buf_puts(b, "_d");
		else
			buf_append(b, s, 1);
	}
}

static int finish(struct buf *b, char **name)
{
	int rc = b->error;
	char *s = buf_steal(b);

	if (!s)
		return rc == -E2BIG ? -EINVAL : -ENOMEM;
	*name = s;
	return 0;
}

int name_encode(const char *namespace, const char *dirname, enum engine_mark mark, const char *id,
	char **name)
{
	struct buf b;

	if (!well_formed(namespace))
		return -EINVAL;
	if (mark == ENGINE_MARK_REMOVING ? !name_is_id(id) : !well_formed(dirname))
		return -EINVAL;
	buf_init(&b, NAME_MAX_LEN);
	buf_puts(&b, NAME_PREFIX);
	escape(&b, namespace, true);
	buf_puts(&b, "-");
	if (mark == ENGINE_MARK_REMOVING)
		buf_printf(&b, "_x%.*s", ID_IN_NAME, id);
	else
		escape(&b, dirname, false);
	if (mark == ENGINE_MARK_PAUSED)
		buf_puts(&b, "_p");
	else if (mark == ENGINE_MARK_STOPPED)
		buf_puts(&b, "_s");
	else if (mark == ENGINE_MARK_IDLE)
		buf_puts(&b, "_i");
	return finish(&b, name);
}

static int unescape(const char *s, struct buf *b, enum engine_mark *mark)
{
	for (; *s; s++) {
		if (*s != '_') {
			buf_append(b, s, 1);
			continue;
		}
		s++;
		if (*s == '_')
			buf_puts(b, "_");
		else if (*s == 'a')
			buf_puts(b, "@");
		else if (*s == 'c')
			buf_puts(b, ":");
		else if (*s == 'p' && !s[1])
			*mark = ENGINE_MARK_PAUSED;
		else if (*s == 's' && !s[1])
			*mark = ENGINE_MARK_STOPPED;
		else if (*s == 'i' && !s[1])
			*mark = ENGINE_MARK_IDLE;
		else
			return -EINVAL;
	}
	return 0;
}

/* Namespaces are compared in their escaped form: that form is the only one for each. */
static int behind_namespace(const char *name, const char *namespace, const char **rest)
{
	cleanup_free char *head = NULL;
	struct buf b;
	int rc;

	buf_init(&b, NAME_MAX_LEN);
	buf_puts(&b, NAME_PREFIX);
	escape(&b, namespace, true);
	buf_puts(&b, "-");
	rc = finish(&b, &head);
	if (rc)
		return rc;
	if (strncmp(name, head, strlen(head)) != 0)
		return -EINVAL;
	*rest = name + strlen(head);
	return 0;
}

int name_decode(const char *name, const char *namespace, char **dirname, enum engine_mark *mark)
{
	enum engine_mark m = ENGINE_MARK_NONE;
	cleanup_free char *dir = NULL;
	const char *rest;
	struct buf b;
	int rc;

	rc = behind_namespace(name, namespace, &rest);
	if (rc)
		return rc;
	buf_init(&b, NAME_MAX_LEN);
	if (rest[0] == '_' && rest[1] == 'x') {
		if (!name_is_id(rest + 2))
			return -EINVAL;
		m = ENGINE_MARK_REMOVING;
	} else {
		rc = unescape(rest, &b, &m);
		if (rc) {
			buf_fini(&b);
			return rc;
		}
	}
	rc = finish(&b, &dir);
	if (rc)
		return rc;
	if (m != ENGINE_MARK_REMOVING && !well_formed(dir))
		return -EINVAL;
	*dirname = steal_ptr(&dir);
	*mark = m;
	return 0;
}
