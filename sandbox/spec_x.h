/* SPDX-License-Identifier: MIT */
/* What stands under x-sandboxfs in a template: what sandboxfs itself does for a sandbox. Times are
 * in milliseconds, 0: none. Lists are NULL-terminated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_ID_NONE UINT32_MAX

/* A file or a tree that is there before anything runs. */
struct spec_file {
	char *path;    /* inside; absolute */
	char *content; /* or NULL: source */
	char *source;  /* a real path on this machine that allow_binds allows: a file or a directory
			*/
	bool has_mode;
	uint32_t mode; /* where has_mode; else 0644, or the source's */
	char *owner;   /* as the key user; NULL: root */
};

struct spec_user {
	char *name;
	uint32_t uid, gid;  /* SPEC_ID_NONE: a free one */
	char **groups;	    /* names or numbers */
	char *home, *shell; /* NULL: the usual */
};

struct spec_group {
	char *name;
	uint32_t gid;
};

/* A command of post_start or pre_stop. */
struct spec_hook {
	char **command;	    /* argv */
	char *user;	    /* NULL: the sandbox's */
	char *working_dir;  /* NULL: the workspace */
	char **environment; /* KEY=VALUE, added to the container's */
};

enum spec_idle { SPEC_IDLE_PAUSE, SPEC_IDLE_STOP, SPEC_IDLE_REMOVE };

struct spec_x {
	uint32_t pool; /* how many to keep warm */
	uint64_t idle_timeout_ms, ttl_ms, timeout_ms, max_wait_ms;
	enum spec_idle idle_action;
	uint64_t output_limit; /* bytes of a stream; 0: the agent's */
	struct spec_file *files;
	struct spec_user *users;
	struct spec_group *groups;
	struct spec_hook *post_start, *pre_stop;
	size_t n_files, n_users, n_groups, n_post_start, n_pre_stop;
	bool snapshot_on_stop;
	char **archive_exclude;
	char **secrets; /* names of environment variables that are shown masked */
};

void spec_x_fini(struct spec_x *x);
