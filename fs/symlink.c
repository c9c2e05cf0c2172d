/* SPDX-License-Identifier: MIT */
#include "fs/symlink.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define LINK_MAX_TEXT 4095

/* The next component of *p, without slashes; its length, 0 at the end. "." is skipped. */
static size_t component(const char **p, const char **start)
{
	for (;;) {
		size_t n;

		while (**p == '/')
			(*p)++;
		*start = *p;
		n = strcspn(*p, "/");
		*p += n;
		if (n != 1 || **start != '.')
			return n;
	}
}

static bool is_up(const char *s, size_t n)
{
	return n == 2 && s[0] == '.' && s[1] == '.';
}

/* How many `..` stand at the start; *rest is what follows. -1: there are some further on. */
static int leading_ups(const char *text, const char **rest)
{
	const char *p = text, *start;
	int ups = 0;
	size_t n;

	*rest = text;
	while ((n = component(&p, &start)) && is_up(start, n)) {
		ups++;
		*rest = p;
	}
	for (; n; n = component(&p, &start))
		if (is_up(start, n))
			return -1;
	return ups;
}

static int finish(struct buf *b, char **out)
{
	if (b->error || b->len > LINK_MAX_TEXT) {
		buf_fini(b);
		return -ENAMETOOLONG;
	}
	*out = buf_steal(b);
	return *out ? 0 : -ENOMEM;
}

static int keep(const char *text, char **out)
{
	*out = strdup(text);
	return *out ? 0 : -ENOMEM;
}

static void add_components(struct buf *b, const char *path, unsigned most)
{
	const char *start;
	size_t n;

	for (; most && (n = component(&path, &start)); most--) {
		if (b->len)
			buf_puts(b, "/");
		buf_append(b, start, n);
	}
}

static unsigned count_components(const char *path)
{
	const char *start;
	unsigned n = 0;

	while (component(&path, &start))
		n++;
	return n;
}

/* `..` often enough to reach the directory under which the sandbox's root is shown, and the way
 * down. */
static void to_rootfs(struct buf *b, const struct link_place *at)
{
	unsigned ups = at->tree == TREE_ROOTFS ? at->depth : at->depth + 2;

	for (unsigned k = 0; k < ups; k++)
		buf_puts(b, b->len ? "/.." : "..");
	if (at->tree == TREE_ROOTFS)
		return;
	buf_puts(b, "/.sandboxfs/rootfs/");
	buf_puts(b, at->sandbox);
}

int symlink_show(const struct link_place *at, const char *text, char **out)
{
	const char *rest, *p;
	int ups = leading_ups(text, &rest);
	struct buf b;

	if (ups < 0)
		return -EPERM; /* what a `..` after a name means depends on what that name is then
				*/
	if (text[0] != '/' && (unsigned)ups <= (at->sure ? at->depth : at->least))
		return keep(text, out);
	if (!at->sure)
		return -ESTALE; /* how many `..` would be right? */
	if (leading_ups(at->dir, &p) != 0)
		return -EPERM; /* a place that lies */
	buf_init(&b, (size_t)2 * LINK_MAX_TEXT);
	to_rootfs(&b, at);
	if (text[0] != '/') {
		unsigned have = count_components(at->dir);

		add_components(&b, at->dir, (unsigned)ups < have ? have - (unsigned)ups : 0);
	}
	add_components(&b, rest, LINK_MAX_TEXT);
	if (!b.len)
		buf_puts(&b, ".");
	return finish(&b, out);
}

int symlink_store(const struct link_place *at, const char *text, char **out)
{
	unsigned to_mount = at->tree == TREE_ROOTFS ? at->depth + 3 : at->depth + 2;
	const char *p, *start;
	struct buf b;
	size_t n;
	int ups;

	ups = leading_ups(text, &p);
	if (text[0] == '/' || ups < 0 || (unsigned)ups != to_mount)
		return keep(text, out);
	n = component(&p, &start);
	if (n != strlen(".sandboxfs") || memcmp(start, ".sandboxfs", n) != 0)
		return keep(text, out);
	n = component(&p, &start);
	if (n != strlen("rootfs") || memcmp(start, "rootfs", n) != 0)
		return keep(text, out);
	n = component(&p, &start);
	if (n != strlen(at->sandbox) || memcmp(start, at->sandbox, n) != 0)
		return keep(text, out);
	buf_init(&b, (size_t)2 * LINK_MAX_TEXT);
	buf_puts(&b, "/");
	while ((n = component(&p, &start))) {
		if (b.len > 1)
			buf_puts(&b, "/");
		buf_append(&b, start, n);
	}
	return finish(&b, out);
}
