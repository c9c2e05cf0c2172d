/* SPDX-License-Identifier: MIT */
/*
 * What a template makes of a sandbox before it serves: one file, written by the daemon onto the
 * state volume, read by the agent. docs/setup.md. A head, records in this order of kinds, END.
 * Strings are wire_str; "" is "the usual" where nothing else is said.
 */
#pragma once

#include <stdint.h>

#define SETUP_NAME    "setup"	   /* in the state directory */
#define SETUP_DONE    "setup.done" /* what later starts need, and that there was a first */
#define SETUP_MAGIC   0x73786273u  /* "sbxs" */
#define SETUP_VERSION 1u
#define SETUP_MAX     (256u << 20)
#define SETUP_ITEMS   4096u /* arguments, variables, groups of one record */
#define SETUP_ARG_MAX 131072u
#define SETUP_ID_NONE UINT32_MAX

/* u32 magic, u32 version, then records: u8 kind, fields. */
enum setup_kind {
	SETUP_END = 0,
	SETUP_GROUP = 1,      /* name, u32 gid (NONE: a free one) */
	SETUP_USER = 2,	      /* name, u32 uid, u32 gid, home, shell, u32 n, n * group */
	SETUP_DIR = 3,	      /* path, owner ("": root), u32 mode */
	SETUP_FILE = 4,	      /* path, owner, u32 mode, bytes */
	SETUP_LINK = 5,	      /* path, owner, target */
	SETUP_SET = 6,	      /* u8 PROTO_SET_*, value: of ctl/ */
	SETUP_LIMIT = 7,      /* u64: cap of a stream */
	SETUP_POST_START = 8, /* user, cwd, u32 n, n * argument, u32 n, n * KEY=VALUE */
	SETUP_PRE_STOP = 9,   /* the same */
};
