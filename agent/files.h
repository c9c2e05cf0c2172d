/* SPDX-License-Identifier: MIT */
/* The messages that name files: names, attributes, links. */
#pragma once

#include "agent/nodes.h"
#include "agent/request.h"

int files_lookup(struct request *r);
int files_forget(struct request *r);
int files_getattr(struct request *r);
int files_setattr(struct request *r);
int files_readlink(struct request *r);
int files_symlink(struct request *r);
int files_mknod(struct request *r);
int files_mkdir(struct request *r);
int files_unlink(struct request *r);
int files_rmdir(struct request *r);
int files_rename(struct request *r);
int files_link(struct request *r);
int files_statfs(struct request *r);

/* Before the first request. */
void files_init(int root_fd);

/* A statx as the protocol has it. */
void files_attr(const struct sys_statx *stx, struct proto_attr *a);

/* stx, filled in; NULL: not to be had. */
const struct sys_statx *files_stat(int fd, struct sys_statx *stx);

/* Sets r's caller's rights; what follows is done with them. */
int files_act(struct request *r);
/* The node's attributes into the reply, and remembered as told. */
void files_tell(struct request *r, uint64_t num, const struct sys_statx *stx);
/* The same for dirfd/name, whose stat has just been taken: a file is watched by itself first. */
void files_tell_new(
	struct request *r, uint64_t num, int dirfd, const char *name, struct sys_statx *stx);

/* The mode for a new file in dir, from a message's: the umask does not count where dir has a
 * default access list. */
uint32_t files_mode(const struct pin *dir, uint32_t mode);

/* Remembers parent/name as node num and puts its attr into the reply. */
int files_made(struct request *r, const struct pin *parent, const char *name, uint64_t num);

/* Opens the pinned regular file with the caller's rights, never waiting, never another file in its
 * place; the descriptor, or -errno. */
int files_open(struct request *r, const struct pin *pin, int flags);
