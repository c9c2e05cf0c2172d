/* SPDX-License-Identifier: MIT */
/* The docker command's directory. Nothing is kept; what may be secret is wiped. */
#include "docker/config.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_MAX (1u << 20)

char *config_path(const char *name)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	cleanup_free char *cwd = NULL;
	char *path = NULL, text[1024];
	struct passwd pw, *found = NULL;
	int n;

	if (dir && *dir) {
		if (*dir != '/') /* the daemon leaves the directory that it was started in */
			cwd = getcwd(NULL, 0);
		n = asprintf(&path, "%s%s%s/%s", cwd ? cwd : "", cwd ? "/" : "", dir, name);
		return n < 0 ? NULL : path;
	}
	if ((!home || !*home) && !getpwuid_r(getuid(), &pw, text, sizeof(text), &found) && found)
		home = pw.pw_dir;
	n = asprintf(&path, "%s/.docker/%s", home ? home : "", name);
	return n < 0 ? NULL : path;
}

void config_wipe(cJSON *j)
{
	for (cJSON *c = j ? j->child : NULL; c; c = c->next)
		config_wipe(c);
	if (j && j->valuestring)
		explicit_bzero(j->valuestring, strlen(j->valuestring));
}

int config_load(const char *path, cJSON **out, struct err *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct buf b;
	cJSON *j;
	int rc;

	*out = NULL;
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0
							   : err_set(err, errno, "%s: %m", path);
	buf_init(&b, CONFIG_MAX);
	rc = buf_read_fd(&b, fd);
	j = rc || !b.len ? NULL : cJSON_ParseWithLength((char *)b.data, b.len);
	buf_wipe(&b);
	if (rc == -E2BIG)
		return err_set(err, EFBIG, "%s: larger than 1 MiB", path);
	if (rc)
		return err_set(err, -rc, "%s: %s", path, strerror(-rc));
	if (!cJSON_IsObject(j)) {
		config_wipe(j);
		cJSON_Delete(j);
		return err_set(err, EINVAL, "%s is not JSON", path);
	}
	*out = j;
	return 0;
}
