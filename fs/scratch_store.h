/* SPDX-License-Identifier: MIT */
/*
 * The memory behind scratch files: names in directories that the daemon makes up, and bytes, both
 * bounded for the mount as a whole. Any thread; never blocks.
 */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define SCRATCH_FILE_MAX  (64u << 20)
#define SCRATCH_BYTES_MAX (256u << 20)
#define SCRATCH_FILES_MAX 1000u

struct scratch_store;
struct scratch_file;

/* Where a file is: any pointer and number that are the directory's own. */
struct scratch_place {
	const void *owner; /* what it goes with */
	uint64_t job;	   /* what it goes with, too; 0: only with the owner */
	uint8_t kind;	   /* of directory */
};

struct scratch_store *scratch_store_new(void);
void scratch_store_free(struct scratch_store *s);

/* A new reference, or NULL. By its number it is found as long as it is open, too. */
struct scratch_file *scratch_find(
	struct scratch_store *s, const struct scratch_place *at, const char *name);
struct scratch_file *scratch_find_number(struct scratch_store *s, unsigned number);
void scratch_put(struct scratch_file *f);
/* Whether its name is, or was last, in that kind of directory. */
bool scratch_is_in(struct scratch_file *f, uint8_t kind);
/* Never used twice. */
unsigned scratch_number(const struct scratch_file *f);

/* A new one, with a reference: -EEXIST, -ENOSPC with words. */
int scratch_make(struct scratch_store *s, const struct scratch_place *at, const char *name,
	struct scratch_file **out, struct err *err);
/* The name goes; the file with its last reference. -ENOENT. */
int scratch_remove(struct scratch_store *s, const struct scratch_place *at, const char *name);
/* Another name; a file that has it goes, or with no_replace -EEXIST. -ENOENT. */
int scratch_move(struct scratch_store *s, const struct scratch_place *at, const char *name,
	const struct scratch_place *to, const char *new_name, bool no_replace);
/* All of an owner, or of one job of it. */
void scratch_drop(struct scratch_store *s, const void *owner, uint64_t job);
/* Names of one place; each is called with a lock held. */
void scratch_each(struct scratch_store *s, const struct scratch_place *at,
	void (*each)(void *arg, const char *name), void *arg);

/* Bytes. read: how many there were. write, resize: -EFBIG, -EDQUOT with words. */
size_t scratch_read(struct scratch_file *f, uint64_t off, char *to, size_t size);
int scratch_write(
	struct scratch_file *f, uint64_t off, const char *from, size_t size, struct err *err);
int scratch_resize(struct scratch_file *f, uint64_t size, struct err *err);
size_t scratch_size(struct scratch_file *f, struct timespec *changed);
void scratch_touch(struct scratch_file *f, const struct timespec *when);
