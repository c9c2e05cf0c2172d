/* SPDX-License-Identifier: MIT */
/*
 * Owners and their descriptions. One that locks through a handle that cannot write gets a
 * description that cannot either (opening a file of an image for writing would copy it), and a
 * second one when it comes with one that can. The two would exclude each other, so what the first
 * has locked is kept in `read`, and is given up when the second wants it.
 */
#include "agent/lock_owner.h"

#include "agent/creds.h"
#include "agent/files.h"
#include "agent/handles.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>

struct flock lock_range_of(uint32_t type, uint64_t start, uint64_t end)
{
	return (struct flock){.l_type = type == PROTO_LOCK_READ	   ? F_RDLCK
					: type == PROTO_LOCK_WRITE ? F_WRLCK
								   : F_UNLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)start,
		.l_len = end == INT64_MAX ? 0 : (off_t)(end - start + 1)};
}

int lock_set(int fd, uint32_t type, uint64_t start, uint64_t end)
{
	struct flock fl = lock_range_of(type, start, end);

	return fcntl(fd, F_OFD_SETLK, &fl) < 0 ? -errno : 0;
}

static uint64_t key_of(uint64_t owner, uint64_t dev, uint64_t ino)
{
	return owner ^ (dev * 0x9e3779b97f4a7c15u) ^ (ino * 0xbf58476d1ce4e5b9u);
}

struct locks *locks_of(struct session *s)
{
	if (!s->locks)
		s->locks = calloc(1, sizeof(*s->locks));
	return s->locks;
}

struct owner *owner_find(struct session *s, const struct handle *h, uint64_t owner)
{
	uint64_t dev = h->node->dev, ino = h->node->ino;
	struct link *l = s->locks ? table_find(&s->locks->owners, key_of(owner, dev, ino)) : NULL;

	for (; l; l = table_next(l)) {
		struct owner *o = link_of(l, struct owner, by_key);

		if (o->owner == owner && o->dev == dev && o->ino == ino)
			return o;
	}
	return NULL;
}

struct owner *owner_new(struct session *s, const struct handle *h, uint64_t owner)
{
	struct locks *locks = locks_of(s);
	struct owner *o = locks ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return NULL;
	*o = (struct owner){.s = s,
		.owner = owner,
		.dev = h->node->dev,
		.ino = h->node->ino,
		.fh = h->by_num.key,
		.known = true,
		.refs = 1,
		.read_fd = -1,
		.write_fd = -1};
	if (table_add(&locks->owners, &o->by_key, key_of(owner, o->dev, o->ino)) < 0) {
		free(o);
		return NULL;
	}
	if (table_add(&locks->by_fh, &o->by_fh, o->fh) < 0) {
		table_del(&locks->owners, &o->by_key);
		free(o);
		return NULL;
	}
	return o;
}

void owner_put(struct owner *o)
{
	if (--o->refs)
		return;
	if (o->read_fd >= 0)
		close(o->read_fd);
	if (o->write_fd >= 0)
		close(o->write_fd);
	ranges_fini(&o->read);
	free(o);
}

/* Not by closing: a child that is about to run a command still has the descriptors for a moment. */
void owner_unlock(struct owner *o)
{
	if (o->read_fd >= 0)
		lock_set(o->read_fd, PROTO_LOCK_NONE, 0, INT64_MAX);
	if (o->write_fd >= 0)
		lock_set(o->write_fd, PROTO_LOCK_NONE, 0, INT64_MAX);
	ranges_cut(&o->read, 0, INT64_MAX, NULL);
}

void owner_forget(struct owner *o)
{
	if (!o->known)
		return;
	table_del(&o->s->locks->owners, &o->by_key);
	table_del(&o->s->locks->by_fh, &o->by_fh);
	o->known = false;
}

/* A description of its own of the file that h is, with the agent's rights or else the caller's. */
static int open_again(struct request *r, const struct handle *h, int flags)
{
	struct pin pin = {.s = r->session, .node = h->node, .fd = -1}; /* h holds the node */
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", h->fd);
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ENOTDIR) { /* no /proc: by its name */
		fd = files_open(r, &pin, flags | O_CLOEXEC);
	} else if (errno == EACCES || errno == EPERM) {
		fd = files_act(r);
		if (!fd)
			fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			fd = -EACCES;
	} else {
		fd = -errno;
	}
	creds_own();
	return fd;
}

int owner_fd(struct request *r, struct owner *o, const struct handle *h, uint32_t type)
{
	bool write_fd_will_do = type == PROTO_LOCK_WRITE || !o->write_only;
	int fd;

	if (o->write_fd >= 0 && write_fd_will_do)
		return o->write_fd;
	if (type == PROTO_LOCK_READ && (o->read_fd >= 0 || !h->writable || o->write_fd >= 0)) {
		if (o->read_fd < 0) {
			fd = open_again(r, h, O_RDONLY);
			if (fd < 0)
				return fd;
			o->read_fd = fd;
		}
		return o->read_fd;
	}
	fd = open_again(r, h, O_RDWR);
	if (fd == -EACCES && !h->readable) {
		fd = open_again(r, h, O_WRONLY);
		o->write_only = fd >= 0;
	}
	if (fd >= 0)
		o->write_fd = fd;
	return fd;
}

void owner_take_back(struct owner *o, struct ranges *given_up)
{
	for (size_t i = 0; i < given_up->n && o->known; i++) {
		const struct range *g = &given_up->at[i];

		if (lock_set(o->read_fd, PROTO_LOCK_READ, g->start, g->end) < 0 ||
			ranges_add(&o->read, g->start, g->end) < 0)
			log_warn("a read lock was lost to another process");
	}
	ranges_fini(given_up);
}

int owner_note(struct owner *o, int fd, const struct proto_lock *l)
{
	if (fd != o->read_fd || l->type != PROTO_LOCK_READ)
		return 0;
	return ranges_add(&o->read, l->start, l->end) < 0 ? -ENOLCK : 0;
}

int lock_test(int fd, const struct proto_lock *l, uint64_t start, struct proto_lock *found)
{
	struct flock fl = lock_range_of(l->type, start, l->end);

	if (fcntl(fd, F_OFD_GETLK, &fl) < 0)
		return -errno;
	*found = (struct proto_lock){.type = PROTO_LOCK_NONE, .end = INT64_MAX};
	if (fl.l_type == F_UNLCK)
		return 0;
	found->type = fl.l_type == F_RDLCK ? PROTO_LOCK_READ : PROTO_LOCK_WRITE;
	found->start = (uint64_t)fl.l_start;
	if (fl.l_len)
		found->end = found->start + (uint64_t)fl.l_len - 1;
	found->pid = fl.l_pid > 0 ? (uint32_t)fl.l_pid : 0; /* -1: a description's */
	return 0;
}

bool lock_held(int fd)
{
	char path[48], text[2048];
	cleanup_close int info = -1;
	ssize_t n;

	if (fd < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (n < 0)
		return true;
	text[n] = 0;
	return strstr(text, "\nlock:");
}
