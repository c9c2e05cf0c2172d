/* SPDX-License-Identifier: MIT */
/*
 * POSIX conformance of a directory, as TAP. A test is a system call, who makes it, and the errno
 * that must come (0: it must succeed), and then what must be so:
 *
 *	const char *d = name();
 *	want(0, NOBODY, c_mkdir(d, 0755));
 *	want(EEXIST, ROOT, c_mkdir(d, 0755));
 *	is_mode(d, 0755);
 *
 * The program runs as root with umask 0, in a directory of its own; all paths are relative to it.
 * A call as somebody else is made by a child that has that identity; what root does, the program
 * does itself. One thread.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* --- who ------------------------------------------------------------------------------------ */

struct who {
	uid_t uid;
	gid_t gid;
	size_t n;
	gid_t groups[4]; /* supplementary ones */
	mode_t mask;
};

/* ID(uid, gid, extra groups...) in a table, WHO(...) in an expression. */
#define ID(u, g, ...)                                                                        \
	{                                                                                    \
		.uid = (u), .gid = (g), .n = sizeof((gid_t[]){__VA_ARGS__}) / sizeof(gid_t), \
		.groups = {                                                                  \
			__VA_ARGS__                                                          \
		}                                                                            \
	}
#define WHO(...) ((struct who)ID(__VA_ARGS__))
#define ROOT	 WHO(0, 0)
#define NOBODY	 WHO(65534, 65534) /* the user of most tests */
#define OTHER	 WHO(65533, 65533) /* somebody else */

struct who in_group(struct who w, gid_t group); /* also in that group */
struct who masked(struct who w, mode_t mask);	/* with that umask */

/* --- calls ---------------------------------------------------------------------------------- */

struct call {
	const char *name;
	const char *form;		 /* how it is shown: a, b paths; o octal; d decimal; D: y */
	int (*run)(const struct call *); /* 0 or the errno */
	const char *a, *b;
	long x, y;
	const struct timespec *times;
};

struct call c_open(const char *a, int flags, mode_t mode); /* and close */
struct call c_mkdir(const char *a, mode_t mode);
struct call c_mkfifo(const char *a, mode_t mode);
struct call c_mknod(const char *a, mode_t mode, dev_t dev);
struct call c_bind(const char *a); /* a Unix socket */
struct call c_symlink(const char *text, const char *b);
struct call c_link(const char *a, const char *b);
struct call c_rename(const char *a, const char *b);
struct call c_rename2(const char *a, const char *b, unsigned flags);
struct call c_unlink(const char *a);
struct call c_rmdir(const char *a);
struct call c_chmod(const char *a, mode_t mode);
struct call c_fchmod(const char *a, mode_t mode); /* by a descriptor, opened O_RDONLY */
struct call c_chown(const char *a, long uid, long gid);
struct call c_lchown(const char *a, long uid, long gid);
struct call c_fchown(const char *a, long uid, long gid);
struct call c_truncate(const char *a, off_t size);
struct call c_ftruncate(const char *a, off_t size);	      /* opened O_RDWR */
struct call c_fallocate(const char *a, off_t at, off_t size); /* posix_fallocate */
struct call c_punch(const char *a, off_t at, off_t size);     /* a hole, by fallocate */
struct call c_copy(
	const char *a, const char *b); /* one byte of A to B's first, by copy_file_range */
struct call c_utimens(const char *a, const struct timespec times[2], int flags);
struct call c_access(const char *a, int mode);
struct call c_eaccess(const char *a, int mode); /* faccessat with AT_EACCESS */
struct call c_stat(const char *a);
struct call c_lstat(const char *a);
struct call c_statfs(const char *a);
struct call c_readlink(const char *a);
struct call c_chdir(const char *a); /* and back */
struct call c_opendir(const char *a);
struct call c_write(const char *a); /* one byte at the end of an existing file */
struct call c_read(const char *a);  /* up to 16 bytes */
struct call c_getxattr(const char *a, const char *attr);
struct call c_setxattr(const char *a, const char *attr, int flags);
struct call c_removexattr(const char *a, const char *attr);
struct call c_listxattr(const char *a);

/* As W: the call's errno, 0 if it succeeds. */
int try_as(struct who w, const struct call *c);
/* As W: fn's result, 0..250. */
int run_as(struct who w, int (*fn)(const void *), const void *arg);

/* --- assertions ----------------------------------------------------------------------------- */

#define want(err, w, ...) want_at(__FILE__, __LINE__, err, 0, w, __VA_ARGS__)
/* Either error: POSIX leaves it open, or kernels differ. */
#define want_either(err, err2, w, ...) want_at(__FILE__, __LINE__, err, err2, w, __VA_ARGS__)
#define holds(cond, ...)	       holds_at(__FILE__, __LINE__, cond, __VA_ARGS__)
#define equals(got, right, ...)	       equals_at(__FILE__, __LINE__, got, right, __VA_ARGS__)
#define is_mode(path, mode)	       is_mode_at(__FILE__, __LINE__, path, mode)
#define is_owner(path, uid, gid)       is_owner_at(__FILE__, __LINE__, path, uid, gid)
#define is_kind(path, kind)	       is_kind_at(__FILE__, __LINE__, path, kind)
#define is_size(path, size)	       is_size_at(__FILE__, __LINE__, path, size)
#define is_links(path, n)	       is_links_at(__FILE__, __LINE__, path, n)
#define is_gone(path)		       is_gone_at(__FILE__, __LINE__, path)
#define is_same_file(a, b)	       is_same_file_at(__FILE__, __LINE__, a, b)

void want_at(const char *file, int line, int err, int err2, struct who w, struct call c);
void holds_at(const char *file, int line, bool good, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void equals_at(const char *file, int line, long long got, long long right, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* What the system calls did must not be in doubt: these end the program if they fail. */
#define must(...) must_at(__FILE__, __LINE__, __VA_ARGS__)
void must_at(const char *file, int line, struct call c);
__attribute__((noreturn, format(printf, 1, 2))) void bail(const char *fmt, ...);

/* --- kinds of files ------------------------------------------------------------------------- */

enum kind { REG, DIR_, FIFO, SOCK, LINK, CHR, BLK, KINDS };

extern const char *const kind_names[KINDS];
/* The kinds to test, in a for statement: no devices where the mount refuses them by design. */
#define each_kind(k)                            \
	enum kind k = REG;                      \
	k < (options.no_devices ? CHR : KINDS); \
	k++

void make(enum kind k, const char *path); /* as root; mode 0644, directories 0755 */
void make_for(enum kind k, const char *path, struct who owner);
void wipe(const char *path); /* whatever it is and whatever is in it; may be missing */

void is_mode_at(const char *file, int line, const char *path, mode_t mode);
void is_owner_at(const char *file, int line, const char *path, uid_t uid, gid_t gid);
void is_kind_at(const char *file, int line, const char *path, enum kind k);
void is_size_at(const char *file, int line, const char *path, off_t size);
void is_links_at(const char *file, int line, const char *path, nlink_t n);
void is_gone_at(const char *file, int line, const char *path);
void is_same_file_at(const char *file, int line, const char *a, const char *b);

/* --- names ---------------------------------------------------------------------------------- */

const char *name(void); /* one that is not used yet */
const char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *of_length(size_t n); /* one component of n bytes */

/* --- times ---------------------------------------------------------------------------------- */

struct stamp {
	const char *path;
	struct stat st;
};

struct stamp stamp(const char *path); /* lstat */
void tick(void);		      /* returns when a later change has a later time */
/* What became of a stamp's times since: 'a', 'm', 'c' must be later, 'A', 'M', 'C' the same. */
#define times(s, letters) times_at(__FILE__, __LINE__, &(s), letters)
void times_at(const char *file, int line, const struct stamp *s, const char *letters);

/* --- the program ---------------------------------------------------------------------------- */

struct options {
	bool no_devices;     /* mknod of devices is EPERM, for root too */
	bool no_exec;	     /* nothing can be run from there */
	bool brief;	     /* a line a topic, and the failures */
	bool user_namespace; /* of 65,536 ids; its root is no root to the kernel's set-id rules */
	bool as_is;	     /* topic `caller`: the mount does the mapping, we keep our identity */
	const char *self;    /* a program to run: this one */
	struct who caller;   /* topic `caller` */
	long shown_uid, shown_gid; /* topic `mapped` */
};

extern struct options options;
extern const char *topic; /* being run */

void topic_paths(void);
void topic_limits(void);
void topic_pointers(void);
void topic_access(void);
void topic_open_rights(void);
void topic_dir_rights(void);
void topic_create(void);
void topic_sticky(void);
void topic_chmod(void);
void topic_chown(void);
void topic_setid(void);
void topic_link(void);
void topic_rename(void);
void topic_rename_flags(void);
void topic_mkdir(void);
void topic_rmdir(void);
void topic_unlink(void);
void topic_symlink(void);
void topic_special(void);
void topic_open(void);
void topic_busy_text(void);
void topic_truncate(void);
void topic_fallocate(void);
void topic_utimens(void);
void topic_times(void);
void topic_xattr(void);
void topic_acl(void);
void topic_readdir(void);
void topic_statfs(void);
void topic_bytes(void);
void topic_read_only(void);
void topic_caller(void);
void topic_mapped(void);
