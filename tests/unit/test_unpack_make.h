/* SPDX-License-Identifier: MIT */
/* Makes archives in memory, one at a time: begin(), members, end(); tar_fd has it then. */
#pragma once

#include "check.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define WHEN 1234567890 /* of all members */
#define NSEC 123456700

static struct archive *w; /* being written */
static int tar_fd = -1;

/* A new archive in memory. */
static void begin(int format, int filter)
{
	if (tar_fd >= 0)
		close(tar_fd);
	tar_fd = memfd_create("archive", MFD_CLOEXEC);
	w = archive_write_new();
	CHECK(tar_fd >= 0 && w && archive_write_set_format(w, format) == ARCHIVE_OK);
	CHECK(archive_write_add_filter(w, filter) == ARCHIVE_OK);
	CHECK(archive_write_set_options(w, "hdrcharset=BINARY") <= ARCHIVE_OK);
	CHECK(archive_write_set_bytes_per_block(w, 512) == ARCHIVE_OK);
	CHECK(archive_write_open_fd(w, tar_fd) == ARCHIVE_OK);
}

static struct archive_entry *entry(const char *name, unsigned type, unsigned mode)
{
	struct archive_entry *e = archive_entry_new();

	CHECK(e);
	archive_entry_copy_pathname(e, name);
	archive_entry_set_filetype(e, type);
	archive_entry_set_perm(e, (mode_t)mode);
	archive_entry_set_mtime(e, WHEN, NSEC);
	archive_entry_set_size(e, 0);
	return e;
}

/* Writes it, with that content, and frees it. */
static void put(struct archive_entry *e, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (n)
		archive_entry_set_size(e, (la_int64_t)n);
	CHECK(archive_write_header(w, e) >= ARCHIVE_WARN);
	CHECK(!n || archive_write_data(w, text, n) == (la_ssize_t)n);
	archive_entry_free(e);
}

static void put_file(const char *name, const char *text)
{
	put(entry(name, AE_IFREG, 0644), text);
}

static void put_dir(const char *name, unsigned mode)
{
	put(entry(name, AE_IFDIR, mode), NULL);
}

static void put_symlink(const char *name, const char *to)
{
	struct archive_entry *e = entry(name, AE_IFLNK, 0777);

	archive_entry_copy_symlink(e, to);
	put(e, NULL);
}

static void put_link(const char *name, const char *to)
{
	struct archive_entry *e = entry(name, AE_IFREG, 0644);

	archive_entry_copy_hardlink(e, to);
	put(e, NULL);
}

static void end(void)
{
	CHECK(archive_write_close(w) == ARCHIVE_OK);
	archive_write_free(w);
}

static struct archive_entry *owned(struct archive_entry *e, int64_t uid, int64_t gid)
{
	archive_entry_set_uid(e, uid);
	archive_entry_set_gid(e, gid);
	return e;
}

/* A text that does not become smaller. */
static const char *noise(size_t n)
{
	static char text[100001];
	unsigned seed = 1;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)((seed = seed * 1103515245 + 12345) >> 16) | 1;
	text[n] = 0;
	return text;
}

/* All bytes of the archive that was made last. */
static char *bytes_of(size_t *n)
{
	off_t size = lseek(tar_fd, 0, SEEK_END);
	char *p = malloc((size_t)size);

	CHECK(size > 0 && p && pread(tar_fd, p, (size_t)size, 0) == size);
	*n = (size_t)size;
	return p;
}
