/* SPDX-License-Identifier: MIT */
/* The command line and -o options. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fuse_args;

enum symlinks_policy { SYMLINKS_CONTAIN, SYMLINKS_RAW, SYMLINKS_DENY };

struct options {
	char *mountpoint;
	char *source;
	char *engine, *host, *image, *templates, *namespace, *agent, *symlinks_word, *audit;
	char *uid_word, *gid_word, *umask_word, *binds_word;
	enum symlinks_policy symlinks;
	unsigned max_sandboxes;
	bool has_uid, has_gid, has_umask;
	uint32_t uid, gid, umask; /* where they were given */
	int exec, allow_other, rm_on_unmount, foreground, debug;
	int locked; /* nobody widens what the templates allow: they are read-only, limits only fall
		     */
	int show_help, show_version;
	char *template_dirs[3]; /* NULL-terminated; where templates are looked for */
	char **allow_binds; /* NULL-terminated, or NULL; what templates may use of this machine */
};

/* Parses argv; leaves in args what is libfuse's. 0, or -EINVAL after a message on stderr. */
int options_parse(struct options *o, struct fuse_args *args);
void options_fini(struct options *o);
void options_help(void);
