/* SPDX-License-Identifier: MIT */
/*
 * Per-thread file rights: fsuid, fsgid, supplementary groups, by raw system calls (the C libraries
 * would change all threads). With fsuid 0 the kernel gives the file capabilities back that it took
 * with any other fsuid. What a thread has is cached in a thread-local.
 */
#include "agent/creds.h"

#include "agent/rights.h"
#include "agent/sys.h"
#include "common/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define UNKNOWN SIZE_MAX

static struct user known;	  /* constant after creds_init() */
static uint32_t own_uid, own_gid; /* constant after creds_init() */
static bool has_groups;		  /* constant after creds_init(): the agent was started with some */

static _Thread_local struct {
	bool changed; /* false: as at the thread's start, the agent's own */
	uint32_t uid, gid;
	size_t n_groups; /* UNKNOWN: those that the agent was started with */
	gid_t groups[PROTO_GROUPS_MAX];
} now;

void creds_init(const struct user *user)
{
	known = *user;
	own_uid = geteuid();
	own_gid = getegid();
	has_groups = getgroups(0, NULL) != 0;
}

static int refused(const struct user *u, struct err *err)
{
	if (rights_become(u, err) < 0)
		return -EPERM;
	return err_set(err, EPERM, "the agent may not act as %u:%u: it lacks SETUID or SETGID",
		u->uid, u->gid);
}

/* As it is needed for words, and to see whether it can do without. */
static struct user user_of(uint32_t uid, uint32_t gid, const gid_t *groups, size_t n, bool asked)
{
	struct user u = {.uid = uid, .gid = gid, .asked = asked};

	for (size_t i = 0; i < n && u.n_groups < USER_GROUPS_MAX; i++)
		if (groups[i] != gid)
			u.groups[u.n_groups++] = groups[i];
	return u;
}

/* Where the kernel does not let us set groups: who needs none, and cannot use the agent's own; and
 * who the agent is itself, as rights_become() has it. */
static bool can_do_without_groups(const struct user *u)
{
	if (u->uid == own_uid && u->gid == own_gid)
		return !u->asked || !u->n_groups;
	return !u->n_groups && !has_groups;
}

static bool same_groups(const gid_t *groups, size_t n)
{
	return n == now.n_groups && (!n || memcmp(groups, now.groups, n * sizeof(*groups)) == 0);
}

static int set_groups(const gid_t *groups, size_t n, const struct user *u, struct err *err)
{
	if (sys_setgroups(n, groups) < 0)
		return can_do_without_groups(u) ? 0 : refused(u, err);
	if (n)
		memcpy(now.groups, groups, n * sizeof(*groups));
	now.n_groups = n;
	return 0;
}

static int change(
	uint32_t uid, uint32_t gid, const gid_t *groups, size_t n, bool asked, struct err *err)
{
	struct user u = user_of(uid, gid, groups, n, asked);
	int ret = same_groups(groups, n) ? 0 : set_groups(groups, n, &u, err);

	if (ret < 0)
		return ret;
	if (gid != now.gid) {
		if (sys_setfsgid(gid) < 0)
			return refused(&u, err);
		now.gid = gid;
	}
	if (uid != now.uid) {
		if (sys_setfsuid(uid) < 0)
			return refused(&u, err);
		now.uid = uid;
	}
	return 0;
}

int creds_become(uint32_t uid, uint32_t gid, const gid_t *groups, size_t n_groups, struct err *err)
{
	bool asked = n_groups;

	if (!n_groups && uid == known.uid) {
		groups = known.groups;
		n_groups = known.n_groups;
		asked = known.asked;
	}
	if (!now.changed) {
		now.uid = own_uid;
		now.gid = own_gid;
		/* The groups that the agent was started with are not ours to act with. */
		now.n_groups = UNKNOWN;
		now.changed = true;
	}
	if (uid == now.uid && gid == now.gid && same_groups(groups, n_groups))
		return 0;
	return change(uid, gid, groups, n_groups, asked, err);
}

void creds_own(void)
{
	creds_become(own_uid, own_gid, NULL, 0, NULL);
}
