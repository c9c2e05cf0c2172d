/* SPDX-License-Identifier: MIT */
/*
 * The root of a sandbox that has no image: directories of its own, in which the host's programs and
 * libraries stand read-only. The lists are short, and are in docs/bwrap.md: nothing that a user or
 * a service of this machine keeps for itself is in them.
 *
 * Where the kernel has overlays there is one such root for all, DATA/roots/host-KEY, with copies of
 * what is needed of /etc, and a sandbox has its changes over it: to make thirty directories and as
 * many mounts for each would take longer than all the rest of a start. KEY is what the copies are
 * made from: after an update of the host new sandboxes have a new one. Any thread.
 */
#include "bwrap/bwrap.h"

#include "bwrap/ids.h"
#include "bwrap/roots.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_MAX   (4 << 20)
#define DEPTH_MAX  8
#define LAYOUT	   1 /* of what is below: another one is another KEY */
#define FNV_START  0xcbf29ce484222325u
#define FNV_PRIME  0x100000001b3u
#define AGENT_FILE ".sandboxfs/bin/agent"

/* Programs and libraries: a directory is bound, a link is made anew. */
static const char *const systems[] = {
	"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

/* What these need of /etc: no accounts, no keys, no names of hosts, no configuration of services.
 */
static const char *const etc[] = {"alternatives", "bash.bashrc", "bash_completion.d",
	"ca-certificates.conf", "debian_version", "fonts", "inputrc", "ld.so.cache", "ld.so.conf",
	"ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types", "nsswitch.conf",
	"os-release", "perl", "profile", "protocols", "python3", "python3.11", "python3.12",
	"python3.13", "python3.14", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo",
	"timezone", "vim", NULL};

static const struct {
	const char *path;
	mode_t mode;
} own[] = {{".sandboxfs", 0755}, {".sandboxfs/bin", 0755}, {".sandboxfs/state", 0700},
	{"dev", 0755}, {"proc", 0755}, {"etc", 0755}, {"etc/ssl", 0755}, {"home", 0755},
	{"mnt", 0755}, {"opt", 0755}, {"root", 0700}, {"run", 0755}, {"srv", 0755}, {"sys", 0755},
	{"tmp", 01777}, {"var", 0755}, {"var/cache", 0755}, {"var/lib", 0755}, {"var/log", 0755},
	{"var/tmp", 01777}};

static const struct {
	const char *path, *text;
} texts[] = {{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
			    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"}, {AGENT_FILE, ""}};

static int own_it(int fd, const char *path)
{
	return geteuid() ? 0 : fchownat(fd, path, IDS_BASE, IDS_BASE, AT_SYMLINK_NOFOLLOW);
}

static int write_all(int fd, const char *text, size_t n)
{
	errno = ENOSPC; /* a write that is cut short says nothing else */
	return write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

static int make_text(int root, const char *path, const char *text)
{
	cleanup_close int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 || write_all(fd, text, strlen(text)) < 0 ? -1 : own_it(root, path);
}

static void bind_word(struct buf *words, const char *path)
{
	buf_printf(words, "tryrobind%c%s%c%s%c", 0, path, 0, path, 0);
}

static int make_dir(int root, const char *path, mode_t mode)
{
	return mkdirat(root, path, mode) < 0 || fchmodat(root, path, mode, 0) < 0
		       ? -1
		       : own_it(root, path);
}

static int make_link(int from, const char *name, int to, const char *as)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(from, name, text, sizeof(text) - 1);

	if (n < 0)
		return -1;
	text[n] = 0;
	return symlinkat(text, to, as) < 0 ? -1 : own_it(to, as);
}

/* Where a directory is to be bound, or the link that stands for it. */
static int make_system(int root, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "/%s", name);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	return S_ISLNK(st.st_mode) ? make_link(AT_FDCWD, path, root, name)
				   : make_dir(root, name, 0755);
}

static int make_all(int root)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(own) / sizeof(*own); i++)
		r = make_dir(root, own[i].path, own[i].mode);
	for (size_t i = 0; r == 0 && i < sizeof(texts) / sizeof(*texts); i++)
		r = make_text(root, texts[i].path, texts[i].text);
	for (const char *const *s = systems; r == 0 && *s; s++)
		r = make_system(root, *s);
	return r;
}

/* --- copies of what is in /etc --------------------------------------------------------------- */

static int copy_file(int from, const char *name, int to, const char *as, mode_t mode)
{
	cleanup_close int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int out = -1;
	char part[65536];
	ssize_t n;

	if (in < 0)
		return 0; /* not for us, or it has just gone */
	out = openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		return -1;
	while ((n = read(in, part, sizeof(part))) > 0)
		if (write_all(out, part, (size_t)n) < 0)
			return -1;
	return n < 0 || fchmod(out, 0644 | (mode & 0111)) < 0 ? -1 : own_it(to, as);
}

static int copy(int from, const char *name, int to, const char *as, int depth);

static int copy_dir(int from, const char *name, int to, const char *as, int depth)
{
	int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r;
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	cleanup_close int made = -1;
	struct dirent *e;

	if (!d)
		return 0;
	r = make_dir(to, as, 0755);
	if (r == 0 && (made = openat(to, as, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		r = -1;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = copy(fd, e->d_name, made, e->d_name, depth + 1);
	return r;
}

/* Only what everybody on the host may read: the daemon may be root. */
static int copy(int from, const char *name, int to, const char *as, int depth)
{
	struct stat st;

	if (depth > DEPTH_MAX || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return make_link(from, name, to, as);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) && st.st_size <= COPY_MAX)
		return copy_file(from, name, to, as, st.st_mode);
	if (S_ISDIR(st.st_mode) && (st.st_mode & S_IROTH) && (st.st_mode & S_IXOTH))
		return copy_dir(from, name, to, as, depth);
	return 0;
}

/* A link to what is not in the sandbox is copied as what it points to. */
static int copy_etc(int root, const char *name)
{
	char path[PATH_MAX], text[PATH_MAX], real[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/etc/%s", name);
	n = readlink(path, text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = 0;
		if (!strstr(text, "usr/"))
			return realpath(path, real) ? copy(AT_FDCWD, real, root, path + 1, 0) : 0;
	}
	return copy(AT_FDCWD, path, root, path + 1, 0);
}

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
	for (const uint8_t *c = p; n > 0; n--, c++)
		h = (h ^ *c) * FNV_PRIME;
	return h;
}

static uint64_t hash_path(uint64_t h, const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (lstat(path, &st) < 0)
		return h;
	h = hash(h, path, strlen(path));
	h = hash(h, &st.st_ino, sizeof(st.st_ino));
	h = hash(h, &st.st_size, sizeof(st.st_size));
	return S_ISDIR(st.st_mode) && !*dir ? h : hash(h, &st.st_mtim, sizeof(st.st_mtim));
}

static int make_host(const struct bwrap *b, const char *key, struct err *err)
{
	char dir[PATH_MAX];
	cleanup_close int fd = roots_new(b, dir, sizeof(dir), err);
	int r;

	if (fd < 0)
		return fd;
	r = own_it(AT_FDCWD, dir) < 0 ? -1 : make_all(fd);
	for (const char *const *s = etc; r == 0 && *s; s++)
		r = copy_etc(fd, *s);
	if (r < 0)
		err_set(err, errno, "the sandboxes' root, %s: %s", dir, strerror(errno));
	if (r < 0 || roots_put(b, dir, key, NULL, err) < 0) {
		roots_drop(b, dir);
		return -err->code;
	}
	return 0;
}

void bwrap_host_key(char key[BWRAP_KEY_MAX])
{
	uint64_t h = hash(FNV_START, &(int){LAYOUT}, sizeof(int));

	for (const char *const *s = systems; *s; s++)
		h = hash_path(h, "", *s);
	for (const char *const *s = etc; *s; s++)
		h = hash_path(h, "/etc", *s);
	snprintf(key, BWRAP_KEY_MAX, "host-%016" PRIx64, h);
}

int bwrap_host_root(const struct bwrap *b, char **key, bool *made, struct err *err)
{
	char name[BWRAP_KEY_MAX], path[PATH_MAX];
	bool missing;
	int r = 0;

	bwrap_host_key(name);
	snprintf(path, sizeof(path), "%s/roots/%s", b->data, name);
	missing = access(path, F_OK) < 0;
	if (missing)
		r = make_host(b, name, err);
	if (r < 0)
		return r;
	*made = missing;
	*key = strdup(name);
	return *key ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* --- a sandbox's own ------------------------------------------------------------------------- */

int bwrap_make_root(int fd, bool shared, struct buf *words, struct err *err)
{
	cleanup_close int root = -1;
	char path[PATH_MAX];
	struct stat st;

	for (const char *const *s = systems; *s; s++) {
		snprintf(path, sizeof(path), "/%s", *s);
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			bind_word(words, path);
	}
	if (shared)
		return 0;
	for (const char *const *s = etc; *s; s++) {
		snprintf(path, sizeof(path), "/etc/%s", *s);
		bind_word(words, path);
	}
	if (make_dir(fd, "root", 0755) == 0)
		root = openat(fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || make_all(root) < 0)
		return err_set(err, errno, "the sandbox's root: %s", strerror(errno));
	return 0;
}
