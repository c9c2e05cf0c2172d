/* SPDX-License-Identifier: MIT */
/* The mountpoint from outside: none of these looks into the mount as its user does. */
#pragma once

#define MOUNTPOINT_DEVICE 32

/* Makes way for a mount: what a daemon that died left behind is detached. -errno; -ETIMEDOUT: there
 * is a mount in which nobody answers. */
int mountpoint_clear(const char *path);

/* The device of what is mounted there, "MAJOR:MINOR"; "" for nothing of ours. */
void mountpoint_device(const char *path, char device[MOUNTPOINT_DEVICE]);

/* Ends the connection of our mount there, so that whoever waits in it leaves the kernel, and
 * detaches it. Where that is not allowed, nothing happens. */
void mountpoint_abort(const char *path, const char *device);
