/* SPDX-License-Identifier: MIT */
/*
 * Container names. A label cannot change once the container is made; a name can, in one step, and
 * no two containers have the same. So whatever every daemon must know and what changes stands in
 * the name: the sandbox's directory name, and what the user last asked for (the mark).
 *
 *     sandboxfs-NAMESPACE-DIRNAME[MARK]
 *
 * Engines allow [a-zA-Z0-9][a-zA-Z0-9_.-]*, so '_' is our escape: "__" is '_', "_a" is '@', "_c" is
 * ':', and in the namespace "_d" is '-', so that the first '-' behind it ends it. A mark is "_p"
 * (paused), "_s" (stopped) or "_i" (either, for idleness) at the end; a container that is to be
 * removed is called "_x" and its id, which frees its name at once. The decoder is strict: what it
 * does not take is not ours.
 */
#pragma once

#include "sandbox/engine.h"

#define NAME_PREFIX "sandboxfs-"

/* A new string in *name. id is used for ENGINE_MARK_REMOVING only, dirname for the others.
 * -EINVAL: it cannot be a sandbox's name. */
int name_encode(const char *namespace, const char *dirname, enum engine_mark mark, const char *id,
	char **name);

/* The opposite; -EINVAL if it is not a name of that namespace. *dirname is a new string, "" for one
 * that is to be removed. */
int name_decode(const char *name, const char *namespace, char **dirname, enum engine_mark *mark);

/* A container's or exec's id as engines give it: 12 to 64 lower-case hex digits. */
bool name_is_id(const char *s);
