/* SPDX-License-Identifier: MIT */
/* Directories: OPENDIR and READDIR by getdents64, whose offsets are the protocol's `next`. Any
 * thread; the handle's lock keeps one reader at its position. */
#include "agent/io.h"

#include "agent/files.h"
#include "agent/handles.h"
#include "agent/told.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRY_MIN (8 + 8 + 4 + 4 + 1) /* bytes of an entry without name and attr */
#define SIZE_MIN  512u		      /* any entry fits, so an empty reply is always the end */
#define BATCH	  (32u << 10)

/* "." asks for the right to search as well as to read; /proc's link does not. */
static int open_dir(int path_fd)
{
	char path[48];
	int fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

int dirs_open(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t fh = wire_get_u64(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	int ret, fd;

	if (!wire_end(&r->in))
		return bad_request(r);
	if (handle_taken(r->session, fh))
		return -EEXIST;
	ret = pin_open(r->session, num, &pin);
	if (ret < 0)
		return ret;
	if (!S_ISDIR(pin.node->type))
		return -ENOTDIR;
	watch_dir(&pin);
	ret = files_act(r);
	if (ret < 0)
		return ret;
	fd = open_dir(pin.fd);
	if (fd < 0)
		return fd;
	return handle_add(r->session, fh, pin.node, fd, O_RDONLY | O_DIRECTORY);
}

struct listing {
	struct request *r;
	struct pin dir; /* the handle's node and descriptor; not counted here */
	size_t end;	/* the reply's length at most */
	uint64_t new;
	uint32_t n_new, n;
};

static bool is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Puts one entry into the reply. False: it does not fit, the reply is full. */
static bool put_entry(struct listing *l, const struct sys_dirent *d)
{
	static const uint32_t types[16] = {[1] = S_IFIFO,
		[2] = S_IFCHR,
		[4] = S_IFDIR,
		[6] = S_IFBLK,
		[8] = S_IFREG,
		[10] = S_IFLNK,
		[12] = S_IFSOCK};
	struct proto_dirent e = {.ino = d->ino,
		.next = (uint64_t)d->off,
		.type = d->type < 16 ? types[d->type] : 0,
		.name = (const uint8_t *)d->name,
		.name_len = strlen(d->name)};
	struct buf *out = &l->r->out;
	size_t before = out->len;
	uint64_t num = l->new + l->n;
	struct sys_statx stx;

	if (is_dot(d->name) || !proto_name_ok(e.name, e.name_len))
		return true;
	if (l->n_new && l->n >= l->n_new)
		return false;
	if (out->len + ENTRY_MIN + e.name_len > l->end)
		return false;
	if (l->n_new && sys_statx(l->dir.fd, d->name, &stx) == 0 &&
		node_add(l->r->session, num, &l->dir, d->name, &stx) == 0) {
		e.has_attr = true;
		e.ino = stx.ino;
		e.type = stx.mode & S_IFMT;
		watch_file(l->r->session, num, l->dir.fd, d->name, &stx, WATCH_SEEN);
		files_act(l->r); /* again: that was done with other rights */
		files_attr(&stx, &e.attr);
		told_attr(l->r->session, num, &stx, &e.attr);
	}
	proto_put_dirent(out, &e);
	if (out->len > l->end || out->error) {
		if (e.has_attr)
			node_forget(l->r->session, num);
		out->len = before;
		return false;
	}
	l->n++;
	return true;
}

static int list(struct listing *l, uint64_t offset)
{
	_Alignas(8) uint8_t batch[BATCH];
	ssize_t n;

	if (lseek(l->dir.fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	while ((n = sys_getdents(l->dir.fd, batch, sizeof(batch))) > 0)
		for (uint8_t *p = batch; p < batch + n;) {
			const struct sys_dirent *d = (const void *)p;

			if (!put_entry(l, d))
				return 0;
			p += d->reclen;
		}
	return n < 0 ? -errno : 0;
}

int dirs_read(struct request *r)
{
	uint64_t fh = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint32_t size = wire_get_u32(&r->in);
	uint64_t new = wire_get_u64(&r->in);
	uint32_t n_new = wire_get_u32(&r->in);
	auto_handle struct handle *h = NULL;
	struct listing l;
	size_t start = r->out.len;
	uint32_t most = size / ENTRY_MIN; /* entries that fit */
	int ret;

	if (!wire_end(&r->in) || size < SIZE_MIN || size > PROTO_MAX_DATA || offset > INT64_MAX)
		return bad_request(r);
	h = handle_get(r->session, fh);
	if (!h)
		return -EBADF;
	if (!h->dir)
		return -ENOTDIR;
	ret = files_act(r);
	if (ret < 0)
		return ret;
	l = (struct listing){.r = r,
		.dir = {.s = r->session, .node = h->node, .fd = h->fd},
		.end = start + size,
		.new = new,
		.n_new = n_new};
	pthread_mutex_lock(&h->lock);
	/* It may have been asked before, on a connection that was lost with the answer: then the
	 * numbers are to be had again, and the first copy must not come after this one. */
	if (session_is_left(r->session, r->conn)) {
		ret = -ECONNRESET;
	} else {
		nodes_forget(r->session, new, n_new < most ? n_new : most);
		ret = list(&l, offset);
	}
	pthread_mutex_unlock(&h->lock);
	return l.n ? 0 : ret;
}
