/* SPDX-License-Identifier: MIT */
/* Templates as files: found, listed, written, removed. All may block on the disk; any thread but a
 * FUSE worker's or an I/O thread's. */
#pragma once

#include "common/buf.h"
#include "sandbox/template.h"

#include <sys/stat.h>
#include <time.h>

#define TEMPLATE_FILE_MAX (1u << 20)

struct template_stat {
	mode_t mode; /* permission bits */
	struct timespec changed;
	bool builtin; /* no file: the `default` that is always there */
};

/* The text of a template, which need not be a good one. -ENOENT: there is none. */
int template_read(const char *name, const struct template_rules *rules, struct buf *text,
	struct template_stat *st, struct err *err);

/* Checks it and puts it, whole or not at all, into the first of the rules' directories that can be
 * written (which is made if it is missing). -EINVAL, -EPERM: a bad one; the old one stays. */
int template_save(const char *name, const struct template_rules *rules, const char *text,
	size_t len, struct err *err);

/* Removes the file that is in use; one in a later directory, or the built-in, is back then. */
int template_remove(const char *name, const struct template_rules *rules, struct err *err);

/* Each name once, the built-in's too. */
int template_each(const struct template_rules *rules, void (*each)(void *arg, const char *name),
	void *arg, struct err *err);

/* The name that "NAME.json" stands for, in name (of TEMPLATE_NAME_MAX + 1 bytes); false: it is not
 * a template's file. */
#define TEMPLATE_NAME_MAX 128
bool template_file_name(const char *file, char *name);
