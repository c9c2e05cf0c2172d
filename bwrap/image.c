/* SPDX-License-Identifier: MIT */
/*
 * Images are archives on this machine: a path, or NAME.tar in DATA/images. One is unpacked once, by
 * the launcher in a user namespace, into roots/KEY, where KEY is the archive as it is: another
 * archive at the same path is another image. Sandboxes have it as the lower layer of an overlay.
 */
#include "bwrap/bwrap.h"

#include "bwrap/roots.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const struct bwrap *b, const char *image, char *path, size_t size)
{
	size_t n;

	if (image[0] == '/') {
		snprintf(path, size, "%s", image);
		return;
	}
	n = (size_t)snprintf(path, size, "%s/images/", b->data);
	for (; *image && n + 6 < size; image++)
		path[n++] = *image == '/' ? '+' : *image; /* one file a name */
	snprintf(path + n, size - n, ".tar");
}

int bwrap_archive_key(const char *path, char key[BWRAP_KEY_MAX], struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "the image %s is no file", path);
	snprintf(key, BWRAP_KEY_MAX, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%lx",
		(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
		(uint64_t)st.st_mtim.tv_sec, (unsigned long)st.st_mtim.tv_nsec);
	return 0;
}

static int key_of(const struct bwrap *b, const char *image, char *path, size_t size, char *key,
	struct err *err)
{
	struct err why = {0};
	int r;

	path_of(b, image, path, size);
	r = bwrap_archive_key(path, key, &why);
	if (r < 0 && r != -EINVAL)
		return err_set(err, -r,
			"there is no image %s (%s); for the embedded engine an image is an "
			"archive of a root file system: image: /path/rootfs.tar, or NAME.tar in "
			"%s/images",
			image, why.msg, b->data);
	return r < 0 ? err_set(err, -r, "%s", why.msg) : 0;
}

static void root_of(const struct bwrap *b, const char *key, char *path, size_t size)
{
	snprintf(path, size, "%s/roots/%s", b->data, key);
}

int bwrap_image_key(const struct bwrap *b, const char *image, char **key, struct err *err)
{
	char path[PATH_MAX], name[BWRAP_KEY_MAX];
	int r = key_of(b, image, path, sizeof(path), name, err);

	if (r < 0)
		return r;
	root_of(b, name, path, sizeof(path));
	if (access(path, F_OK) < 0)
		return err_set(err, EAGAIN, "the image %s is not unpacked yet", image);
	*key = strdup(name);
	return *key ? 0 : err_set(err, ENOMEM, "out of memory");
}

int bwrap_image_check(struct engine *e, const char *image, const char *platform, struct err *err)
{
	cleanup_free char *key = NULL;

	(void)platform; /* bwrap_check_spec's */
	if (strcmp(image, BWRAP_HOST_IMAGE) == 0)
		return 0;
	return bwrap_image_key(bwrap_of(e), image, &key, err);
}

struct telling {
	const struct engine_fetcher *f;
	int64_t total;
};

static void tell(void *arg, const char *line)
{
	struct telling *t = arg;
	int64_t bytes;

	if (sscanf(line, "bytes %" SCNd64, &bytes) == 1 && t->f->pulled)
		t->f->pulled(t->f->arg,
			t->total > 0 && bytes < t->total ? (int)(bytes * 100 / t->total) : 99,
			bytes, t->total);
}

int bwrap_image_pull(struct engine *e, const char *image, const char *platform,
	const struct engine_fetcher *f, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	char path[PATH_MAX], dir[PATH_MAX], root[PATH_MAX], key[BWRAP_KEY_MAX],
		after[BWRAP_KEY_MAX];
	const char *argv[] = {"launch", "unpack", path, dir, NULL};
	struct telling t = {.f = f};
	cleanup_close int fd = -1;
	struct stat st;
	int r;

	(void)platform;
	if (strcmp(image, BWRAP_HOST_IMAGE) == 0)
		return 0; /* is always the newest */
	r = key_of(b, image, path, sizeof(path), key, err);
	if (r < 0)
		return r;
	root_of(b, key, root, sizeof(root));
	if (access(root, F_OK) == 0)
		return 0;
	if (stat(path, &st) == 0)
		t.total = st.st_size;
	fd = roots_new(b, dir, sizeof(dir), err);
	if (fd < 0)
		return fd;
	r = bwrap_launch(b, argv, f->stop_fd, tell, &t, err);
	if (r == 0)
		r = key_of(b, image, path, sizeof(path), after, err);
	if (r == 0 && strcmp(key, after) != 0)
		r = err_set(err, EAGAIN, "the image %s changed while it was unpacked", path);
	r = r < 0 ? r : roots_put(b, dir, key, path, err);
	if (r < 0)
		roots_drop(b, dir);
	close(steal_fd(&fd));
	if (r == 0)
		roots_sweep(b, true);
	return r;
}
