/* SPDX-License-Identifier: MIT */
/* What makes a link text safe for the host, said a second time and more simply than fs/symlink.c.
 */
#pragma once

#include "fs/symlink.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Relative; `..` only at its start; not above the tree, or else down into this sandbox's rootfs. */
static inline bool safe_link(const struct link_place *at, const char *text)
{
	unsigned ups = 0, least = at->sure ? at->depth : at->least;
	unsigned top = at->tree == TREE_WORKSPACE ? at->depth + 2 : at->depth;
	bool names = false;
	char want[512];
	const char *p = text, *rest = NULL;

	if (text[0] == '/')
		return false;
	while (*p) {
		size_t n = strcspn(p, "/");

		if (n == 2 && memcmp(p, "..", 2) == 0) {
			if (names)
				return false;
			ups++;
		} else if (n && !(n == 1 && *p == '.')) {
			rest = rest ? rest : p;
			names = true;
		}
		p += n;
		p += *p == '/';
	}
	if (ups <= least)
		return true;
	snprintf(want, sizeof(want), ".sandboxfs/rootfs/%s", at->sandbox);
	return at->sure && ups == top && rest && strncmp(rest, want, strlen(want)) == 0 &&
	       (rest[strlen(want)] == 0 || rest[strlen(want)] == '/');
}
