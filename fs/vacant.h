/* SPDX-License-Identifier: MIT */
/*
 * mv from another file system removes what it is to replace, and then makes it anew. A control file
 * stays; but for who has just removed it, its name is free for a moment. Any thread; never blocks.
 */
#pragma once

#include "fs/scratch_store.h"

struct vacant;

struct vacant *vacant_new(void);
void vacant_free(struct vacant *v);

/* pid has removed the name there; has it; takes it, to make it anew. */
void vacant_note(struct vacant *v, const struct scratch_place *at, const char *name, int pid);
bool vacant_is(struct vacant *v, const struct scratch_place *at, const char *name, int pid);
bool vacant_take(struct vacant *v, const struct scratch_place *at, const char *name, int pid);
