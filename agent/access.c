/* SPDX-License-Identifier: MIT */
/* ACCESS: the sandbox's kernel is asked, since only it knows of access lists, groups and read-only
 * mounts. Any thread. */
#include "agent/object.h"

#include "agent/files.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

/* Where a kernel or a seccomp filter does not know faccessat2: access(2) goes by the real ids, so
 * this thread, and no other, has the caller's as those meanwhile. The supplementary groups are
 * already the caller's. The file system ids follow the effective ones at each change, so they are
 * set again at the end. */
static int by_real_ids(const struct request *r, const struct object *o, int mask)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	char path[OBJECT_PATH];
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd);
	if (syscall(SYS_setresgid, r->head.gid, -1, -1) < 0 ||
		syscall(SYS_setresuid, r->head.uid, -1, -1) < 0)
		ret = -errno;
	else
		ret = access(path, mask) < 0 ? -errno : 0;
	if (syscall(SYS_setresuid, uid, -1, -1) < 0 || syscall(SYS_setresgid, gid, -1, -1) < 0 ||
		sys_setfsgid(r->head.gid) < 0 || sys_setfsuid(r->head.uid) < 0)
		return -EPERM;
	return ret;
}

int access_check(struct request *r)
{
	uint64_t node = wire_get_u64(&r->in);
	uint32_t mask = wire_get_u32(&r->in);
	auto_object struct object o = OBJECT_NONE;
	int ret;

	if (!wire_end(&r->in) || mask > (R_OK | W_OK | X_OK))
		return bad_request(r);
	ret = object_open(r, node, &o);
	if (ret < 0)
		return ret;
	/* AT_EACCESS: by the rights that this thread has now, which are the caller's. */
	if (syscall(SYS_faccessat2, o.fd, "", mask, AT_EMPTY_PATH | AT_EACCESS) == 0)
		return 0;
	if (errno != ENOSYS && errno != EPERM) /* EPERM: a filter, or an immutable file */
		return -errno;
	return by_real_ids(r, &o, (int)mask);
}
