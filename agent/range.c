/* SPDX-License-Identifier: MIT */
/* Space, holes and copies. Workers run this: a disk may take its time. Handles are counted, the
 * descriptors are the kernel's to serialise. */
#include "agent/range.h"

#include "agent/files.h"
#include "agent/handles.h"
#include "agent/told.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <string.h>

#define MODES	 0x13u	      /* Linux's FALLOC_FL_KEEP_SIZE, _PUNCH_HOLE, _ZERO_RANGE */
#define COPY_MAX (16u << 20)  /* in one message: others are not to wait for long */
#define PIECE	 (256u << 10) /* when it is done by hand */

static bool is_range(uint64_t offset, uint64_t length)
{
	return offset <= INT64_MAX && length <= INT64_MAX - offset;
}

int range_allocate(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint32_t mode = wire_get_u32(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint64_t length = wire_get_u64(&r->in);
	auto_handle struct handle *h = NULL;
	struct sys_statx stx;
	int ret;

	if (!wire_end(&r->in) || !is_range(offset, length))
		return bad_request(r);
	if (mode & ~MODES)
		return -EOPNOTSUPP;
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	ret = files_act(r); /* as for a write: set-id bits may go */
	if (ret < 0)
		return ret;
	told_own_begin(r->session, h->node, files_stat(h->fd, &stx));
	while ((ret = fallocate(h->fd, (int)mode, (off_t)offset, (off_t)length)) < 0 &&
		errno == EINTR)
		;
	ret = ret < 0 ? -errno : 0;
	told_own_end(r->session, h->node, files_stat(h->fd, &stx), true);
	return ret;
}

int range_seek(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint32_t whence = wire_get_u32(&r->in); /* 3 and 4 are Linux's */
	auto_handle struct handle *h = NULL;
	off_t at;

	if (!wire_end(&r->in) || offset > INT64_MAX || (whence != SEEK_DATA && whence != SEEK_HOLE))
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	if (h->dir)
		return -EINVAL; /* its position is READDIR's */
	at = lseek(h->fd, (off_t)offset, (int)whence);
	if (at < 0)
		return -errno;
	wire_u64(&r->out, (uint64_t)at);
	return 0;
}

struct copy {
	int from, to;
	off_t from_at, to_at;
	size_t left, done;
};

/* One step of at most PIECE bytes: how many, 0 at the end, or -errno. */
static ssize_t copy_piece(struct copy *c, uint8_t *piece)
{
	size_t want = c->left < PIECE ? c->left : PIECE, done = 0;
	ssize_t n, w;

	while ((n = pread(c->from, piece, want, c->from_at)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return -errno;
	while (done < (size_t)n) {
		w = pwrite(c->to, piece + done, (size_t)n - done, c->to_at + (off_t)done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return done ? (ssize_t)done : w < 0 ? -errno : -EIO;
		done += (size_t)w;
	}
	return n;
}

static int copy_by_hand(struct copy *c)
{
	cleanup_free uint8_t *piece = malloc(PIECE);
	ssize_t n = 0;

	if (!piece)
		return -ENOMEM;
	while (c->left && (n = copy_piece(c, piece)) > 0) {
		c->from_at += n;
		c->to_at += n;
		c->left -= (size_t)n;
		c->done += (size_t)n;
	}
	return c->done ? 0 : (int)n;
}

/* What the kernel says when it cannot copy between these two files, though they can be copied. */
static bool cannot(int code)
{
	return code == EXDEV || code == EINVAL || code == EOPNOTSUPP || code == ENOSYS;
}

static int copy(struct copy *c)
{
	while (c->left) {
		ssize_t n = copy_file_range(c->from, &c->from_at, c->to, &c->to_at, c->left, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !c->done)
			return cannot(errno) ? copy_by_hand(c) : -errno;
		if (n <= 0)
			break;
		c->left -= (size_t)n;
		c->done += (size_t)n;
	}
	return 0;
}

/* EINVAL, as copy_file_range(2) has it: a range of one file onto a part of itself. */
static bool overlap(
	const struct handle *a, uint64_t at, const struct handle *b, uint64_t to, uint64_t length)
{
	return a->node->ino == b->node->ino && a->node->dev == b->node->dev && at < to + length &&
	       to < at + length;
}

int range_copy(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint64_t fh_to = wire_get_u64(&r->in);
	uint64_t offset_to = wire_get_u64(&r->in);
	uint64_t length = wire_get_u64(&r->in);
	auto_handle struct handle *from = NULL;
	auto_handle struct handle *to = NULL;
	struct sys_statx stx;
	struct copy c;
	int ret;

	if (!wire_end(&r->in) || !is_range(offset, length) || !is_range(offset_to, length))
		return bad_request(r);
	from = handle_get(r->session, fh);
	to = handle_get(r->session, fh_to);
	if (!from || !to || to->append)
		return -EBADF;
	if (overlap(from, offset, to, offset_to, length))
		return -EINVAL;
	ret = files_act(r);
	if (ret < 0)
		return ret;
	c = (struct copy){.from = from->fd,
		.to = to->fd,
		.from_at = (off_t)offset,
		.to_at = (off_t)offset_to,
		.left = length < COPY_MAX ? length : COPY_MAX};
	told_own_begin(r->session, to->node, files_stat(to->fd, &stx));
	ret = copy(&c);
	told_own_end(r->session, to->node, files_stat(to->fd, &stx), true);
	if (ret < 0)
		return ret;
	wire_u64(&r->out, c.done);
	return 0;
}
