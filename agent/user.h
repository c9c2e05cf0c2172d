/* SPDX-License-Identifier: MIT */
/* Who: a user of the sandbox, by the sandbox's own passwd and group files. */
#pragma once

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define USER_GROUPS_MAX 64

struct user {
	uint32_t uid, gid;
	size_t n_groups;
	gid_t groups[USER_GROUPS_MAX];
	char name[64];	/* "" where passwd has none */
	char home[256]; /* "/" where passwd has none */
};

/* spec: "name", "uid", "name:group", "uid:gid". root_fd: where etc/passwd is. Files are read with
 * the calling thread's rights. -EINVAL: not of that form; -ENOENT: no such name. */
int user_find(int root_fd, const char *spec, struct user *user, struct err *err);
