/* SPDX-License-Identifier: MIT */
/* The capabilities that every sandbox has, and the words in which templates name them. */
#pragma once

#include <stdbool.h>

/* What the agent needs to act for the sandbox's users, and package managers to install; NULL at
 * the end. docs/templates.md has the reason for each. */
extern const char *const caps_default[];

/* All that the kernel has, by their numbers, without CAP_; NULL at the end. */
extern const char *const caps_all[];

/* Without the CAP_ that may stand before it. */
const char *caps_name(const char *s);
/* Is it in the list, however it is written? */
bool caps_in(char *const *list, const char *name);
/* Is it one of these, or ALL? */
bool caps_known(const char *s);
/* Has a sandbox this one, by its plain name, with these added and dropped? What is in both is
 * dropped; "drop ALL, add X" leaves X. */
bool caps_has(char *const *add, char *const *drop, const char *name);
