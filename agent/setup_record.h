/* SPDX-License-Identifier: MIT */
/* One record of the setup file: common/setup_file.h. */
#pragma once

#include "common/wire.h"

struct setup_record {
	uint8_t kind;	      /* enum setup_kind */
	char *name;	      /* GROUP, USER: the name; DIR, FILE, LINK: the path; SET: the value */
	char *owner;	      /* DIR, FILE, LINK; hooks: the user */
	char *home, *shell;   /* USER; LINK: home is the target; hooks: home is the directory */
	char **list, **env;   /* USER: groups; hooks: arguments and variables; NULL-terminated */
	uint32_t id, gid;     /* GROUP, USER: ids; DIR, FILE: id is the mode; SET: which */
	uint64_t limit;	      /* LIMIT */
	const uint8_t *bytes; /* FILE: points into the file */
	size_t n_bytes;
	const uint8_t *raw; /* the whole record, likewise */
	size_t n_raw;
};

/* Reads the next; -EINVAL: this is none, -ENOMEM. END is one too. */
int setup_record_next(struct wire_in *in, struct setup_record *r);
void setup_record_fini(struct setup_record *r);
