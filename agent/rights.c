/* SPDX-License-Identifier: MIT */
/*
 * Asks the kernel what a change of user would be refused for, before anything is started. A process
 * without CAP_SETUID stays who it is; in a user namespace only mapped ids exist. Any thread.
 */
#include "agent/rights.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BIT_SETGID = 6, BIT_SETUID = 7 }; /* linux/capability.h, which musl does not bring */

static uint64_t own_capabilities(void)
{
	char line[128];
	uint64_t caps = UINT64_MAX; /* not known: then the attempt tells */
	FILE *f = fopen("/proc/thread-self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps;
}

/* Is the id one of this user namespace's? */
static bool is_mapped(const char *map, uint32_t id)
{
	uint64_t first, outside, n;
	bool mapped = false, any = false;
	FILE *f = fopen(map, "re");

	while (f && !mapped &&
		fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu64, &first, &outside, &n) == 3) {
		any = true;
		mapped = id >= first && id - first < n;
	}
	if (f)
		fclose(f);
	return mapped || !any;
}

/* An unprivileged user's namespace of one id has that set. */
static bool is_setgroups_denied(void)
{
	FILE *f = fopen("/proc/self/setgroups", "re");
	char word[16] = "";

	if (f && !fgets(word, sizeof(word), f))
		word[0] = 0;
	if (f)
		fclose(f);
	return strncmp(word, "deny", 4) == 0;
}

static int check_groups(const struct user *user, struct err *err)
{
	int64_t extra = user_extra_group(user);

	if (extra < 0)
		return 0;
	if (!(own_capabilities() >> BIT_SETGID & 1))
		return err_set(err, EPERM,
			"the sandbox has no capability SETGID: %u:%u cannot have its group %u",
			user->uid, user->gid, (unsigned)extra);
	if (is_setgroups_denied())
		return err_set(err, EPERM,
			"the sandbox's user namespace denies setgroups: %u:%u cannot have its "
			"group %u",
			user->uid, user->gid, (unsigned)extra);
	for (size_t i = 0; i < user->n_groups; i++)
		if (!is_mapped("/proc/self/gid_map", user->groups[i]))
			return err_set(err, EPERM,
				"the sandbox's user namespace has no group %u, which %u:%u is in",
				(unsigned)user->groups[i], user->uid, user->gid);
	return 0;
}

int rights_become(const struct user *user, struct err *err)
{
	bool same_uid = user->uid == geteuid(), same_gid = user->gid == getegid();
	uint64_t caps;

	/* Who the agent is already does without the groups of /etc/group, if it has to: root is in
	 * a dozen of them in some images, and they mean nothing where they are no ids. */
	if (same_uid && same_gid)
		return user->asked ? check_groups(user, err) : 0;
	if (geteuid() != 0)
		return err_set(err, EPERM, "the agent is not root: it cannot run as %u:%u",
			user->uid, user->gid);
	caps = own_capabilities();
	if ((!same_uid && !(caps >> BIT_SETUID & 1)) || !(caps >> BIT_SETGID & 1))
		return err_set(err, EPERM,
			"the sandbox has no capability SETUID and SETGID: it cannot run as %u:%u",
			user->uid, user->gid);
	if (!is_mapped("/proc/self/uid_map", user->uid) ||
		!is_mapped("/proc/self/gid_map", user->gid))
		return err_set(err, EPERM, "the sandbox's user namespace has no %u:%u", user->uid,
			user->gid);
	return check_groups(user, err);
}
