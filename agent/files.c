/* SPDX-License-Identifier: MIT */
/*
 * Names and links. Any thread (the loop's or a worker's), with the caller's rights by
 * creds_become(); pins give descriptors, so no path of more than one component is ever used.
 */
#include "agent/files.h"

#include "agent/creds.h"
#include "agent/handles.h"
#include "agent/told.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#define LARGE_BLOCKS (64u << 11) /* 64 MiB: freeing it takes long */

static void attr_time(struct proto_time *to, const struct sys_time *t)
{
	to->sec = t->sec;
	to->nsec = t->nsec < 1000000000 ? t->nsec : 999999999;
}

static uint64_t root_dev; /* constant after files_init() */

void files_init(int root_fd)
{
	struct sys_statx stx;

	if (sys_statx(root_fd, "", &stx) == 0)
		root_dev = sys_dev(&stx);
}

void files_attr(const struct sys_statx *stx, struct proto_attr *a)
{
	/* An overlay has another number after each start of the container. */
	*a = (struct proto_attr){.dev = sys_dev(stx) == root_dev ? 0 : sys_dev(stx),
		.ino = stx->ino,
		.mode = stx->mode,
		.nlink = stx->nlink,
		.uid = stx->uid,
		.gid = stx->gid,
		.size = stx->size,
		.blocks = stx->blocks,
		.blksize = stx->blksize,
		.rdev_major = stx->rdev_major,
		.rdev_minor = stx->rdev_minor};
	attr_time(&a->atime, &stx->atime);
	attr_time(&a->mtime, &stx->mtime);
	attr_time(&a->ctime, &stx->ctime);
	attr_time(&a->btime, &stx->btime);
}

const struct sys_statx *files_stat(int fd, struct sys_statx *stx)
{
	return sys_statx(fd, "", stx) < 0 ? NULL : stx;
}

int files_act(struct request *r)
{
	gid_t groups[PROTO_GROUPS_MAX];
	struct wire_in in = wire_in(r->groups, (size_t)r->head.error * 4);

	for (unsigned i = 0; i < r->head.error; i++)
		groups[i] = wire_get_u32(&in);
	return creds_become(r->head.uid, r->head.gid, groups, r->head.error, &r->err);
}

void files_tell(struct request *r, uint64_t num, const struct sys_statx *stx)
{
	struct proto_attr attr;

	files_attr(stx, &attr);
	told_attr(r->session, num, stx, &attr);
	proto_put_attr(&r->out, &attr);
}

void files_tell_new(
	struct request *r, uint64_t num, int dirfd, const char *name, struct sys_statx *stx)
{
	watch_file(r->session, num, dirfd, name, stx, WATCH_SEEN);
	files_tell(r, num, stx);
}

uint32_t files_mode(const struct pin *dir, uint32_t mode)
{
	uint32_t masked = mode >> PROTO_MODE_MASKED & 0777;
	char path[48];

	mode &= S_IFMT | 07777;
	if (!masked)
		return mode;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir->fd);
	return getxattr(path, "system.posix_acl_default", NULL, 0) > 0 ? mode | masked : mode;
}

int files_made(struct request *r, const struct pin *parent, const char *name, uint64_t num)
{
	struct sys_statx stx;
	int ret;

	if (sys_statx(parent->fd, name, &stx) < 0)
		return -errno;
	ret = node_add(r->session, num, parent, name, &stx);
	if (ret < 0)
		return ret;
	files_tell_new(r, num, parent->fd, name, &stx);
	return 0;
}

/* The start of every message that makes a name: the parent is open, the number free, and the
 * thread has the caller's rights. */
static int begin_make(struct request *r, uint64_t parent, uint64_t num, struct pin *pin)
{
	int ret;

	if (node_taken(r->session, num))
		return -EEXIST;
	ret = pin_open(r->session, parent, pin);
	if (ret < 0)
		return ret;
	watch_dir(pin);
	return files_act(r);
}

/* What was looked up may be opened or read even if its name is another file's by then, again and
 * again: so its descriptor is taken first, and kept for a while. */
static int look(struct request *r, const struct pin *parent, const char *name, uint64_t num)
{
	cleanup_close int fd = sys_open_beneath(parent->fd, name, O_PATH, 0);
	struct sys_statx stx;
	int ret;

	if (fd < 0 || sys_statx(fd, "", &stx) < 0)
		return -errno;
	ret = node_add(r->session, num, parent, name, &stx);
	if (ret < 0)
		return ret;
	node_keep(r->session, num, steal_fd(&fd));
	files_tell_new(r, num, parent->fd, name, &stx);
	return 0;
}

int files_lookup(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t num = wire_get_u64(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	node_forget(r->session, num); /* asked before, and the answer was lost */
	ret = begin_make(r, parent, num, &pin);
	if (!ret)
		ret = look(r, &pin, name, num);
	if (ret != -ENOENT || !watch_sees(&pin))
		return ret;
	told_none(&pin, name);
	/* There is none, and the daemon will hear when there is. */
	proto_put_attr(&r->out, &(struct proto_attr){.cache = PROTO_CACHE_NAME});
	return 0;
}

int files_forget(struct request *r)
{
	uint32_t n = wire_get_u32(&r->in);

	while (n-- && !r->in.bad) {
		uint64_t num = wire_get_u64(&r->in);

		if (!r->in.bad)
			node_forget(r->session, num);
	}
	return 0;
}

int files_readlink(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	char text[PROTO_PATH_MAX];
	ssize_t n;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = pin_open(r->session, num, &pin);
	if (ret < 0)
		return ret;
	if (!S_ISLNK(pin.node->type))
		return -EINVAL;
	ret = files_act(r);
	if (ret < 0)
		return ret;
	n = readlinkat(pin.fd, "", text, sizeof(text));
	if (n < 0)
		return -errno;
	wire_bytes(&r->out, text, (size_t)n);
	return 0;
}

int files_symlink(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t num = wire_get_u64(&r->in);
	cleanup_free char *target = wire_get_str(&r->in, PROTO_PATH_MAX - 1);
	auto_unpin struct pin pin = PIN_NONE;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = begin_make(r, parent, num, &pin);
	if (ret < 0)
		return ret;
	if (symlinkat(target, pin.fd, name) < 0)
		return -errno;
	told_own_names(&pin);
	return files_made(r, &pin, name, num);
}

int files_mknod(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t num = wire_get_u64(&r->in);
	uint32_t mode = wire_get_u32(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	if (S_ISCHR(mode) || S_ISBLK(mode))
		return -EPERM;
	if (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
		return -EINVAL;
	ret = begin_make(r, parent, num, &pin);
	if (ret < 0)
		return ret;
	if (mknodat(pin.fd, name, files_mode(&pin, mode), 0) < 0)
		return -errno;
	told_own_names(&pin);
	return files_made(r, &pin, name, num);
}

int files_mkdir(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t num = wire_get_u64(&r->in);
	uint32_t mode = wire_get_u32(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = begin_make(r, parent, num, &pin);
	if (ret < 0)
		return ret;
	if (mkdirat(pin.fd, name, files_mode(&pin, mode) & 07777) < 0)
		return -errno;
	told_own_names(&pin);
	return files_made(r, &pin, name, num);
}

static void *close_late(void *arg)
{
	close((int)(intptr_t)arg);
	return NULL;
}

/* A removed file's blocks are freed when its last descriptor goes. Where that may take long it is
 * not for the loop to wait; the removal itself is the loop's, which expects its event. */
static void let_go(int fd)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct sys_statx stx;
	int failed = -1;

	if (fd < 0)
		return;
	if (sys_statx(fd, "", &stx) == 0 && stx.nlink == 0 && stx.blocks > LARGE_BLOCKS) {
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		pthread_attr_setstacksize(&attr, 64u << 10);
		failed = pthread_create(&thread, &attr, close_late, (void *)(intptr_t)fd);
		pthread_attr_destroy(&attr);
	}
	if (failed)
		close(fd);
}

static int remove_name(struct request *r, int flags)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	int ret, held;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = pin_open(r->session, parent, &pin);
	if (!ret)
		ret = files_act(r);
	if (ret < 0)
		return ret;
	held = flags ? -1 : sys_open_beneath(pin.fd, name, O_PATH, 0);
	ret = unlinkat(pin.fd, name, flags) < 0 ? -errno : 0;
	let_go(held);
	if (ret < 0)
		return ret;
	watch_expect_removed(&pin, name, false);
	told_own_names(&pin);
	watch_drain();
	return 0;
}

int files_unlink(struct request *r)
{
	return remove_name(r, 0);
}

int files_rmdir(struct request *r)
{
	return remove_name(r, AT_REMOVEDIR);
}

/* dir/name was moved there from `from`. The kernel of the daemon keeps a name for as long as it may
 * where it was, wherever it is now. */
static void moved(const struct pin *from, const struct pin *dir, const char *name)
{
	if (watch_sees(from) && !watch_sees(dir))
		told_own_move(dir, name);
}

int files_rename(struct request *r)
{
	uint64_t parent = wire_get_u64(&r->in);
	cleanup_free char *name = proto_get_name(&r->in);
	uint64_t newparent = wire_get_u64(&r->in);
	cleanup_free char *newname = proto_get_name(&r->in);
	uint32_t flags = wire_get_u32(&r->in);
	auto_unpin struct pin from = PIN_NONE;
	auto_unpin struct pin to = PIN_NONE;
	int ret;

	if (!wire_end(&r->in) || flags & ~(PROTO_RENAME_NOREPLACE | PROTO_RENAME_EXCHANGE))
		return bad_request(r);
	ret = pin_open(r->session, parent, &from);
	if (!ret)
		ret = pin_open(r->session, newparent, &to);
	if (!ret)
		watch_dir(&to);
	if (!ret)
		ret = files_act(r);
	if (ret < 0)
		return ret;
	/* The protocol's two flags are the kernel's. */
	if (sys_renameat2(from.fd, name, to.fd, newname, flags) < 0)
		return -errno;
	watch_expect_removed(&from, name, true);
	if (flags & PROTO_RENAME_EXCHANGE)
		watch_expect_removed(&to, newname, true);
	told_own_names(&from);
	told_own_names(&to);
	if (from.node != to.node || strcmp(name, newname) != 0)
		node_moved(r->session, from.node, name, to.node, newname,
			flags & PROTO_RENAME_EXCHANGE);
	moved(&from, &to, newname);
	if (flags & PROTO_RENAME_EXCHANGE)
		moved(&to, &from, name);
	watch_drain();
	return 0;
}

/* A second name for the open file that `of` is. Without /proc (or the right to link by descriptor)
 * its own name has to do, and the result is checked. */
static int link_node(const struct pin *of, int newfd, const char *newname)
{
	auto_unpin struct pin parent = PIN_NONE;
	char path[48], name[PROTO_NAME_MAX + 1];
	struct sys_statx stx;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", of->fd);
	if (linkat(AT_FDCWD, path, newfd, newname, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != ENOENT && errno != ENOTDIR)
		return -errno;
	if (linkat(of->fd, "", newfd, newname, AT_EMPTY_PATH) == 0)
		return 0;
	if (pin_parent(of, &parent) < 0)
		return -ESTALE;
	pthread_mutex_lock(&of->s->lock);
	snprintf(name, sizeof(name), "%s", of->node->name);
	pthread_mutex_unlock(&of->s->lock);
	if (linkat(parent.fd, name, newfd, newname, 0) < 0)
		return -errno;
	if (sys_statx(newfd, newname, &stx) < 0)
		return -errno;
	if (stx.ino == of->node->ino && sys_dev(&stx) == of->node->dev)
		return 0;
	unlinkat(newfd, newname, 0);
	return -ESTALE;
}

int files_link(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t newparent = wire_get_u64(&r->in);
	cleanup_free char *newname = proto_get_name(&r->in);
	auto_unpin struct pin of = PIN_NONE;
	auto_unpin struct pin to = PIN_NONE;
	struct sys_statx stx;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = pin_open(r->session, num, &of);
	if (!ret)
		ret = pin_open(r->session, newparent, &to);
	if (!ret)
		ret = files_act(r);
	if (!ret)
		ret = link_node(&of, to.fd, newname);
	if (ret < 0)
		return ret;
	told_own_names(&to);
	told_own_link(&of);
	if (sys_statx(of.fd, "", &stx) < 0)
		return -errno;
	files_tell(r, num, &stx);
	return 0;
}

int files_statfs(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	auto_unpin struct pin pin = PIN_NONE;
	struct statfs st;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = pin_open(r->session, num, &pin);
	if (!ret)
		ret = files_act(r);
	if (ret < 0)
		return ret;
	if (fstatfs(pin.fd, &st) < 0)
		return -errno;
	proto_put_statfs(&r->out, &(struct proto_statfs){.blocks = st.f_blocks,
					  .bfree = st.f_bfree,
					  .bavail = st.f_bavail,
					  .files = st.f_files,
					  .ffree = st.f_ffree,
					  .bsize = (uint32_t)st.f_bsize,
					  .frsize = (uint32_t)st.f_frsize,
					  .namelen = (uint32_t)st.f_namelen});
	return 0;
}
