/* SPDX-License-Identifier: MIT */
/*
 * Per-thread file rights: fsuid, fsgid, supplementary groups, by raw system calls (the C libraries
 * would change all threads). With fsuid 0 the kernel gives the file capabilities back that it took
 * with any other fsuid. What a thread has is cached in a thread-local.
 */
#include "agent/creds.h"

#include "agent/sys.h"
#include "common/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static struct user known;	  /* constant after creds_init() */
static uint32_t own_uid, own_gid; /* constant after creds_init() */

static _Thread_local struct {
	bool changed; /* false: as at the thread's start, the agent's own */
	uint32_t uid, gid;
	size_t n_groups;
	gid_t groups[PROTO_GROUPS_MAX];
} now;

void creds_init(const struct user *user)
{
	known = *user;
	own_uid = geteuid();
	own_gid = getegid();
}

static int refused(uint32_t uid, uint32_t gid, struct err *err)
{
	return err_set(
		err, EPERM, "the agent may not act as %u:%u: it lacks SETUID or SETGID", uid, gid);
}

static bool same_groups(const gid_t *groups, size_t n)
{
	return n == now.n_groups && (!n || memcmp(groups, now.groups, n * sizeof(*groups)) == 0);
}

int creds_become(uint32_t uid, uint32_t gid, const gid_t *groups, size_t n_groups, struct err *err)
{
	if (!n_groups && uid == known.uid) {
		groups = known.groups;
		n_groups = known.n_groups;
	}
	if (!now.changed) {
		now.uid = own_uid;
		now.gid = own_gid;
		/* The groups that the agent was started with are not ours to act with. */
		if (own_uid == 0 && sys_setgroups(0, NULL) < 0 && uid)
			return refused(uid, gid, err);
		now.changed = true;
	}
	if (uid == now.uid && gid == now.gid && same_groups(groups, n_groups))
		return 0;
	if (!same_groups(groups, n_groups)) {
		if (sys_setgroups(n_groups, groups) < 0)
			return refused(uid, gid, err);
		if (n_groups)
			memcpy(now.groups, groups, n_groups * sizeof(*groups));
		now.n_groups = n_groups;
	}
	if (gid != now.gid) {
		if (sys_setfsgid(gid) < 0)
			return refused(uid, gid, err);
		now.gid = gid;
	}
	if (uid != now.uid) {
		if (sys_setfsuid(uid) < 0)
			return refused(uid, gid, err);
		now.uid = uid;
	}
	return 0;
}

void creds_own(void)
{
	creds_become(own_uid, own_gid, NULL, 0, NULL);
}
