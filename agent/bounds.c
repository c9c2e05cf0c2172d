/* SPDX-License-Identifier: MIT */
/*
 * For engines that start the agent with its capabilities but leave the bounding set, from which a
 * program of root's takes them, as it was. The main thread, before there are others.
 */
#include "agent/bounds.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAP_VERSION 0x20080522 /* linux/capability.h, which musl does not bring */

struct cap_head {
	uint32_t version;
	int pid;
};

struct cap_part {
	uint32_t effective, permitted, inheritable;
};

static int drop_bounds(uint64_t keep)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		int in = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

		if (in < 0)
			break; /* this kernel's last */
		if (in && !(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	}
	return 0;
}

static int drop_own(uint64_t keep)
{
	struct cap_head head = {.version = CAP_VERSION};
	struct cap_part part[2];

	if (syscall(SYS_capget, &head, part) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		part[i].permitted &= (uint32_t)(keep >> 32 * i);
		part[i].effective = part[i].permitted;
		part[i].inheritable = 0;
	}
	/* Before kernel 4.3 there was no ambient set. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &head, part) < 0 ? -errno : 0;
}

int bounds_keep(const char *list, struct err *err)
{
	char *end;
	uint64_t keep = strtoull(list, &end, 16);
	int ret;

	if (!*list || *end)
		return err_set(err, EINVAL, "--caps %.40s: not a number in hexadecimal", list);
	ret = drop_bounds(keep);
	if (!ret)
		ret = drop_own(keep);
	return ret ? err_set(err, -ret, "the agent cannot give up its capabilities: %s",
			     strerror(-ret))
		   : 0;
}
