/* SPDX-License-Identifier: MIT */
#include "fs/tell.h"

#include "fs/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define UNSEEN_TRIES 11 /* each after twice as long: a second in all */
#define NOTIFY_INC_EPOCH \
	8 /* of the kernel from protocol 7.44 on; libfuse 3.14 has no name for it */

fuse_ino_t tell_number(const struct inode *i)
{
	return i == i->fs->root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)i;
}

/* False: an entry that has just been given to the kernel is not known there before its caller has
 * run, and so this node is to be told again. */
static bool tell_node(const struct telling *t, struct inode *i, bool data)
{
	int r = fuse_lowlevel_notify_inval_inode(t->fs->session, tell_number(i), data ? 0 : -1, 0);

	return r != -ENOENT || !inode_is_known(i);
}

/* libfuse reads the byte after the name too, which in a message is another's. */
void tell_name(const struct telling *t, struct inode *dir, const char *name, size_t len, bool same)
{
	struct fuse_session *se = t->fs->session;
	char text[PROTO_NAME_MAX + 1];

	if (!S_ISDIR(dir->type) || len > PROTO_NAME_MAX)
		return;
	memcpy(text, name, len);
	text[len] = 0;
	if (!same || fuse_lowlevel_notify_expire_entry(
			     se, tell_number(dir), text, len, FUSE_LL_EXPIRE_ONLY) == -ENOSYS)
		fuse_lowlevel_notify_inval_entry(se, tell_number(dir), text, len);
}

/* A new enough kernel asks again for every name of the mount. */
static bool tell_epoch(const struct telling *t)
{
	struct {
		uint32_t len;
		int32_t code;
		uint64_t unique;
	} out = {.len = sizeof(out), .code = NOTIFY_INC_EPOCH};

	return write(fuse_session_fd(t->fs->session), &out, sizeof(out)) == (ssize_t)sizeof(out);
}

/* Else the trees' own names: what is beneath goes with them. */
static void tell_roots(const struct telling *t)
{
	struct inode *box = inode_fixed_known(t->table, &sandbox_ops, 0);
	struct inode *dot = inode_fixed_known(t->fs->table, &dot_rootfs_ops, 0);
	struct sandbox_info info;

	if (box)
		tell_name(t, box, "workspace", strlen("workspace"), false);
	if (dot && sandbox_info(t->sb, &info) == 0) {
		tell_name(t, dot, info.name, strlen(info.name), false);
		sandbox_info_fini(&info);
	}
	inode_put(box);
	inode_put(dot);
}

void tell_all(const struct telling *t)
{
	struct inode **all;
	size_t n;

	if (!tell_epoch(t))
		tell_roots(t);
	while (inode_all(t->table, &all, &n) < 0)
		sleep(1); /* no memory: but it must be told */
	for (size_t k = 0; k < n; k++) {
		if (!t->useless(t->arg))
			fuse_lowlevel_notify_inval_inode(t->fs->session, tell_number(all[k]), 0, 0);
		inode_put(all[k]);
	}
	free(all);
}

/* The kernel moves a name with its directory's lock held, from before we are asked until it is
 * done. A notification waits for that lock; "." is no name of anything, so nothing else comes of
 * it. */
void tell_moved(const struct telling *t, struct inode *dir, struct inode *moved)
{
	int r = fuse_lowlevel_notify_inval_entry(t->fs->session, tell_number(dir), ".", 1);

	if (r == 0 || r == -ENOENT)
		inode_settled(moved);
}

/* Nodes that the kernel did not know when it was told. */
struct unseen {
	struct inode *i; /* a reference */
	bool data;
};

struct unseen_list {
	struct unseen *at;
	size_t n, room;
};

/* Takes the reference. Without memory it is tried for a moment. */
static void see_later(
	const struct telling *t, struct unseen_list *later, struct inode *i, bool data)
{
	static const struct timespec moment = {.tv_nsec = 1000000};

	if (later->n == later->room) {
		size_t room = later->room ? 2 * later->room : 64;
		struct unseen *more = reallocarray(later->at, room, sizeof(*more));

		if (!more) {
			for (int k = 0; k < 10 && !tell_node(t, i, data); k++)
				nanosleep(&moment, NULL);
			inode_put(i);
			return;
		}
		later->at = more;
		later->room = room;
	}
	later->at[later->n++] = (struct unseen){i, data};
}

static void tell_change(
	const struct telling *t, const struct proto_change *p, struct unseen_list *later)
{
	struct inode *i = inode_by_node(t->table, p->node);
	bool data = p->kind == PROTO_CHANGE_DATA;

	if (!i)
		return; /* forgotten meanwhile */
	if (proto_change_named(p->kind))
		tell_name(t, i, (const char *)p->name, p->name_len, p->kind == PROTO_CHANGE_SIZE);
	else if (!tell_node(t, i, data)) {
		see_later(t, later, i, data);
		return;
	}
	inode_put(i);
}

/* Those that were not known: the lookup that makes them so ends when its caller runs, and nothing
 * tells when that is. All names have been told by now, for which the directories' locks had to be
 * free, so most are known; for the rest it is tried again, for about a second. */
static void tell_unseen(const struct telling *t, struct unseen_list *later)
{
	struct timespec pause = {.tv_nsec = 500000};

	for (int k = 0; later->n && k < UNSEEN_TRIES && !t->useless(t->arg); k++) {
		size_t left = 0;

		for (size_t j = 0; j < later->n; j++) {
			struct unseen u = later->at[j];

			if (tell_node(t, u.i, u.data))
				inode_put(u.i);
			else
				later->at[left++] = u;
		}
		later->n = left;
		if (!left)
			break;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
	for (size_t j = 0; j < later->n; j++)
		inode_put(later->at[j].i);
	free(later->at);
}

static bool says_all(const uint8_t *body, size_t len)
{
	struct wire_in in = wire_in(body, len);
	struct proto_change p = {0};

	while (in.p < in.end && !in.bad && p.kind != PROTO_CHANGE_ALL)
		proto_get_change(&in, &p);
	return p.kind == PROTO_CHANGE_ALL;
}

bool tell_body(const struct telling *t, const uint8_t *body, size_t len)
{
	struct wire_in in = wire_in(body, len);
	struct unseen_list later = {0};

	if (says_all(body, len)) { /* once, and what else it says is part of that */
		tell_all(t);
		return true;
	}
	while (in.p < in.end && !in.bad && !t->useless(t->arg)) {
		struct proto_change p;

		proto_get_change(&in, &p);
		tell_change(t, &p, &later);
	}
	tell_unseen(t, &later);
	return false;
}
