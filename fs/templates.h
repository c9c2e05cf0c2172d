/* SPDX-License-Identifier: MIT */
/* .sandboxfs/templates: what its directory and its files share. The disk is only touched in
 * lifecycle threads, so everything here is a task that answers later. */
#pragma once

#include "fs/dirlist.h"
#include "fs/op.h"
#include "sandbox/template_store.h"

#define TEMPLATES_DIR ".sandboxfs/templates"

struct template_handle; /* an open file: template_file.c */

/* The names that nodes were made for; a node's `which` is its name's place. Never forgotten, so
 * only names of templates that were there, or were made, get one. */
struct template_names {
	pthread_mutex_t lock;
	char **v; /* protected by lock, as n; the strings stay */
	unsigned n;
	struct template_handle *writers; /* files open for writing, newest first; the same */
};

struct template_names *template_names_new(void);
void template_names_free(struct template_names *n);

/* The node of a template's file, with a lookup count. NULL: no memory, or too many names. */
struct inode *template_node(struct fs *fs, const char *name);
const char *template_node_name(const struct inode *i);

/* Something to be done with a template, and the request that waits for it. */
struct template_task {
	struct op *op;	 /* NULL: nobody waits */
	struct inode *i; /* a reference */
	int (*run)(struct template_task *t);
	/* After run, with what it returned; req is NULL where nobody waits any more. */
	void (*answer)(struct template_task *t, fuse_req_t req, int r);
	char name[TEMPLATE_NAME_MAX + 1], to[TEMPLATE_NAME_MAX + 1];
	char file[PROTO_NAME_MAX + 1]; /* a name in the directory that is none of a template */
	char *text;		       /* to be saved; owned */
	size_t size;
	struct buf got; /* what was read */
	struct template_stat st;
	struct template_handle *handle;
	struct dirlist *list;
	struct fuse_file_info fi;
	enum answer how;
	unsigned flags;
	const char *verb; /* for .sandboxfs/errors */
	struct err err;
};

/* A task of this request (or of nobody), to be filled in. NULL after it has answered. */
struct template_task *template_task_new(fuse_req_t req, struct inode *i, const char *name,
	int (*run)(struct template_task *t),
	void (*answer)(struct template_task *t, fuse_req_t req, int r));
/* Hands it to a lifecycle thread, which frees it afterwards. */
void template_task_start(struct template_task *t);

/* A usual answer: success, or the errno with words in .sandboxfs/errors. */
void template_answer(struct template_task *t, fuse_req_t req, int r);
void template_fail(struct template_task *t, fuse_req_t req);
/* True, after having answered EPERM, where the mount is locked. */
bool template_locked(fuse_req_t req, struct inode *i, const char *verb, const char *name);

/* run(): saves t->text as t->name. */
int template_run_save(struct template_task *t);
/* run(): reads t->name into t->got and t->st. */
int template_run_read(struct template_task *t);
void template_stat_of(
	const struct inode *i, const struct template_stat *ts, size_t size, struct stat *st);
/* Answers the creation of NAME.json, which is there once something good was written. */
void template_create(
	fuse_req_t req, struct inode *dir, const char *name, struct fuse_file_info *fi);
