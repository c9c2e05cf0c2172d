/* SPDX-License-Identifier: MIT */
/*
 * passwd, group and shadow as texts in memory: lines are added, members put into a line, and each
 * file that has changed is replaced in one step. Names that are there keep their entry. Before
 * anything else runs; the main thread.
 */
#include "agent/setup_users.h"

#include "agent/setup_files.h"
#include "agent/sys.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/setup_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX   (4u << 20)
#define FIRST_FREE 1000u
#define LAST_FREE  59999u
#define NAME_LEN   32u
#define HOMES_MAX  256u
#define HOME_MODE  0755
#define SHELL	   "/bin/sh"

enum { PASSWD, GROUP, SHADOW, TEXTS };

static const char *const names[TEXTS] = {"passwd", "group", "shadow"};

struct home {
	char *path;
	uint32_t uid, gid;
};

struct accounts {
	int root_fd;
	struct buf text[TEXTS];
	bool there[TEXTS], changed[TEXTS];
	mode_t mode[TEXTS];
	uid_t uid[TEXTS];
	gid_t gid[TEXTS];
	struct home homes[HOMES_MAX];
	size_t n_homes;
};

static const char *text_of(const struct accounts *a, int which)
{
	return a->text[which].len ? (const char *)a->text[which].data : "";
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/* The line that begins with "name:", or NULL. */
static const char *find_line(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (; *text; text = next_line(text))
		if (strncmp(text, name, n) == 0 && text[n] == ':')
			return text;
	return NULL;
}

/* Field i of a line as a number; NONE if it is none. */
static uint32_t field_id(const char *line, int i)
{
	uint64_t v = 0;

	for (; i && *line && *line != '\n'; line++)
		i -= *line == ':';
	if (i || !isdigit((unsigned char)*line))
		return SETUP_ID_NONE;
	for (; isdigit((unsigned char)*line) && v < UINT32_MAX; line++)
		v = v * 10 + (uint64_t)(*line - '0');
	return v < UINT32_MAX && (*line == ':' || *line == '\n' || !*line) ? (uint32_t)v
									   : SETUP_ID_NONE;
}

static const char *find_id(const char *text, uint32_t id)
{
	for (; *text; text = next_line(text))
		if (field_id(text, 2) == id)
			return text;
	return NULL;
}

static uint32_t free_id(const char *text, const char *also)
{
	for (uint32_t id = FIRST_FREE; id <= LAST_FREE; id++)
		if (!find_id(text, id) && (!also || !find_id(also, id)))
			return id;
	return SETUP_ID_NONE;
}

static int load(struct accounts *a, int etc, int which, struct err *err)
{
	cleanup_close int fd = sys_open_beneath(etc, names[which], O_RDONLY | O_NONBLOCK, 0);
	struct stat st;
	ssize_t n;

	a->mode[which] = which == SHADOW ? 0640 : 0644;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, fd < 0 ? errno : EINVAL, "/etc/%s: %s", names[which],
			fd < 0 ? strerror(errno) : "not a file");
	a->there[which] = true;
	a->mode[which] = st.st_mode & 07777;
	a->uid[which] = st.st_uid;
	a->gid[which] = st.st_gid;
	do {
		uint8_t *to = buf_reserve(&a->text[which], 4096);

		n = to ? read(fd, to, 4096) : 0;
		if (!to || n < 0)
			return err_set(
				err, to ? errno : EFBIG, "/etc/%s cannot be read", names[which]);
		a->text[which].len += (size_t)n;
	} while (n > 0);
	if (memchr(a->text[which].data, 0, a->text[which].len))
		return err_set(err, EINVAL, "/etc/%s has a NUL in it", names[which]);
	a->text[which].data[a->text[which].len] = 0;
	if (a->text[which].len && a->text[which].data[a->text[which].len - 1] != '\n')
		buf_puts(&a->text[which], "\n");
	return 0;
}

struct accounts *accounts_open(int root_fd, struct err *err)
{
	cleanup_close int etc = sys_open_beneath(root_fd, "etc", O_RDONLY | O_DIRECTORY, 0);
	struct accounts *a = calloc(1, sizeof(*a));

	if (!a) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	a->root_fd = root_fd;
	for (int i = 0; i < TEXTS; i++)
		buf_init(&a->text[i], TEXT_MAX);
	if (etc < 0 && errno != ENOENT) {
		err_set(err, errno, "/etc: %s", strerror(errno));
		accounts_free(a);
		return NULL;
	}
	for (int i = 0; etc >= 0 && i < TEXTS; i++)
		if (load(a, etc, i, err) < 0) {
			accounts_free(a);
			return NULL;
		}
	return a;
}

void accounts_free(struct accounts *a)
{
	for (int i = 0; i < TEXTS; i++)
		buf_fini(&a->text[i]);
	for (size_t i = 0; i < a->n_homes; i++)
		free(a->homes[i].path);
	free(a);
}

static bool good_name(const char *s)
{
	size_t n = strlen(s);

	return n && n <= NAME_LEN && *s != '-' && !isdigit((unsigned char)*s) &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == n;
}

static bool good_path(const char *s)
{
	if (*s != '/')
		return false;
	for (; *s; s++)
		if (*s == ':' || (unsigned char)*s < 32 || *s == 127)
			return false;
	return true;
}

/* The group's id in *gid; made if there is none of that name. */
static int want_group(
	struct accounts *a, const char *name, uint32_t wanted, uint32_t *gid, struct err *err)
{
	const char *line = find_line(text_of(a, GROUP), name);

	*gid = line ? field_id(line, 2) : wanted;
	if (line && wanted != SETUP_ID_NONE && *gid != wanted)
		return err_set(
			err, EEXIST, "group %s is there, with id %u, not %u", name, *gid, wanted);
	if (line)
		return 0;
	if (!good_name(name))
		return err_set(err, EINVAL, "'%s' cannot be a group's name", name);
	if (*gid == SETUP_ID_NONE)
		*gid = free_id(text_of(a, GROUP), text_of(a, PASSWD));
	if (*gid == SETUP_ID_NONE)
		return err_set(err, ENOSPC, "no free id for group %s", name);
	a->changed[GROUP] = true;
	return buf_printf(&a->text[GROUP], "%s:x:%u:\n", name, *gid) < 0
		       ? err_set(err, EFBIG, "/etc/group: too large")
		       : 0;
}

/* Whether the line's last field, a list, has the name. */
static bool has_member(const char *line, const char *end, const char *name)
{
	size_t n = strlen(name);
	const char *p = end;

	while (p > line && p[-1] != ':')
		p--;
	for (; p < end; p += strcspn(p, ",\n") + 1) {
		size_t len = strcspn(p, ",\n");

		if (len == n && memcmp(p, name, n) == 0)
			return true;
	}
	return false;
}

/* Puts name into a group, which has a name or a number. */
static int add_member(struct accounts *a, const char *group, const char *name, struct err *err)
{
	struct buf *t = &a->text[GROUP], b;
	const char *line = find_line(text_of(a, GROUP), group), *end;
	char *rest;
	uint64_t id = strtoull(group, &rest, 10);

	if (!line && *group && !*rest && id < UINT32_MAX)
		line = find_id(text_of(a, GROUP), (uint32_t)id);
	if (!line)
		return err_set(err, ENOENT, "there is no group %s for user %s", group, name);
	end = line + strcspn(line, "\n");
	if (has_member(line, end, name))
		return 0;
	buf_init(&b, TEXT_MAX);
	buf_append(&b, t->data, (size_t)(end - (const char *)t->data));
	buf_puts(&b, end[-1] == ':' ? "" : ",");
	buf_puts(&b, name);
	buf_puts(&b, *end ? end : "\n");
	if (b.error) {
		buf_fini(&b);
		return err_set(err, EFBIG, "/etc/group: too large");
	}
	buf_fini(t);
	*t = b;
	a->changed[GROUP] = true;
	return 0;
}

static int add_home(struct accounts *a, const char *path, uint32_t uid, uint32_t gid)
{
	if (a->n_homes == HOMES_MAX)
		return -ENOSPC;
	a->homes[a->n_homes] = (struct home){.path = strdup(path), .uid = uid, .gid = gid};
	if (!a->homes[a->n_homes].path)
		return -ENOMEM;
	a->n_homes++;
	return 0;
}

/* A new line for a user whose name is free. */
static int new_user(struct accounts *a, const struct setup_record *r, struct err *err)
{
	uint32_t uid = r->id, gid = r->gid;
	char home[64];
	const char *in = *r->home ? r->home : home;
	int ret = 0;

	snprintf(home, sizeof(home), "/home/%.*s", (int)NAME_LEN, r->name);
	if (!good_name(r->name))
		return err_set(err, EINVAL, "'%s' cannot be a user's name", r->name);
	if (!good_path(in) || (*r->shell && !good_path(r->shell)))
		return err_set(err, EINVAL, "user %s: %s is no path for passwd", r->name,
			good_path(in) ? r->shell : in);
	if (uid == SETUP_ID_NONE)
		uid = free_id(text_of(a, PASSWD), NULL);
	if (uid == SETUP_ID_NONE)
		return err_set(err, ENOSPC, "no free id for user %s", r->name);
	/* A group of its own, of the same number if that is free. */
	if (gid == SETUP_ID_NONE)
		ret = want_group(a, r->name,
			find_line(text_of(a, GROUP), r->name) || find_id(text_of(a, GROUP), uid)
				? SETUP_ID_NONE
				: uid,
			&gid, err);
	else if (!find_id(text_of(a, GROUP), gid) && !find_line(text_of(a, GROUP), r->name))
		ret = want_group(a, r->name, gid, &gid, err);
	if (ret < 0)
		return ret;
	buf_printf(&a->text[PASSWD], "%s:x:%u:%u::%s:%s\n", r->name, uid, gid, in,
		*r->shell ? r->shell : SHELL);
	a->changed[PASSWD] = true;
	if (a->there[SHADOW] && !find_line(text_of(a, SHADOW), r->name)) {
		buf_printf(&a->text[SHADOW], "%s:!::0:99999:7:::\n", r->name);
		a->changed[SHADOW] = true;
	}
	if (a->text[PASSWD].error || a->text[SHADOW].error)
		return err_set(err, EFBIG, "/etc/passwd: too large");
	ret = add_home(a, in, uid, gid);
	return ret < 0 ? err_set(err, -ret, "user %s: too many users", r->name) : 0;
}

int accounts_add(struct accounts *a, const struct setup_record *r, struct err *err)
{
	const char *line;
	uint32_t gid;
	int ret = 0;

	if (r->kind == SETUP_GROUP)
		return want_group(a, r->name, r->gid, &gid, err);
	line = find_line(text_of(a, PASSWD), r->name);
	if (!line)
		ret = new_user(a, r, err);
	else if (r->id != SETUP_ID_NONE && field_id(line, 2) != r->id)
		ret = err_set(err, EEXIST, "user %s is there, with id %u, not %u", r->name,
			field_id(line, 2), r->id);
	for (char **g = r->list; ret == 0 && *g; g++)
		ret = add_member(a, *g, r->name, err);
	return ret;
}

/* Beside the old one, then in its place. */
static int save(struct accounts *a, int etc, int which)
{
	static const char fresh[] = ".sandboxfs.new";
	cleanup_close int fd = -1;
	size_t done = 0;

	unlinkat(etc, fresh, 0);
	fd = sys_open_beneath(etc, fresh, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return -errno;
	while (done < a->text[which].len) {
		ssize_t n = write(fd, a->text[which].data + done, a->text[which].len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	if ((a->uid[which] || a->gid[which]) && fchown(fd, a->uid[which], a->gid[which]) < 0)
		return -errno;
	if (fchmod(fd, a->mode[which]) < 0 || renameat(etc, fresh, etc, names[which]) < 0)
		return -errno;
	return 0;
}

int accounts_save(struct accounts *a, struct err *err)
{
	cleanup_close int etc = -1;
	int ret = 0;

	if (a->changed[PASSWD] || a->changed[GROUP] || a->changed[SHADOW]) {
		ret = setup_dir(a->root_fd, "/etc", 0755, 0, 0, err);
		if (ret < 0)
			return ret;
		etc = sys_open_beneath(a->root_fd, "etc", O_RDONLY | O_DIRECTORY, 0);
	}
	for (int i = TEXTS - 1; i >= 0; i--) { /* the group first, then who is in it */
		ret = a->changed[i] ? save(a, etc, i) : 0;
		if (ret < 0)
			return err_set(
				err, -ret, "cannot write /etc/%s: %s", names[i], strerror(-ret));
	}
	for (size_t i = 0; i < a->n_homes; i++) {
		const struct home *h = &a->homes[i];

		/* Parents are root's: /home is. */
		char *slash = strrchr(h->path, '/');

		*slash = 0;
		ret = *h->path ? setup_dir(a->root_fd, h->path, 0755, 0, 0, err) : 0;
		*slash = '/';
		ret = ret < 0 ? ret
			      : setup_dir(a->root_fd, h->path, HOME_MODE, h->uid, h->gid, err);
		if (ret < 0)
			return err_prefix(err, "the home of a user");
	}
	return 0;
}
