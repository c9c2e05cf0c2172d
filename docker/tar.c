/* SPDX-License-Identifier: MIT */
/* Tar in memory. Any thread. */
#include "docker/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 65536u

static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t n)
{
	return buf_append(arg, p, n) ? -1 : (la_ssize_t)n;
}

/* The two things that an archive of one file is made with; false: no memory. */
static bool begin(
	struct archive **a, struct archive_entry **e, const char *name, mode_t mode, uint64_t size)
{
	*a = archive_write_new();
	*e = archive_entry_new();
	if (!*a || !*e)
		return false;
	archive_entry_set_pathname(*e, name);
	archive_entry_set_filetype(*e, AE_IFREG);
	archive_entry_set_perm(*e, mode);
	archive_entry_set_size(*e, (la_int64_t)size);
	return archive_write_set_format_ustar(*a) == ARCHIVE_OK &&
	       archive_write_add_filter_none(*a) == ARCHIVE_OK &&
	       archive_write_set_bytes_in_last_block(*a, 1) == ARCHIVE_OK;
}

static int end(struct archive *a, struct archive_entry *e, bool good, int code, struct err *err)
{
	int rc = 0;

	if (a && archive_errno(a) > 0)
		code = archive_errno(a);
	if (!good)
		rc = err_set(err, code, "cannot make an archive: %s",
			a && archive_error_string(a) ? archive_error_string(a) : strerror(code));
	archive_entry_free(e);
	archive_write_free(a);
	return rc;
}

int tar_make(
	const char *name, mode_t mode, const void *p, size_t n, struct buf *out, struct err *err)
{
	struct archive *a;
	struct archive_entry *e;
	bool good = begin(&a, &e, name, mode, n) &&
		    archive_write_open(a, out, NULL, on_write, NULL) == ARCHIVE_OK &&
		    archive_write_header(a, e) == ARCHIVE_OK &&
		    archive_write_data(a, p, n) == (la_ssize_t)n &&
		    archive_write_close(a) == ARCHIVE_OK;

	return end(a, e, good, ENOMEM, err);
}

static int copy_file(struct archive *a, int from, uint64_t size)
{
	char chunk[CHUNK];
	uint64_t done = 0;

	while (done < size) {
		size_t want = size - done < CHUNK ? (size_t)(size - done) : CHUNK;
		ssize_t n = pread(from, chunk, want, (off_t)done);

		if (n <= 0 || archive_write_data(a, chunk, (size_t)n) != n)
			return -1;
		done += (uint64_t)n;
	}
	return 0;
}

int tar_make_file(const char *name, mode_t mode, int from, uint64_t size, int to, struct err *err)
{
	struct archive *a;
	struct archive_entry *e;
	bool good = begin(&a, &e, name, mode, size) && archive_write_open_fd(a, to) == ARCHIVE_OK &&
		    archive_write_header(a, e) == ARCHIVE_OK && copy_file(a, from, size) == 0 &&
		    archive_write_close(a) == ARCHIVE_OK;

	return end(a, e, good, EIO, err);
}

static int read_file(struct archive *a, struct buf *out, mode_t *mode, struct err *err)
{
	struct archive_entry *e;
	la_ssize_t n;
	uint8_t *to;
	int got;

	do {
		got = archive_read_next_header(a, &e);
	} while (got == ARCHIVE_OK && archive_entry_filetype(e) != AE_IFREG);
	if (got == ARCHIVE_EOF)
		return err_set(err, ENOENT, "no file in the archive");
	if (got != ARCHIVE_OK)
		return err_set(err, EPROTO, "the engine's archive: %s", archive_error_string(a));
	*mode = archive_entry_perm(e);
	do {
		to = buf_reserve(out, CHUNK);
		if (!to)
			return err_set(err, EPROTO, "the engine's archive is too large");
		n = archive_read_data(a, to, CHUNK);
		if (n < 0)
			return err_set(
				err, EPROTO, "the engine's archive: %s", archive_error_string(a));
		buf_commit(out, (size_t)n);
	} while (n > 0);
	return 0;
}

int tar_read(const void *p, size_t n, struct buf *out, mode_t *mode, struct err *err)
{
	struct archive *a = archive_read_new();
	int rc;

	if (!a || archive_read_support_format_tar(a))
		rc = err_set(err, ENOMEM, "out of memory");
	else if (archive_read_open_memory(a, p, n))
		rc = err_set(err, EPROTO, "the engine's archive: %s", archive_error_string(a));
	else
		rc = read_file(a, out, mode, err);
	archive_read_free(a);
	return rc;
}
