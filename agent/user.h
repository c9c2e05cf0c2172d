/* SPDX-License-Identifier: MIT */
/* Who: a user of the sandbox, by the sandbox's own passwd and group files. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define USER_GROUPS_MAX 64

struct user {
	uint32_t uid, gid;
	size_t n_groups;
	gid_t groups[USER_GROUPS_MAX]; /* the gid is one of them */
	bool asked;		       /* some are by user_init(): it must have them */
	char name[64];		       /* "" where passwd has none */
	char home[256];		       /* "/" where passwd has none */
};

/* Groups that every user has besides (the template's group_add): names or numbers with commas
 * between; kept. Before any user_find; names that the sandbox does not know are passed over, since
 * the engine has refused them before. */
void user_init(const char *groups);

/* A group besides its gid; -1: none. */
int64_t user_extra_group(const struct user *user);

/* spec: "name", "uid", "name:group", "uid:gid". root_fd: where etc/passwd is. Files are read with
 * the calling thread's rights. -EINVAL: not of that form; -ENOENT: no such name. */
int user_find(int root_fd, const char *spec, struct user *user, struct err *err);
