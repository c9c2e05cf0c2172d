/* SPDX-License-Identifier: MIT */
/*
 * The protocol between the daemon and the agent: numbers, limits, structs. docs/protocol.md is the
 * prose; this header is the truth for both ends and for the fuzzers. Encoding: common/wire.h.
 */
#pragma once

#include "common/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define PROTO_MAGIC	    0x31786273u /* "sbx1" */
#define PROTO_VERSION	    4		/* what this tree speaks */
#define PROTO_VERSION_MIN   3		/* the oldest that it still understands */
#define PROTO_VERSION_BRIEF 4		/* from here on there is PROTO_CACHE_BRIEF */

/* Frame head, 24 bytes: u32 len (of the body), u16 type, u16 error, u64 id, u32 uid, u32 gid. In a
 * request `error` is the number of supplementary groups (u32 each) that the body begins with; in a
 * reply uid and gid are the low and high half of `seq`: how many changes were recorded for this
 * session when it was answered (see CHANGES). */
#define PROTO_HEAD	 24u
#define PROTO_MAX_DATA	 (1u << 20)		   /* file or output bytes in one message */
#define PROTO_MAX_BODY	 (PROTO_MAX_DATA + 16384u) /* anything longer ends the connection */
#define PROTO_NAME_MAX	 255u
#define PROTO_PATH_MAX	 4096u
#define PROTO_TEXT_MAX	 4096u	/* commands shown, messages */
#define PROTO_CONFIG_MAX 65536u /* a setting's value */
#define PROTO_SESSION	 16u
#define PROTO_INFLIGHT	 4096u	/* requests a peer may have outstanding; more ends the connection */
#define PROTO_GROUPS_MAX 4000u	/* supplementary groups in a request: they fit beside MAX_DATA */
#define PROTO_XATTR_MAX	 65536u /* an extended attribute's value, or the list of names */
#define PROTO_PORT_DATA	 262144u /* bytes of a forwarded connection in one message */
#define PROTO_PORTS_MAX	 1024u	 /* forwarded connections of all daemons, and ... */
#define PROTO_PORT_QUEUE 4u	 /* ... reads, and writes, that may wait at each */

/* The mode of a new file is Linux's. So many bits above it are the permissions that the caller's
 * umask took: they are given back where the directory has a default access list. */
#define PROTO_MODE_MASKED 16

#define PROTO_REPLY 0x8000u /* type of a reply = type of its request | PROTO_REPLY */

/* Node 1 is the sandbox's "/", node 2 its workspace; the daemon names all others from 16 on. */
enum { PROTO_NODE_ROOT = 1, PROTO_NODE_WORKSPACE = 2, PROTO_NODE_FIRST = 16 };

/* The body of each request, then of its reply. `name` is bytes without '/' and NUL, 1..255, not
 * "." or "..". `node`, `new`, `fh` are u64. Messages marked ! are one-way: id 0, no reply. */
enum proto_type {
	PROTO_HELLO = 1,  /* u32 magic, u32 version, u32 min, 16B session
			     -> struct proto_hello */
	PROTO_PING = 2,	  /* -> */
	PROTO_CANCEL = 3, /* ! u64 id: answer it now with EINTR if it waits; else nothing */

	PROTO_LOOKUP = 16,   /* parent, name, new -> attr. Mode 0 in it: there is no such name, and
				that may be remembered (cache says so); else ENOENT */
	PROTO_FORGET = 17,   /* ! u32 n, n * node */
	PROTO_GETATTR = 18,  /* node, fh (0: none) -> attr */
	PROTO_SETATTR = 19,  /* node, fh (0: none), struct proto_setattr -> attr */
	PROTO_READLINK = 20, /* node -> bytes target */
	PROTO_SYMLINK = 21,  /* parent, name, new, bytes target -> attr */
	PROTO_MKNOD = 22,    /* parent, name, new, u32 mode -> attr (regular, FIFO, socket) */
	PROTO_MKDIR = 23,    /* parent, name, new, u32 mode -> attr */
	PROTO_UNLINK = 24,   /* parent, name -> */
	PROTO_RMDIR = 25,    /* parent, name -> */
	PROTO_RENAME = 26,   /* parent, name, newparent, newname, u32 flags -> */
	PROTO_LINK = 27,     /* node, newparent, newname -> attr */
	PROTO_OPEN = 28,     /* node, fh, u32 PROTO_O_* -> u32 PROTO_OPENED_* */
	PROTO_CREATE = 29,   /* parent, name, new, fh, u32 PROTO_O_*, u32 mode -> attr */
	PROTO_READ = 30,     /* fh, u64 offset, u32 size -> bytes */
	PROTO_WRITE = 31,    /* fh, u64 offset, bytes -> u32 written */
	PROTO_FSYNC = 32,    /* fh, u8 data_only -> */
	PROTO_CLOSE = 33,    /* ! fh */
	PROTO_OPENDIR = 34,  /* node, fh -> */
	PROTO_READDIR = 35,  /* fh, u64 offset (0: start), u32 size, u64 new, u32 n_new
				-> struct proto_dirent ..., until the body ends. n_new 0: names only;
				else entry i that carries an attr is node new + i */
	PROTO_STATFS = 36,   /* node -> struct proto_statfs */
	PROTO_ACCESS = 37,   /* node, u32 mask (4 read, 2 write, 1 execute) -> : may the caller? */
	PROTO_GETXATTR = 38, /* node, bytes name -> bytes value */
	PROTO_SETXATTR = 39, /* node, bytes name, bytes value, u32 flags (1 create, 2 replace) -> */
	PROTO_LISTXATTR = 40,	/* node -> bytes: names, each with its NUL */
	PROTO_REMOVEXATTR = 41, /* node, bytes name -> */
	PROTO_FALLOCATE = 42,	/* fh, u32 mode (Linux's FALLOC_FL_*), u64 offset, u64 length -> */
	PROTO_LSEEK = 43,	/* fh, u64 offset, u32 whence (3 data, 4 hole) -> u64 offset */
	PROTO_COPY = 44,	/* fh, u64 offset, fh to, u64 offset, u64 length -> u64 copied */
	PROTO_WRITE_AS = 45,	/* fh, u64 offset, u8 append, bytes -> u32 written: at the end or at
				   the offset, however it was opened */

	/* Byte-range locks belong to (node of fh, owner), flocks to fh. A lock that waits is
	 * answered when it is granted, or EINTR after CANCEL. */
	PROTO_LOCK = 48,      /* fh, u64 owner, struct proto_lock, u8 wait -> ; EAGAIN: taken */
	PROTO_LOCK_TEST = 49, /* fh, u64 owner, struct proto_lock -> struct proto_lock: who is in
				 the way; PROTO_LOCK_NONE: nobody */
	PROTO_LOCK_DROP = 50, /* fh, u64 owner -> : all ranges of that owner on fh's file */
	PROTO_FLOCK = 51,     /* fh, u32 PROTO_LOCK_*, u8 wait -> */

	PROTO_CHANGES = 56, /* u64 seq -> struct proto_change ..., until the body ends: what the
			       daemon was told and is so no longer, after those that it has
			       dealt with. Waits until there is one */

	/* Jobs: docs/jobs.md. `job` is u64; 0 stands for ctl/ itself where that makes sense. */
	PROTO_JOB_OPEN = 64,  /* job -> u64 job: its text is about to be written, and is empty now.
				 0: makes a foreground job; EBUSY while one is open or runs.
				 Else a named one; EBUSY if it was started */
	PROTO_JOB_WRITE = 65, /* job, u64 offset, bytes -> : the command's text, any size */
	PROTO_JOB_START = 66, /* job, u8 PROTO_START_* -> u32 pid */
	PROTO_JOB_WAIT = 67,  /* job, u8 patience -> struct proto_job at its end, or, with patience
				 1, when its max_wait is over: it then is no foreground job any
				 more. CANCEL ends the wait */
	PROTO_JOB_INFO = 68,  /* job (0: newest foreground; ENOENT: none) -> struct proto_job */
	PROTO_JOB_READ = 69,  /* job, u8 PROTO_STREAM_*, u64 offset, u32 size -> bytes */
	PROTO_JOB_KILL = 70,  /* job, u32 signal -> : the whole tree at once; ESRCH: none is left */
	PROTO_JOB_DROP = 71,  /* job -> : kills what is left of it and forgets it */
	PROTO_JOB_MAKE = 72,  /* name -> u64 job: a named one. EEXIST; ENOSPC: too many */
	PROTO_JOB_FIND = 73,  /* name ("7", "build", "main", "last") -> struct proto_job */
	PROTO_JOB_LIST = 74,  /* -> { u64 job, name } ..., until the body ends; oldest first */
	PROTO_JOB_GET = 75,   /* job, u8 PROTO_SET_* -> bytes: the setting as a file shows it */
	PROTO_JOB_SET = 76,   /* job, u8 PROTO_SET_*, bytes -> : as written to the file; empty: the
				 default. EINVAL ... with words; EBUSY once it was started (a
				 terminal's size may change) */
	PROTO_JOB_STDIN = 77, /* job, u64 offset, u8 PROTO_STDIN_*, bytes -> u32 taken. Waits while
				 a live one is full; EPIPE: it has ended */
	PROTO_PS = 78,	      /* -> bytes: the text of ctl/ps */
	PROTO_STATS = 79,     /* -> bytes: the text of ctl/stats */
	PROTO_JOB_MORE = 80,  /* job, u8 PROTO_STREAM_*, u64 offset -> struct proto_job when that
				 stream is longer than this, or the job has ended */

	/* Connections to a port inside. `port` is u64, a number of the daemon's choice: it belongs
	 * to this connection of the daemon's and ends with it. */
	PROTO_PORT_OPEN = 96,	/* port, u16 number -> : a TCP connection to 127.0.0.1, then ::1 */
	PROTO_PORT_READ = 97,	/* port, u32 size -> bytes: waits for some; none: the end. Those of
				   one port are answered in order */
	PROTO_PORT_WRITE = 98,	/* port, bytes -> : answered when all were taken */
	PROTO_PORT_SHUT = 99,	/* port -> : no more will be written; after what was */
	PROTO_PORT_CLOSE = 100, /* ! port. Without a SHUT before it is a reset */

	/* 101..103 more for ports. */

	/* Setup and idleness: docs/setup.md. */
	PROTO_SETUP = 104, /* -> struct proto_setup, when the setup of this start has ended */
	PROTO_IDLE = 105,  /* u64 ms -> : when nobody has used the sandbox for so long. CANCEL ends
			      the wait */
};

enum { PROTO_START_SCRIPT = 0, PROTO_START_ARGV = 1 /* the text is NUL-separated arguments */ };
enum {
	PROTO_STDIN_TRUNCATE = 1, /* first forget what was written before the start */
	PROTO_STDIN_END = 2,	  /* then close a live one (a terminal gets its end-of-file key) */
};

/* Settings, of ctl/ (job 0) and of each job. Values are text as in the files, without the last
 * newline. */
enum proto_set {
	PROTO_SET_TIMEOUT = 1,	/* seconds, may have decimals; 0: none */
	PROTO_SET_MAX_WAIT = 2, /* the same */
	PROTO_SET_USER = 3,	/* "name", "uid", "name:group", "uid:gid" */
	PROTO_SET_CWD = 4,	/* an absolute path of a directory */
	PROTO_SET_ENV = 5,	/* lines: KEY=VALUE adds, KEY unsets */
	PROTO_SET_SHELL = 6,	/* an argument a line */
	PROTO_SET_TTY = 7,	/* "none", "pipe", "80x24"; not of job 0 */
	PROTO_SETS
};

enum proto_stream {
	PROTO_STREAM_STDOUT = 0,
	PROTO_STREAM_STDERR = 1,
	PROTO_STREAM_OUTPUT = 2, /* both, in the order in which they were written */
	PROTO_STREAMS = 3,
	PROTO_STREAM_COMMAND = 3, /* the text itself */
	PROTO_STREAM_STDIN = 4,	  /* what was written before the start */
};

enum proto_result {
	PROTO_RESULT_NEW = 0,
	PROTO_RESULT_RUNNING,
	PROTO_RESULT_SUCCESS,
	PROTO_RESULT_EXIT_CODE,
	PROTO_RESULT_SIGNAL,
	PROTO_RESULT_TIMEOUT,
	PROTO_RESULT_OOM_KILL,
	PROTO_RESULT_START_FAILED,
	PROTO_RESULT_LOST,
	PROTO_RESULTS
};

/* Open flags, the same on every architecture. */
enum {
	PROTO_O_READ = 1,
	PROTO_O_WRITE = 2,
	PROTO_O_APPEND = 4,
	PROTO_O_TRUNC = 8,
	PROTO_O_EXCL = 16,
	PROTO_O_SYNC = 32,
	PROTO_O_DSYNC = 64,
	PROTO_O_DIRECT = 128,
	PROTO_O_ALL = 255
};

/* What an OPEN found. */
enum {
	PROTO_OPENED_KEEP = 1, /* the bytes are those that the attributes last told go with */
};

/* What of an attr may be believed until CHANGES says otherwise. */
enum {
	PROTO_CACHE_NAME = 1,  /* that this name means this file (or none) */
	PROTO_CACHE_ATTR = 2,  /* the attributes */
	PROTO_CACHE_ALL = 3,   /* both */
	PROTO_CACHE_BRIEF = 4, /* the attributes, for some milliseconds: CHANGES tells of them only
				  at a barrier */
	PROTO_CACHE_BITS = 7
};

enum { PROTO_LOCK_READ = 0, PROTO_LOCK_WRITE = 1, PROTO_LOCK_NONE = 2 };

enum proto_change_kind {
	PROTO_CHANGE_ATTR = 1, /* node: its attributes */
	PROTO_CHANGE_DATA = 2, /* node: its attributes and bytes */
	PROTO_CHANGE_NAME = 3, /* node, name: what that name means in that directory */
	PROTO_CHANGE_ALL = 4,  /* everything */
	PROTO_CHANGE_SIZE = 5, /* node, name: the same file still, but who opens it by that name
				  must ask for its attributes first */
};

enum { PROTO_RENAME_NOREPLACE = 1, PROTO_RENAME_EXCHANGE = 2 };

enum {
	PROTO_SET_ATTR_MODE = 1,
	PROTO_SET_ATTR_UID = 2,
	PROTO_SET_ATTR_GID = 4,
	PROTO_SET_ATTR_SIZE = 8,
	PROTO_SET_ATTR_ATIME = 16,
	PROTO_SET_ATTR_MTIME = 32,
	PROTO_SET_ATTR_ATIME_NOW = 64,
	PROTO_SET_ATTR_MTIME_NOW = 128,
	PROTO_SET_ATTR_ALL = 255
};

struct proto_head {
	uint32_t len;
	uint16_t type;
	uint16_t error; /* replies: 0 or a positive errno, and then the body is empty or words;
			   requests: how many groups the body begins with */
	uint64_t id;
	uint32_t uid; /* requests: who acts, in the sandbox's ids; replies: see proto_seq() */
	uint32_t gid;
};

struct proto_time {
	int64_t sec;
	uint32_t nsec;
};

struct proto_attr {
	uint64_t dev, ino; /* dev 0: that of the root */
	uint32_t mode, nlink, uid, gid;
	uint64_t size, blocks;
	uint32_t blksize, rdev_major, rdev_minor;
	struct proto_time atime, mtime, ctime, btime; /* btime 0.0: not known */
	uint32_t cache;				      /* PROTO_CACHE_* */
};

struct proto_setattr {
	uint32_t mask; /* PROTO_SET_ATTR_* */
	uint32_t mode, uid, gid;
	uint64_t size;
	struct proto_time atime, mtime;
};

struct proto_lock {
	uint32_t type;	     /* PROTO_LOCK_* */
	uint64_t start, end; /* first and last byte; INT64_MAX: to the end of the file */
	uint32_t pid;	     /* who holds it, in the sandbox; 0: not known, and in requests */
};

struct proto_change {
	uint8_t kind;	     /* enum proto_change_kind */
	uint64_t node;	     /* 0 for ALL */
	const uint8_t *name; /* points into the message; NULL but for NAME and SIZE */
	size_t name_len;
};

struct proto_statfs {
	uint64_t blocks, bfree, bavail, files, ffree;
	uint32_t bsize, frsize, namelen;
};

struct proto_dirent {
	uint64_t ino, next;  /* next: the offset that continues after this entry */
	uint32_t type;	     /* S_IFMT bits, 0 unknown */
	const uint8_t *name; /* points into the message */
	size_t name_len;
	bool has_attr;
	struct proto_attr attr;
};

struct proto_hello {
	uint32_t version;  /* the one that both will use */
	bool resumed;	   /* the session was known: its nodes and handles are still there */
	uint32_t uid, gid; /* the sandbox's user */
	char *agent;	   /* version text of the agent; owned */
	char *workspace;   /* its absolute path inside; owned */
	char *trouble;	   /* words: why the sandbox cannot serve ("" if it can); owned */
};

/* Foreground jobs count from 1; the template's own command; named ones count from the last. */
#define PROTO_JOB_MAIN	(1ull << 32)
#define PROTO_JOB_NAMED (1ull << 33)

struct proto_job {
	uint64_t job;
	uint8_t result;	   /* enum proto_result */
	int32_t exit_code; /* -1: not known */
	uint32_t pid;
	uint64_t wall_us, user_us, system_us, peak_kib;
	uint64_t size[PROTO_STREAMS];
	uint64_t hole_from[PROTO_STREAMS], hole_to[PROTO_STREAMS]; /* what the cap dropped */
	uint64_t command_size, stdin_size;
	char *name;    /* of its directory: "7", "build", "main"; owned */
	char *command; /* its first bytes, at most PROTO_TEXT_MAX; NULs are spaces; owned */
	char *words;   /* why it could not start, or ""; owned */
};

enum { PROTO_SETUP_FINE = 0, PROTO_SETUP_FAILED = 1, PROTO_SETUP_HOOK_FAILED = 2 };

struct proto_setup {
	uint8_t result;	   /* PROTO_SETUP_* */
	uint32_t hooks;	   /* how many of post_start ran since the agent started */
	int32_t exit_code; /* of the one that failed */
	char *words;	   /* what failed, ""; at most PROTO_TEXT_MAX; owned */
	char *output;	   /* the end of what it printed; the same */
};

/* A frame: begin writes a head, end puts the length into it (-E2BIG past PROTO_MAX_BODY). */
size_t proto_begin(
	struct buf *b, uint16_t type, uint16_t error, uint64_t id, uint32_t uid, uint32_t gid);
int proto_end(struct buf *b, size_t begun);

/* A reply's seq: from its head, and into a frame that has been begun. */
uint64_t proto_seq(const struct proto_head *h);
void proto_set_seq(struct buf *b, size_t begun, uint64_t seq);

/* Reads a head from at least PROTO_HEAD bytes; -EMSGSIZE if its length is beyond the limit. */
int proto_head(const uint8_t *p, struct proto_head *h);

/* A name as one path component: length, no '/', no NUL, not "." or "..". */
bool proto_name_ok(const uint8_t *p, size_t n);

/* An absolute path as it should be written: no part empty, "." or ".."; "/" alone is one. */
bool proto_path_ok(const char *path);

/* Reads a name as a new string; NULL and in->bad if it is not one. free() it. */
char *proto_get_name(struct wire_in *in);

void proto_put_attr(struct buf *b, const struct proto_attr *a);
void proto_get_attr(struct wire_in *in, struct proto_attr *a);
void proto_put_setattr(struct buf *b, const struct proto_setattr *s);
void proto_get_setattr(struct wire_in *in, struct proto_setattr *s);
void proto_put_statfs(struct buf *b, const struct proto_statfs *s);
void proto_get_statfs(struct wire_in *in, struct proto_statfs *s);
void proto_put_dirent(struct buf *b, const struct proto_dirent *d);
void proto_get_dirent(struct wire_in *in, struct proto_dirent *d);
void proto_put_lock(struct buf *b, const struct proto_lock *l);
void proto_get_lock(struct wire_in *in, struct proto_lock *l);
/* Whether a change of that kind has a name. */
bool proto_change_named(uint8_t kind);
void proto_put_change(struct buf *b, const struct proto_change *c);
void proto_get_change(struct wire_in *in, struct proto_change *c);
void proto_put_hello(struct buf *b, const struct proto_hello *h);
void proto_get_hello(struct wire_in *in, struct proto_hello *h);
void proto_hello_fini(struct proto_hello *h);
void proto_put_job(struct buf *b, const struct proto_job *j);
void proto_get_job(struct wire_in *in, struct proto_job *j);
void proto_job_fini(struct proto_job *j);
void proto_put_setup(struct buf *b, const struct proto_setup *s);
void proto_get_setup(struct wire_in *in, struct proto_setup *s);
void proto_setup_fini(struct proto_setup *s);

/* "success", "exit-code", ... */
const char *proto_result_name(uint8_t result);
