/* SPDX-License-Identifier: MIT */
/* DATA/roots: what sandboxes stand on. */
#pragma once

#include "bwrap/bwrap.h"

/* No root goes while this descriptor is open. */
int roots_hold(const struct bwrap *b, struct err *err);

/* A new directory to fill, its path in dir; whoever has the descriptor is its maker. Then it is put
 * in its place (archive: what it was made from; NULL: this machine's system), or dropped. */
int roots_new(const struct bwrap *b, char *dir, size_t size, struct err *err);
int roots_put(const struct bwrap *b, const char *dir, const char *key, const char *archive,
	struct err *err);
void roots_drop(const struct bwrap *b, const char *dir);

/* Removes what a daemon that died left half made; old: and roots that no sandbox is on and none
 * will be. */
void roots_sweep(const struct bwrap *b, bool old);
