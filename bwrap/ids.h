/* SPDX-License-Identifier: MIT */
/*
 * The user namespace of embedded sandboxes, for the launcher: root inside is nobody outside. One
 * thread, before anything else is started.
 */
#pragma once

#include "common/err.h"

/* Where root's sandboxes have their ids: 0 inside is this one outside, and so on for IDS_COUNT. No
 * distribution gives these to users, and systemd's own containers stay below. */
#define IDS_BASE  1893728256u
#define IDS_COUNT 65536u

/* Enters a new user namespace, as root inside. *count: how many ids it has; 1 where the machine
 * grants an ordinary user no more. -EPERM: forbidden here, in words. */
int ids_enter(unsigned *count, struct err *err);
/* In such a one of `count` ids: enters one more with the same ids. The kernel holds all in it
 * together, whatever ids they take, to so many processes (0: no limit), the limit that its maker
 * had, and to a share of the inotify instances and watches that the host grants a user; and of
 * mounts that were made before nobody in it can change the flags. */
int ids_enclose(unsigned count, unsigned long processes, struct err *err);
/* Forbids further ones: whoever could make one would have all capabilities in it. */
int ids_close(struct err *err);
