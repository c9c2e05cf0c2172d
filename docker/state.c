/* SPDX-License-Identifier: MIT */
/*
 * Files for a container's state volume, put there before it starts: an archive PUT works with an
 * anonymous volume and a read-only root. The archive is a mapped file without a name, so that a
 * large one costs no memory of ours. Any thread.
 */
#include "docker/docker.h"
#include "docker/name.h"
#include "docker/tar.h"

#include "common/cleanup.h"
#include "sandbox/setup.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PUT_S 300

static int archive_of(const char *name, int fd, struct err *err)
{
	cleanup_close int tar = setup_temporary(err);
	struct stat st;
	int rc;

	if (tar < 0)
		return tar;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "an archive for the engine: %m");
	rc = tar_make_file(name, 0600, fd, (uint64_t)st.st_size, tar, err);
	return rc < 0 ? rc : steal_fd(&tar);
}

int docker_put_state(struct engine *e, const char *id, const char *name, int fd, struct err *err)
{
	cleanup_close int tar = archive_of(name, fd, err);
	struct http_call c = {.method = "PUT",
		.type = "application/x-tar",
		.repeatable = true,
		.timeout_s = PUT_S};
	struct http_reply r;
	char path[160];
	struct stat st;
	void *map;
	int rc;

	if (tar < 0)
		return tar;
	if (!name_is_id(id))
		return err_set(err, EINVAL, "%.64s is no container's id", id);
	map = fstat(tar, &st) < 0 ? MAP_FAILED
				  : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, tar, 0);
	if (map == MAP_FAILED)
		return err_set(err, errno, "an archive for the engine: %m");
	snprintf(path, sizeof(path), "/containers/%s/archive?path=%s", id, ENGINE_STATE_DIR);
	c.path = path;
	c.body = map;
	c.len = (size_t)st.st_size;
	rc = http_call(docker_of(e)->http, &c, &r, err);
	http_reply_fini(&r);
	munmap(map, (size_t)st.st_size);
	return rc < 0 ? err_prefix(err, "the setup of the sandbox") : rc;
}
