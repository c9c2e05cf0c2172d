/* SPDX-License-Identifier: MIT */
/*
 * GETATTR and SETATTR, and opening a node's file. A node that has an open handle is asked through
 * that handle's descriptor: it may have lost its name. Any thread.
 */
#include "agent/files.h"

#include "agent/handles.h"
#include "agent/told.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The node's current name, into name[PROTO_NAME_MAX + 1]. */
static void name_of(const struct pin *pin, char *name)
{
	pthread_mutex_lock(&pin->s->lock);
	snprintf(name, PROTO_NAME_MAX + 1, "%s", pin->node->name);
	pthread_mutex_unlock(&pin->s->lock);
}

static bool same_file(const struct pin *pin, const struct sys_statx *stx)
{
	return stx->ino == pin->node->ino && sys_dev(stx) == pin->node->dev;
}

/* By the parent and the name, without opening the file. */
static int stat_named(struct request *r, const struct pin *pin, struct sys_statx *stx)
{
	auto_unpin struct pin parent = PIN_NONE;
	char name[PROTO_NAME_MAX + 1];
	int ret = pin_parent(pin, &parent);

	if (!ret)
		ret = files_act(r);
	if (ret < 0)
		return ret;
	name_of(pin, name);
	if (sys_statx(parent.fd, name, stx) < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ESTALE : -errno;
	if (!same_file(pin, stx))
		return -ESTALE;
	watch_file(r->session, pin->node->num, parent.fd, name, stx, WATCH_AGAIN);
	return 0;
}

static int stat_node(struct request *r, uint64_t num, uint64_t fh, struct sys_statx *stx)
{
	auto_handle struct handle *h = fh ? handle_get(r->session, fh) : NULL;
	auto_unpin struct pin pin = PIN_NONE;
	int ret;

	if (fh && !h)
		return -EBADF;
	ret = h ? 0 : pin_node(r->session, num, &pin);
	if (ret < 0)
		return ret;
	if (!h)
		h = handle_of(r->session, pin.node);
	if (h)
		return sys_statx(h->fd, "", stx) < 0 ? -errno : 0;
	if (S_ISDIR(pin.node->type)) {
		/* Directories are worth a descriptor, and a watch: they will be walked through. */
		uint64_t n = pin.node->num;

		unpin(&pin);
		ret = pin_open(r->session, n, &pin);
		if (ret < 0)
			return ret;
		if (S_ISDIR(pin.node->type))
			watch_dir(&pin);
		return sys_statx(pin.fd, "", stx) < 0 ? -errno : 0;
	}
	return stat_named(r, &pin, stx);
}

int files_getattr(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t fh = wire_get_u64(&r->in);
	struct sys_statx stx;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = stat_node(r, num, fh, &stx);
	if (!ret)
		files_tell(r, num, &stx);
	return ret;
}

/* Opens through the descriptor the pin has; -ENOENT where there is no /proc. */
static int reopen(const struct pin *pin, int flags)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", pin->fd);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_named(struct request *r, const struct pin *pin, int flags)
{
	auto_unpin struct pin parent = PIN_NONE;
	cleanup_close int fd = -1;
	char name[PROTO_NAME_MAX + 1];
	struct sys_statx stx;
	int ret = pin_parent(pin, &parent);

	if (!ret)
		ret = files_act(r);
	if (ret < 0)
		return ret;
	name_of(pin, name);
	fd = sys_open_beneath(parent.fd, name, flags, 0);
	if (fd < 0) {
		/* That it cannot be opened counts only if it is the one that is meant. */
		ret = -errno;
		return sys_statx(parent.fd, name, &stx) < 0 || !same_file(pin, &stx) ? -ESTALE
										     : ret;
	}
	if (sys_statx(fd, "", &stx) < 0)
		return -errno;
	return same_file(pin, &stx) ? steal_fd(&fd) : -ESTALE;
}

int files_open(struct request *r, const struct pin *pin, int flags)
{
	cleanup_close int fd = -1;
	int wait = flags & O_NONBLOCK, got;

	if (S_ISDIR(pin->node->type))
		return -EISDIR;
	if (S_ISLNK(pin->node->type))
		return -ELOOP;
	if (!S_ISREG(pin->node->type))
		return -ENXIO; /* the host's kernel opens its own FIFOs; devices are not ours to
				  open */
	/* O_NONBLOCK: what is there by now may be a FIFO, found out only after the open. */
	flags |= O_NONBLOCK | O_NOCTTY;
	got = open_named(r, pin, flags);
	if (got == -ESTALE) {
		/* It may have moved while its descriptor, or another handle, still holds it. */
		auto_handle struct handle *h = handle_of(r->session, pin->node);
		auto_unpin struct pin held = PIN_NONE;
		int ret = files_act(r);

		if (ret < 0)
			return ret;
		if (h)
			got = reopen(&(struct pin){.fd = h->fd}, flags);
		else if (pin_has_fd(pin) && !pin_open(r->session, pin->node->num, &held))
			got = files_act(r) < 0 ? -EPERM : reopen(&held, flags);
	}
	if (got < 0)
		return got == -ENOENT ? -ESTALE : got;
	fd = got;
	if (!wait) {
		int now = fcntl(fd, F_GETFL);

		if (now < 0 || fcntl(fd, F_SETFL, now & ~O_NONBLOCK) < 0)
			return -errno;
	}
	return steal_fd(&fd);
}

static int set_size(struct request *r, const struct pin *pin, const struct handle *h, uint64_t size)
{
	cleanup_close int fd = -1;

	if (size > INT64_MAX)
		return -EINVAL;
	if (h && h->writable)
		return ftruncate(h->fd, (off_t)size) < 0 ? -errno : 0;
	fd = files_open(r, pin, O_WRONLY);
	if (fd < 0)
		return fd;
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

static int set_owner(int fd, const struct proto_setattr *set)
{
	uid_t uid = set->mask & PROTO_SET_ATTR_UID ? set->uid : (uid_t)-1;
	gid_t gid = set->mask & PROTO_SET_ATTR_GID ? set->gid : (gid_t)-1;

	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* fd may be O_PATH, which fchmod refuses. */
static int set_mode(int fd, bool path, uint32_t mode)
{
	char name[48];

	if (!path)
		return fchmod(fd, mode & 07777) < 0 ? -errno : 0;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (chmod(name, mode & 07777) == 0)
		return 0;
	if (errno != ENOENT && errno != ENOTDIR)
		return -errno;
	if (sys_fchmodat2(fd, mode & 07777) == 0)
		return 0;
	return errno == ENOSYS ? -EOPNOTSUPP : -errno;
}

static struct timespec time_of(
	uint32_t mask, uint32_t given, uint32_t now, const struct proto_time *t)
{
	if (mask & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (mask & given)
		return (struct timespec){.tv_sec = (time_t)t->sec, .tv_nsec = (long)t->nsec};
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(int fd, bool path, const struct proto_setattr *set)
{
	struct timespec ts[2] = {
		time_of(set->mask, PROTO_SET_ATTR_ATIME, PROTO_SET_ATTR_ATIME_NOW, &set->atime),
		time_of(set->mask, PROTO_SET_ATTR_MTIME, PROTO_SET_ATTR_MTIME_NOW, &set->mtime)};
	char name[48];

	if (!path)
		return futimens(fd, ts) < 0 ? -errno : 0;
	if (utimensat(fd, "", ts, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOENT) /* what kernels before 5.8 say */
		return -errno;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return utimensat(AT_FDCWD, name, ts, 0) < 0 ? -errno : 0;
}

/* Owner, mode, times of fd, in this order: chown clears set-id bits that a chmod may set. */
static int set_rest(
	struct request *r, int fd, bool path, bool is_link, const struct proto_setattr *set)
{
	int ret = files_act(r);

	if (!ret && set->mask & (PROTO_SET_ATTR_UID | PROTO_SET_ATTR_GID))
		ret = set_owner(fd, set);
	if (!ret && set->mask & PROTO_SET_ATTR_MODE)
		ret = is_link ? -EOPNOTSUPP : set_mode(fd, path, set->mode);
	if (!ret && set->mask & ~(PROTO_SET_ATTR_UID | PROTO_SET_ATTR_GID | PROTO_SET_ATTR_MODE |
					PROTO_SET_ATTR_SIZE))
		ret = set_times(fd, path, set);
	return ret;
}

static int set_attr(struct request *r, uint64_t num, struct pin *pin, const struct handle *h,
	bool by_fh, const struct proto_setattr *set)
{
	int ret = 0;

	if (set->mask & PROTO_SET_ATTR_SIZE) {
		/* Without fh it is truncate(2): the file's permissions count, not the handle's. */
		ret = files_act(r);
		if (!ret)
			ret = set_size(r, pin, by_fh ? h : NULL, set->size);
	}
	if (ret < 0 || !(set->mask & ~(uint32_t)PROTO_SET_ATTR_SIZE))
		return ret;
	if (!h) {
		unpin(pin);
		ret = pin_open(r->session, num, pin);
		if (ret < 0)
			return ret;
	}
	return set_rest(r, h ? h->fd : pin->fd, !h, S_ISLNK(pin->node->type), set);
}

int files_setattr(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t fh = wire_get_u64(&r->in);
	auto_handle struct handle *h = fh ? handle_get(r->session, fh) : NULL;
	auto_unpin struct pin pin = PIN_NONE;
	struct proto_setattr set;
	struct sys_statx stx = {0};
	uint64_t size;
	bool stat;
	int ret, after;

	proto_get_setattr(&r->in, &set);
	if (!wire_end(&r->in) || set.mask & ~(uint32_t)PROTO_SET_ATTR_ALL)
		return bad_request(r);
	if (fh && !h)
		return -EBADF;
	ret = pin_node(r->session, num, &pin);
	if (ret < 0)
		return ret;
	if (!h)
		h = handle_of(r->session, pin.node);
	/* Events of the daemon's own writes are known by the times, which may be set now. */
	watch_drain();
	stat = stat_node(r, num, fh, &stx) == 0;
	size = stx.size;
	told_own_begin(r->session, pin.node, stat ? &stx : NULL);
	ret = set_attr(r, num, &pin, h, fh != 0, &set);
	after = stat_node(r, num, fh, &stx);
	/* Of its own accord the kernel drops the bytes that it has only for another size. */
	told_own_end(r->session, pin.node, after < 0 ? NULL : &stx,
		set.mask & PROTO_SET_ATTR_SIZE && (!size || size != stx.size));
	if (!ret)
		ret = after;
	if (!ret)
		files_tell(r, num, &stx);
	return ret;
}
