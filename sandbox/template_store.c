/* SPDX-License-Identifier: MIT */
/* Templates as files. Owns nothing between calls, takes no lock: a save is a rename, so that
 * readers see the old text or the new one. */
#include "sandbox/template_store.h"

#include "common/cleanup.h"
#include "sandbox/engine.h"
#include "sandbox/template_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX	 ".json"
#define NEW_MODE 0600 /* what is in a template may be a secret */
#define DIR_MODE 0755

static int no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

bool template_file_name(const char *file, char *name)
{
	size_t len = strlen(file), n = len - strlen(SUFFIX);

	if (len <= strlen(SUFFIX) || n > TEMPLATE_NAME_MAX || strcmp(file + n, SUFFIX) != 0 ||
		!template_is_name(file, n))
		return false;
	memcpy(name, file, n);
	name[n] = 0;
	return true;
}

static char *path_of(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s" SUFFIX, dir, name) < 0 ? NULL : path;
}

/* 1 and the whole text, 0 if there is no such file, or -errno. */
static int read_file(const char *dir, const char *name, struct buf *text, struct template_stat *ts,
	struct err *err)
{
	cleanup_free char *path = path_of(dir, name);
	cleanup_close int fd = -1;
	struct stat st;
	ssize_t n;

	if (!path)
		return no_memory(err);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "template %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "template %s: not a regular file", path);
	do {
		uint8_t *to = buf_reserve(text, 16384);

		n = to ? read(fd, to, 16384) : 0;
		if (n < 0)
			return err_set(err, errno, "template %s: %s", path, strerror(errno));
		text->len += (size_t)n;
	} while (n > 0 && text->len <= TEMPLATE_FILE_MAX);
	if (text->error)
		return no_memory(err);
	*ts = (struct template_stat){.mode = st.st_mode & 0777, .changed = st.st_mtim};
	return 1;
}

/* What {} means, said in full, so that whoever reads it sees what can be changed. */
static int builtin(const struct template_rules *rules, struct buf *text, struct template_stat *ts)
{
	unsigned lacking = rules ? rules->no_limits : 0;

	*ts = (struct template_stat){.mode = 0644, .builtin = true};
	buf_puts(text, "{\n");
	if (rules && rules->image)
		buf_printf(text, "  \"image\": \"%s\",\n", rules->image);
	buf_puts(text, "  \"pull_policy\": \"missing\",\n"
		       "  \"working_dir\": \"/workspace\",\n");
	if (!(lacking & ENGINE_LIMIT_MEMORY))
		buf_puts(text, "  \"mem_limit\": \"1g\",\n");
	if (!(lacking & ENGINE_LIMIT_CPU))
		buf_puts(text, "  \"cpus\": 2,\n");
	if (!(lacking & ENGINE_LIMIT_PIDS))
		buf_puts(text, "  \"pids_limit\": 512,\n");
	return buf_puts(text, "  \"network_mode\": \"none\"\n}\n");
}

int template_read(const char *name, const struct template_rules *rules, struct buf *text,
	struct template_stat *st, struct err *err)
{
	const char *const *dirs = rules ? rules->dirs : NULL;
	int r = 0;

	if (!template_is_name(name, strlen(name)) || strlen(name) > TEMPLATE_NAME_MAX)
		return err_set(err, EINVAL, "\"%.200s\" is not a template's name", name);
	for (; r == 0 && dirs && *dirs; dirs++)
		r = read_file(*dirs, name, text, st, err);
	if (r == 0 && strcmp(name, "default") == 0)
		r = builtin(rules, text, st) == 0 ? 1 : no_memory(err);
	if (r == 0)
		r = err_set(err, ENOENT, "no template %s", name);
	return r < 0 ? r : 0;
}

/* Makes the directory and what is above it. */
static int make_dir(const char *dir)
{
	cleanup_free char *path = strdup(dir);

	if (!path)
		return -ENOMEM;
	for (char *c = path + 1;; c++) {
		char was = *c;

		if (was && was != '/')
			continue;
		*c = 0;
		if (mkdir(path, DIR_MODE) < 0 && errno != EEXIST)
			return -errno;
		*c = was;
		if (!was)
			return 0;
	}
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

/* -errno: nothing has changed. */
static int save_in(int dir_fd, const char *file, const char *text, size_t len)
{
	cleanup_free char *tmp = NULL;
	cleanup_close int fd = -1;
	struct stat st;
	int r;

	if (asprintf(&tmp, ".%s.%d.%p", file, getpid(), (void *)&fd) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	/* Whatever a daemon that died left there. */
	if (unlinkat(dir_fd, tmp, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, NEW_MODE);
	if (fd < 0)
		return -errno;
	if (fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		st.st_mode = NEW_MODE;
	r = fchmod(fd, st.st_mode & 0777) < 0 ? -errno : write_all(fd, text, len);
	if (r == 0 && renameat(dir_fd, tmp, dir_fd, file) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, tmp, 0);
	else if (fsync(dir_fd) < 0)
		return -errno;
	return r;
}

int template_save(const char *name, const struct template_rules *rules, const char *text,
	size_t len, struct err *err)
{
	cleanup_free char *file = NULL;
	struct spec spec;
	int r = template_parse(name, text, len, rules, &spec, err), why = -ENOENT;

	if (r < 0)
		return r;
	spec_fini(&spec);
	if (strlen(name) > TEMPLATE_NAME_MAX)
		return err_set(err, ENAMETOOLONG, "a template's name has at most %d bytes",
			TEMPLATE_NAME_MAX);
	if (asprintf(&file, "%s" SUFFIX, name) < 0) {
		file = NULL;
		return no_memory(err);
	}
	for (const char *const *dir = rules->dirs; dir && *dir; dir++) {
		cleanup_close int fd = -1;

		r = make_dir(*dir);
		if (r == 0) {
			fd = open(*dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			r = fd < 0 ? -errno : save_in(fd, file, text, len);
		}
		if (r == 0)
			return 0;
		if (why == -ENOENT) /* the first is what the user expects */
			why = err_set(err, -r, "template %s: %s: %s", name, *dir, strerror(-r));
		if (r != -EACCES && r != -EROFS && r != -EPERM)
			break;
	}
	return why == -ENOENT ? err_set(err, ENOENT, "there is no directory for templates") : why;
}

int template_remove(const char *name, const struct template_rules *rules, struct err *err)
{
	for (const char *const *dir = rules->dirs; dir && *dir; dir++) {
		cleanup_free char *path = path_of(*dir, name);

		if (!path)
			return no_memory(err);
		if (unlink(path) == 0)
			return 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return err_set(
				err, errno, "template %s: %s: %s", name, *dir, strerror(errno));
	}
	if (strcmp(name, "default") == 0)
		return err_set(err, EPERM, "the built-in default cannot be removed");
	return err_set(err, ENOENT, "no template %s", name);
}

struct names {
	char **v;
	size_t n;
};

static int add_name(struct names *all, const char *name)
{
	char **v;

	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->v[i], name) == 0)
			return 0;
	v = realloc(all->v, (all->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	all->v = v;
	v[all->n] = strdup(name);
	return v[all->n] ? (all->n++, 0) : -ENOMEM;
}

int template_each(const struct template_rules *rules, void (*each)(void *arg, const char *name),
	void *arg, struct err *err)
{
	struct names all = {0};
	int r = add_name(&all, "default");

	for (const char *const *dir = rules->dirs; r == 0 && dir && *dir; dir++) {
		cleanup_closedir DIR *d = opendir(*dir);
		char name[TEMPLATE_NAME_MAX + 1];
		struct dirent *e;

		while (r == 0 && d && all.n < TEMPLATE_ITEMS_MAX && (e = readdir(d)))
			if (template_file_name(e->d_name, name))
				r = add_name(&all, name);
	}
	for (size_t i = 0; i < all.n; i++) {
		if (r == 0)
			each(arg, all.v[i]);
		free(all.v[i]);
	}
	free(all.v);
	return r == 0 ? 0 : no_memory(err);
}
