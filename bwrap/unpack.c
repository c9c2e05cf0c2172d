/* SPDX-License-Identifier: MIT */
/*
 * Reads with two readers of libarchive: `in` only decompresses, `tar` reads what comes out of it.
 * So the stream can be read to its end after the archive's own, which one reader alone would not
 * do: a compressed archive that is cut off there is found out. One thread; constant memory, but for
 * what is kept of each directory.
 */
#include "bwrap/unpack.h"

#include "bwrap/unpack_tree.h"
#include "common/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MEMBERS_MAX   10000000u
#define BLOCK	      65536u
#define RECORD	      512	 /* of a tar archive; two empty ones are its end */
#define PROGRESS_EACH (1u << 20) /* bytes */

struct unpack {
	struct archive *in, *tar;
	struct unpack_tree tree;
	uint64_t members, told;
	bool failed; /* `in` has */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	struct err *err;
};

static const char *words_of(struct archive *a)
{
	const char *s = archive_error_string(a);

	return s ? s : "it ends too early";
}

/* libarchive's own codes for what is wrong with an archive are errno values too. */
static bool is_from_kernel(struct archive *a)
{
	int code = archive_errno(a);

	return code == ENOMEM || code == EIO || code == EISDIR || code == EBADF;
}

/* Which of the two failed, and how. */
static int damaged(struct unpack *u)
{
	struct archive *a = u->failed ? u->in : u->tar;
	int code = archive_errno(a);

	if (is_from_kernel(a))
		return err_set(u->err, code, "the archive: %s", words_of(a));
	if (!u->failed && archive_format(u->tar) == 0)
		return err_set(u->err, EINVAL,
			"this is not a tar archive, nor one compressed by gzip, bzip2, xz, zstd, "
			"lz4, lzip or compress");
	return err_set(u->err, EBADMSG, "the archive is cut off or damaged, after %llu members: %s",
		(unsigned long long)u->members, words_of(a));
}

static void tell(struct unpack *u)
{
	la_int64_t bytes = archive_filter_bytes(u->in, -1);

	if (!u->progress || bytes < 0 || (uint64_t)bytes < u->told + PROGRESS_EACH)
		return;
	u->told = (uint64_t)bytes;
	u->progress(u->arg, u->told);
}

/* What `tar` reads. */
static la_ssize_t on_read(struct archive *a, void *arg, const void **block)
{
	struct unpack *u = arg;
	la_int64_t offset;
	size_t n = 0;
	int ret = archive_read_data_block(u->in, block, &n, &offset);

	if (ret == ARCHIVE_EOF)
		return 0;
	if (ret == ARCHIVE_OK) {
		tell(u);
		return (la_ssize_t)n;
	}
	u->failed = true;
	archive_set_error(a, archive_errno(u->in), "%s", words_of(u->in));
	return -1;
}

/* Those that libarchive does itself. The others would start programs of this machine. */
static int know_filters(struct archive *a)
{
	static int (*const filters[])(struct archive *) = {archive_read_support_filter_bzip2,
		archive_read_support_filter_compress, archive_read_support_filter_gzip,
		archive_read_support_filter_lz4, archive_read_support_filter_lzip,
		archive_read_support_filter_lzma, archive_read_support_filter_xz,
		archive_read_support_filter_zstd};

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (filters[i](a) != ARCHIVE_OK)
			return -1;
	return archive_read_support_format_raw(a);
}

static int begin(struct unpack *u, int tar_fd)
{
	struct archive_entry *e;

	u->in = archive_read_new();
	u->tar = archive_read_new();
	if (!u->in || !u->tar || know_filters(u->in) || archive_read_support_format_tar(u->tar))
		return err_set(u->err, ENOMEM, "cannot read archives");
	/* Both look at the beginning already. */
	if (archive_read_open_fd(u->in, tar_fd, BLOCK) || archive_read_next_header(u->in, &e)) {
		u->failed = true;
		if (archive_filter_bytes(u->in, -1) == 0 && !is_from_kernel(u->in))
			return err_set(u->err, EINVAL, "the archive is an empty file");
		return damaged(u);
	}
	if (archive_read_open(u->tar, u, NULL, on_read, NULL))
		return damaged(u);
	return 0;
}

static struct timespec time_of(bool is_set, time_t sec, long nsec)
{
	if (!is_set)
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	return (struct timespec){
		.tv_sec = sec, .tv_nsec = nsec >= 0 && nsec < 1000000000 ? nsec : 0};
}

static int meta_of(
	struct unpack *u, struct archive_entry *e, const char *path, struct unpack_meta *m)
{
	la_int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);

	if (!u->tree.one_id && (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX))
		return err_set(u->err, EINVAL, "member %.300s belongs to %lld:%lld, which is no id",
			path, (long long)uid, (long long)gid);
	*m = (struct unpack_meta){
		.mode = archive_entry_perm(e) & 07777,
		.uid = (uid_t)uid,
		.gid = (gid_t)gid,
		.times = {time_of(archive_entry_atime_is_set(e), archive_entry_atime(e),
				  archive_entry_atime_nsec(e)),
			time_of(archive_entry_mtime_is_set(e), archive_entry_mtime(e),
				archive_entry_mtime_nsec(e))},
	};
	return 0;
}

/* Rights that one user's files cannot carry anyway, and attributes that this file system does not
 * have, are passed over. */
static bool may_lack(const struct unpack *u, int code)
{
	return code == EOPNOTSUPP || (u->tree.one_id && code == EPERM);
}

static int set_xattrs(struct unpack *u, struct archive_entry *e, int fd, const char *path)
{
	const char *name;
	const void *value;
	size_t n;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &n) == ARCHIVE_OK) {
		/* Those of overlays would hide files of the sandbox's root. */
		if ((strncmp(name, "user.", 5) != 0 && strcmp(name, "security.capability") != 0) ||
			strncmp(name, "user.overlay.", 13) == 0)
			continue;
		if (fsetxattr(fd, name, value, n, 0) < 0 && !may_lack(u, errno))
			return err_set(u->err, errno, "%.200s: its attribute %.100s: %s", path,
				name, strerror(errno));
	}
	return 0;
}

static int write_at(struct unpack *u, int fd, const char *path, const char *p, size_t n, off_t at)
{
	while (n) {
		ssize_t done = pwrite(fd, p, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_set(u->err, errno, "%.300s: %s", path, strerror(errno));
		p += done;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

/* The bytes, with the holes that a sparse archive has. */
static int write_data(struct unpack *u, int fd, const char *path, la_int64_t size)
{
	const void *block;
	la_int64_t at;
	size_t n;
	int ret;

	while ((ret = archive_read_data_block(u->tar, &block, &n, &at)) == ARCHIVE_OK) {
		if (at < 0 || at > size || n > (uint64_t)(size - at))
			return err_set(u->err, EBADMSG,
				"the archive is damaged: %.300s is longer than it says", path);
		ret = write_at(u, fd, path, block, n, at);
		if (ret < 0)
			return ret;
	}
	if (ret != ARCHIVE_EOF)
		return damaged(u);
	if (ftruncate(fd, size) < 0)
		return err_set(u->err, errno, "%.300s: %s", path, strerror(errno));
	return 0;
}

static int put_file(
	struct unpack *u, struct archive_entry *e, const char *path, const struct unpack_meta *m)
{
	la_int64_t size = archive_entry_size(e);
	cleanup_close int fd = -1;
	int ret;

	if (size < 0)
		return err_set(u->err, EBADMSG, "the archive is damaged: the size of %.300s", path);
	fd = unpack_tree_file(&u->tree, path, u->err);
	ret = fd < 0 ? fd : write_data(u, fd, path, size);
	if (!ret)
		ret = unpack_tree_give(&u->tree, fd, path, m, u->err);
	if (!ret)
		ret = set_xattrs(u, e, fd, path);
	if (!ret && futimens(fd, m->times) < 0)
		ret = err_set(u->err, errno, "%.300s: its times: %s", path, strerror(errno));
	return ret;
}

static int put_dir(
	struct unpack *u, struct archive_entry *e, const char *path, const struct unpack_meta *m)
{
	cleanup_close int fd = -1;
	int ret = unpack_tree_dir(&u->tree, path, m, u->err);

	if (ret < 0 || !archive_entry_xattr_count(e))
		return ret;
	fd = unpack_tree_open_dir(&u->tree, path, u->err);
	return fd < 0 ? fd : set_xattrs(u, e, fd, *path ? path : ".");
}

static int put_symlink(
	struct unpack *u, struct archive_entry *e, const char *path, const struct unpack_meta *m)
{
	const char *text = archive_entry_symlink(e);

	if (!text || !*text)
		return err_set(u->err, EBADMSG,
			"the archive is damaged: the symbolic link %.300s leads nowhere", path);
	return unpack_tree_symlink(&u->tree, path, text, m, u->err);
}

static int put_link(struct unpack *u, const char *path, const char *target)
{
	char to[PATH_MAX];
	int ret = unpack_tree_path(target, to, u->err);

	/* Content that comes with it is what the first of them had. */
	if (ret < 0)
		return err_prefix(u->err, "the hard link %.100s", path);
	return unpack_tree_link(&u->tree, path, to, u->err);
}

static int put_member(struct unpack *u, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *target = archive_entry_hardlink(e);
	struct unpack_meta m;
	char path[PATH_MAX];
	int ret;

	if (!name || !*name)
		return err_set(u->err, EBADMSG,
			"the archive is damaged: member %llu has no name that can be read",
			(unsigned long long)u->members);
	ret = unpack_tree_path(name, path, u->err);
	if (!ret)
		ret = meta_of(u, e, path, &m);
	if (ret < 0)
		return ret;
	if (target)
		return put_link(u, path, target);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return put_file(u, e, path, &m);
	case AE_IFDIR:
		return put_dir(u, e, path, &m);
	case AE_IFLNK:
		return put_symlink(u, e, path, &m);
	case AE_IFIFO:
		return unpack_tree_fifo(&u->tree, path, &m, u->err);
	case AE_IFCHR:
	case AE_IFBLK:
		return err_set(u->err, EPERM,
			"member %.300s is a device, and a sandbox gets its own: pack it with "
			"--exclude=./dev/*",
			path);
	default:
		return err_set(
			u->err, EINVAL, "member %.300s is of a kind that is not known", path);
	}
}

/* After the end that the archive says it has: the rest of the stream. */
static int drain(struct unpack *u)
{
	la_int64_t seen = archive_filter_bytes(u->tar, 0) - archive_read_header_position(u->tar);
	const void *block;
	la_ssize_t n;

	if (seen < 2 * RECORD)
		return err_set(u->err, EBADMSG,
			"the archive is cut off or damaged: it has no end after %llu members",
			(unsigned long long)u->members);
	while ((n = on_read(u->tar, u, &block)) > 0)
		;
	if (n < 0)
		return damaged(u);
	if (!u->members)
		return err_set(u->err, EINVAL, "the archive is empty");
	return 0;
}

static int put_all(struct unpack *u)
{
	struct archive_entry *e;
	int ret;

	/* A warning is about a name's character set, or a detail that is not used here. */
	while ((ret = archive_read_next_header(u->tar, &e)) == ARCHIVE_OK || ret == ARCHIVE_WARN) {
		if (++u->members > MEMBERS_MAX)
			return err_set(
				u->err, E2BIG, "the archive has more than %u members", MEMBERS_MAX);
		ret = put_member(u, e);
		if (ret < 0)
			return ret;
	}
	ret = ret == ARCHIVE_EOF ? drain(u) : damaged(u);
	return ret < 0 ? ret : unpack_tree_finish(&u->tree, u->err);
}

int unpack_archive(int tar_fd, int dir_fd, bool one_id, void (*progress)(void *arg, uint64_t bytes),
	void *arg, struct err *err)
{
	struct err own = {0};
	struct unpack u = {.progress = progress, .arg = arg, .err = &own};
	int ret;

	unpack_tree_init(&u.tree, dir_fd, one_id);
	ret = begin(&u, tar_fd);
	if (!ret)
		ret = put_all(&u);
	if (!ret && progress && archive_filter_bytes(u.in, -1) > (la_int64_t)u.told)
		progress(arg, (uint64_t)archive_filter_bytes(u.in, -1));
	archive_read_free(u.tar);
	archive_read_free(u.in);
	unpack_tree_fini(&u.tree);
	if (ret == -EBADMSG)
		err_set(err, EBADMSG, "%.400s; copy or export it again", own.msg);
	else if (ret < 0 && err)
		*err = own;
	return ret;
}
