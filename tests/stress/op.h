/*
 * One operation on the tree under test, and what must come of it. Operations are made by the model
 * (tree.h, pick.h) in the driver, and performed by act.h: there, or in the sandbox, to which they
 * travel as text.
 *
 * Paths name no bytes but numbers of the table of names, "a/3/7": a, b and h are directories that
 * are always there, the rest are indices. The host leaves h alone: what happens there it cannot
 * know.
 */
#ifndef STRESS_OP_H
#define STRESS_OP_H

#include <stddef.h>
#include <stdint.h>

enum op_kind {
	/* those that only look */
	OP_STAT,
	OP_READ,
	OP_LIST,
	OP_READLINK,
	OP_GETX,
	OP_LISTX,
	OP_HREAD, /* H...: by a descriptor that the host has kept since an OP_HOLD */
	OP_HMAP,
	OP_HSTAT,
	/* those that change something */
	OP_CREATE,
	OP_WRITE,
	OP_MSTORE,
	OP_TRUNC,
	OP_RENAME,
	OP_LINK,
	OP_UNLINK,
	OP_ORPHAN,
	OP_MKDIR,
	OP_RMDIR,
	OP_SYMLINK,
	OP_CHMOD,
	OP_UTIMENS,
	OP_SETX,
	OP_REMX,
	OP_FALLOC,
	OP_COPY,
	OP_HWRITE,
	/* neither */
	OP_HOLD,
	OP_DROP,
	OP_SNAP, /* prints a file's times */
	OP_KINDS
};
#define OP_FIRST_CHANGE OP_CREATE
#define OP_LAST_CHANGE	OP_HWRITE

enum {
	OP_NAMES = 16,	 /* in the table */
	OP_DEPTH = 5,	 /* components of a path, at most, and one that is too deep */
	OP_PATH = 32,	 /* bytes of a path of numbers */
	OP_SLOTS = 6,	 /* descriptors that the host keeps */
	OP_XATTRS = 4,	 /* user.x0 .. user.x3 */
	OP_MAP = 262144, /* bytes of a kept mapping */
};

/* flags of OP_WRITE */
enum { W_APPEND = 1, W_TRUNC = 2, W_SYNC = 4, W_DIRECT = 8 };
/* flags of OP_READ: how */
enum { R_PREAD, R_READ, R_MMAP, R_DIRECT, R_METHODS };

struct op {
	enum op_kind kind;
	char path[OP_PATH], path2[OP_PATH];
	int64_t off, off2, len;
	uint32_t seed;
	int mode, flags, slot;

	/* what must come of it */
	int err;		 /* errno, or 0 */
	int64_t count;		 /* bytes read or copied; a file's size */
	uint64_t hash;		 /* of the bytes */
	char type;		 /* f, d, l; 0 where not known */
	int nlink;		 /* 0: not known */
	int64_t mtime, ctime;	 /* ns; -1: not known */
	uint64_t ino;		 /* host only; 0: not known */
	char list[OP_NAMES + 1]; /* OP_LIST: for each name its type, or - */
	uint64_t inos[OP_NAMES];

	/* what came, for the model to learn from */
	uint64_t got_ino;
	int64_t got_mtime, got_ctime;
};

void op_init(struct op *op, enum op_kind kind, const char *path);
int op_changes(const struct op *op);
const char *op_kind_name(enum op_kind kind);
/* The name with this number, of any bytes. */
const char *op_name(int index);
/* The number of a name, or -1. */
int op_name_index(const char *name);
/* Is every byte of the names in PATH one that a shell leaves alone? */
int op_plain(const char *path);
/* From a path of numbers to one of names; OUT has room for PATH_MAX bytes. */
void op_real(const char *path, char *out);

/* As text, without blanks at the ends; LEN should be 512. */
void op_print(const struct op *op, char *text, size_t len);
/* 0 or -EINVAL */
int op_parse(struct op *op, const char *text);

#endif
