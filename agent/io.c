/* SPDX-License-Identifier: MIT */
/* Open files: their bytes. Any thread; handles are counted, the descriptors are the kernel's to
 * serialise. */
#include "agent/io.h"

#include "agent/creds.h"
#include "agent/files.h"
#include "agent/handles.h"
#include "agent/locks.h"
#include "agent/told.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#define QUICK_BYTES (64u << 10) /* what the loop's thread copies itself */

static int flags_of(uint32_t o)
{
	int flags = 0;

	if (o & ~(uint32_t)PROTO_O_ALL || !(o & (PROTO_O_READ | PROTO_O_WRITE)))
		return -EINVAL;
	flags = !(o & PROTO_O_WRITE) ? O_RDONLY : o & PROTO_O_READ ? O_RDWR : O_WRONLY;
	if (o & PROTO_O_APPEND)
		flags |= O_APPEND;
	if (o & PROTO_O_EXCL)
		flags |= O_EXCL;
	if (o & PROTO_O_SYNC)
		flags |= O_SYNC;
	if (o & PROTO_O_DSYNC)
		flags |= O_DSYNC;
	return flags; /* O_DIRECT would ask for aligned memory and offsets: the cache serves it */
}

static int truncate_own(struct session *s, struct node *n, int fd)
{
	struct sys_statx stx;
	int ret;

	told_own_begin(s, n, files_stat(fd, &stx));
	ret = ftruncate(fd, 0) < 0 ? -errno : 0;
	told_own_end(s, n, files_stat(fd, &stx), true);
	return ret;
}

int io_open(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t fh = wire_get_u64(&r->in);
	uint32_t o = wire_get_u32(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	cleanup_close int fd = -1;
	struct sys_statx stx;
	int flags = flags_of(o), ret;

	if (!wire_end(&r->in) || flags < 0)
		return bad_request(r);
	if (handle_taken(r->session, fh))
		return -EEXIST;
	ret = pin_node(r->session, num, &pin);
	if (ret < 0)
		return ret;
	fd = files_open(r, &pin, flags & ~O_EXCL);
	if (fd < 0)
		return fd;
	/* Only now, when it is known to be the right file. */
	if (o & PROTO_O_TRUNC && flags & (O_WRONLY | O_RDWR)) {
		ret = truncate_own(r->session, pin.node, fd);
		if (ret < 0)
			return ret;
	}
	if (files_stat(fd, &stx))
		watch_file(r->session, num, fd, "", &stx, WATCH_OPENED);
	watch_drain(); /* what was done before this open is told before its answer */
	if (!(o & PROTO_O_TRUNC) && told_size_is_old(r->session, pin.node, fd))
		return -ESTALE; /* the kernel looks it up, and comes again */
	wire_u32(&r->out, told_keeps(r->session, pin.node, fd) ? PROTO_OPENED_KEEP : 0);
	return handle_add(r->session, fh, pin.node, steal_fd(&fd), flags);
}

/* What stands in the way of creating name, when that is not a regular file. */
static int not_regular(uint32_t mode)
{
	if (S_ISREG(mode))
		return 0;
	return S_ISDIR(mode) ? -EISDIR : S_ISLNK(mode) ? -ELOOP : -ENXIO;
}

static int create_at(
	const struct pin *parent, const char *name, uint32_t o, int flags, unsigned mode)
{
	cleanup_close int fd = -1;
	struct sys_statx stx;
	int ret;

	if (!(flags & O_EXCL) && sys_statx(parent->fd, name, &stx) == 0) {
		/* A device or FIFO is not even opened. */
		ret = not_regular(stx.mode);
		if (ret < 0)
			return ret;
	}
	fd = sys_open_beneath(parent->fd, name, flags | O_CREAT | O_NONBLOCK | O_NOCTTY, mode);
	if (fd < 0)
		return -errno;
	if (sys_statx(fd, "", &stx) < 0)
		return -errno;
	ret = not_regular(stx.mode);
	if (ret < 0)
		return ret;
	if (o & PROTO_O_TRUNC && stx.size && flags & (O_WRONLY | O_RDWR) && ftruncate(fd, 0) < 0)
		return -errno;
	ret = fcntl(fd, F_GETFL);
	if (ret < 0 || fcntl(fd, F_SETFL, ret & ~O_NONBLOCK) < 0)
		return -errno;
	return steal_fd(&fd);
}

int io_create(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t num = wire_get_u64(&r->in);
	uint64_t fh = wire_get_u64(&r->in);
	uint32_t o = wire_get_u32(&r->in);
	uint32_t mode = wire_get_u32(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	auto_unpin struct pin made = PIN_NONE;
	cleanup_close int fd = -1;
	struct sys_statx stx;
	int flags = flags_of(o), ret;

	if (!wire_end(&r->in) || flags < 0)
		return bad_request(r);
	if (node_taken(r->session, num) || handle_taken(r->session, fh))
		return -EEXIST;
	ret = pin_open(r->session, parent, &pin);
	if (ret < 0)
		return ret;
	watch_dir(&pin);
	ret = files_act(r);
	if (ret < 0)
		return ret;
	fd = create_at(&pin, name, o, flags, files_mode(&pin, mode) & 07777);
	if (fd < 0)
		return fd;
	told_own_names(&pin);
	if (sys_statx(fd, "", &stx) < 0)
		return -errno;
	ret = node_add(r->session, num, &pin, name, &stx);
	if (!ret)
		ret = pin_node(r->session, num, &made);
	if (!ret)
		ret = handle_add(r->session, fh, made.node, steal_fd(&fd), flags);
	if (ret < 0) {
		node_forget(r->session, num);
		return ret;
	}
	watch_file(r->session, num, pin.fd, name, &stx, WATCH_OPENED);
	files_tell(r, num, &stx);
	return 0;
}

bool io_read_is_slow(const struct request *r)
{
	struct wire_in in = r->in;

	wire_get_u64(&in);
	wire_get_u64(&in);
	return wire_get_u32(&in) > QUICK_BYTES;
}

bool io_write_is_slow(const struct request *r)
{
	return r->head.len > QUICK_BYTES;
}

int io_read(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint32_t size = wire_get_u32(&r->in);
	auto_handle struct handle *h = NULL;
	size_t len = 0, at;
	uint8_t *p;

	if (!wire_end(&r->in) || size > PROTO_MAX_DATA || offset > (uint64_t)INT64_MAX - size)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	told_read(r->session, h->node, h->fd);
	at = r->out.len;
	wire_u32(&r->out, 0);
	p = buf_reserve(&r->out, size);
	if (!p)
		return -ENOMEM;
	while (len < size) {
		ssize_t n = pread(h->fd, p + len, size - len, (off_t)(offset + len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !len)
			return -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	r->out.len += len;
	for (int i = 0; i < 4; i++)
		r->out.data[at + (size_t)i] = (uint8_t)(len >> (8 * i));
	return 0;
}

/* pwrite, but at the end, or not, however h was opened: by another open file. (RWF_NOAPPEND is
 * passed over by overlayfs.) */
static ssize_t write_as(struct request *r, const struct handle *h, const uint8_t *p, size_t size,
	off_t offset, bool append)
{
	cleanup_close int fd = -1;
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", h->fd);
	creds_own(); /* that it may be written to was seen when h was opened */
	fd = open(path, O_WRONLY | O_CLOEXEC | (append ? O_APPEND : 0));
	if (fd < 0)
		return -1;
	if (files_act(r) < 0) {
		errno = EPERM;
		return -1;
	}
	return pwrite(fd, p, size, offset);
}

static int write_bytes(struct request *r, const struct handle *h, uint64_t offset, const uint8_t *p,
	size_t size, bool append)
{
	size_t len = 0;
	struct sys_statx stx;
	int ret;

	/* The writer's rights count even here: set-id bits go unless it may keep them. */
	ret = files_act(r);
	if (ret < 0)
		return ret;
	told_own_begin(r->session, h->node, files_stat(h->fd, &stx));
	while (len < size) {
		off_t at = (off_t)(offset + len);
		/* With O_APPEND Linux's pwrite writes at the end, whatever the offset. */
		ssize_t n = append == h->append ? pwrite(h->fd, p + len, size - len, at)
						: write_as(r, h, p + len, size - len, at, append);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !len)
			ret = -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	told_own_end(r->session, h->node, files_stat(h->fd, &stx), true);
	if (!ret)
		wire_u32(&r->out, (uint32_t)len);
	return ret;
}

int io_write(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	size_t size;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &size);
	auto_handle struct handle *h = NULL;

	if (!wire_end(&r->in) || offset > (uint64_t)INT64_MAX - size)
		return bad_request(r);
	h = handle_get(r->session, fh);
	return h ? write_bytes(r, h, offset, p, size, h->append) : -EBADF;
}

int io_write_as(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint8_t append = wire_get_u8(&r->in);
	size_t size;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &size);
	auto_handle struct handle *h = NULL;

	if (!wire_end(&r->in) || append > 1 || offset > (uint64_t)INT64_MAX - size)
		return bad_request(r);
	h = handle_get(r->session, fh);
	return h && h->writable ? write_bytes(r, h, offset, p, size, append) : -EBADF;
}

int io_fsync(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint8_t data_only = wire_get_u8(&r->in);
	auto_handle struct handle *h = NULL;

	if (!wire_end(&r->in) || data_only > 1)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	return (data_only ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? -errno : 0;
}

int io_close(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	struct handle *h = wire_end(&r->in) ? handle_get(r->session, fh) : NULL;
	bool writable = h && h->writable;

	if (!h)
		return 0;
	if (writable)
		watch_expect_closed(r->session, h->node);
	locks_closed(r->session, fh);
	handle_close(r->session, fh);
	handle_put(h);
	if (writable)
		watch_drain(); /* the event that is expected is there, or there is none */
	return 0;
}
