/* SPDX-License-Identifier: MIT */
/*
 * .sandboxfs/templates: NAME.json is a template, anything else a scratch file that can be renamed
 * onto one. FUSE workers begin, lifecycle threads do it and answer. The names have a lock of their
 * own.
 */
#include "fs/templates.h"

#include "fs/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAMES_MAX  65536u
#define NO_REPLACE 1u /* RENAME_NOREPLACE */

struct template_names *template_names_new(void)
{
	struct template_names *n = calloc(1, sizeof(*n));

	if (n)
		pthread_mutex_init(&n->lock, NULL);
	return n;
}

void template_names_free(struct template_names *n)
{
	if (!n)
		return;
	for (unsigned k = 0; k < n->n; k++)
		free(n->v[k]);
	free(n->v);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

static bool add_name(struct template_names *n, const char *name)
{
	char **v = n->n < NAMES_MAX ? realloc(n->v, (n->n + 1) * sizeof(*v)) : NULL;

	if (!v)
		return false;
	n->v = v;
	v[n->n] = strdup(name);
	return v[n->n] != NULL;
}

struct inode *template_node(struct fs *fs, const char *name)
{
	struct template_names *n = fs->templates;
	unsigned k = 0;
	bool there;

	pthread_mutex_lock(&n->lock);
	while (k < n->n && strcmp(n->v[k], name) != 0)
		k++;
	there = k < n->n || add_name(n, name);
	if (there && k == n->n)
		n->n++;
	pthread_mutex_unlock(&n->lock);
	return there ? inode_fixed(fs->table, &template_file_ops, k) : NULL;
}

const char *template_node_name(const struct inode *i)
{
	struct template_names *n = i->fs->templates;
	const char *name;

	pthread_mutex_lock(&n->lock);
	name = n->v[i->which];
	pthread_mutex_unlock(&n->lock);
	return name;
}

struct template_task *template_task_new(fuse_req_t req, struct inode *i, const char *name,
	int (*run)(struct template_task *t),
	void (*answer)(struct template_task *t, fuse_req_t req, int r))
{
	struct template_task *t = calloc(1, sizeof(*t));

	if (!t) {
		if (req)
			fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	t->op = req ? op_wait(req) : NULL;
	if (req && !t->op) {
		free(t);
		return NULL;
	}
	inode_get(i);
	t->i = i;
	t->run = run;
	t->answer = answer;
	t->verb = "write";
	snprintf(t->name, sizeof(t->name), "%s", name ? name : "");
	buf_init(&t->got, TEMPLATE_FILE_MAX + 32768);
	return t;
}

static void finish(struct template_task *t, int r)
{
	fuse_req_t req = t->op ? op_take(t->op) : NULL;

	t->answer(t, req, r);
	buf_fini(&t->got);
	inode_put(t->i);
	free(t->text);
	free(t);
}

static void do_task(void *arg)
{
	struct template_task *t = arg;

	finish(t, t->run(t));
}

void template_task_start(struct template_task *t)
{
	if (registry_defer(t->i->fs->registry, do_task, t) < 0)
		finish(t, err_set(&t->err, ENOMEM, "out of memory"));
}

void template_fail(struct template_task *t, fuse_req_t req)
{
	char path[sizeof(TEMPLATES_DIR) + TEMPLATE_NAME_MAX + 8];

	snprintf(path, sizeof(path), TEMPLATES_DIR "/%s.json", t->name);
	fs_fail(t->i->fs, req, NULL, t->verb, path, &t->err);
}

void template_answer(struct template_task *t, fuse_req_t req, int r)
{
	if (r < 0)
		template_fail(t, req);
	else if (req)
		fuse_reply_err(req, 0);
}

bool template_locked(fuse_req_t req, struct inode *i, const char *verb, const char *name)
{
	char path[sizeof(TEMPLATES_DIR) + PROTO_NAME_MAX + 2];
	struct err err;

	if (!i->fs->options->locked)
		return false;
	snprintf(path, sizeof(path), TEMPLATES_DIR "/%s", name);
	err_set(&err, EPERM, "this mount is locked: templates are read-only");
	fs_fail(i->fs, req, NULL, verb, path, &err);
	return true;
}

int template_run_save(struct template_task *t)
{
	return template_save(
		t->name, registry_rules(t->i->fs->registry), t->text, t->size, &t->err);
}

int template_run_read(struct template_task *t)
{
	return template_read(t->name, registry_rules(t->i->fs->registry), &t->got, &t->st, &t->err);
}

/* What may be missing is no failure to tell of. */
static void answer_lookup(struct template_task *t, fuse_req_t req, int r)
{
	struct inode *i;
	struct stat st;

	if (!req)
		return;
	if (r < 0) {
		fuse_reply_err(req, t->err.code);
		return;
	}
	i = template_node(t->i->fs, t->name);
	if (!i) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	template_stat_of(i, &t->st, t->got.len, &st);
	inode_reply_entry(req, i, &st, 0);
}

static void dir_lookup(fuse_req_t req, struct inode *dir, const char *file)
{
	char name[TEMPLATE_NAME_MAX + 1];
	struct template_task *t;

	if (!template_file_name(file, name)) {
		scratch_lookup(req, dir, file);
		return;
	}
	t = template_task_new(req, dir, name, template_run_read, answer_lookup);
	if (t)
		template_task_start(t);
}

/* For scratch files: what a rename onto this name writes. */
static struct inode *dir_control(struct inode *dir, const char *file)
{
	char name[TEMPLATE_NAME_MAX + 1];

	return template_file_name(file, name) ? template_node(dir->fs, name) : NULL;
}

static void dir_getattr(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	inode_fixed_stat(i, S_IFDIR | (i->fs->options->locked ? 0555 : 0755), 0, &st);
	fuse_reply_attr(req, &st, inode_fixed_timeout(i, S_IFDIR));
}

static void dir_mknod(fuse_req_t req, struct inode *dir, const char *file, mode_t mode)
{
	char name[TEMPLATE_NAME_MAX + 1];

	if (template_locked(req, dir, "mknod", file))
		return;
	if (template_file_name(file, name))
		fuse_reply_err(req, EPERM); /* it would be an empty one */
	else
		scratch_mknod(req, dir, file, mode);
}

static void dir_create(
	fuse_req_t req, struct inode *dir, const char *file, mode_t mode, struct fuse_file_info *fi)
{
	char name[TEMPLATE_NAME_MAX + 1];

	if (template_locked(req, dir, "create", file))
		return;
	if (template_file_name(file, name))
		template_create(req, dir, name, fi);
	else
		scratch_create(req, dir, file, mode, fi);
}

static int run_remove(struct template_task *t)
{
	return template_remove(t->name, registry_rules(t->i->fs->registry), &t->err);
}

static void dir_unlink(fuse_req_t req, struct inode *dir, const char *file)
{
	char name[TEMPLATE_NAME_MAX + 1];
	struct template_task *t;

	if (template_locked(req, dir, "unlink", file))
		return;
	if (!template_file_name(file, name)) {
		scratch_unlink(req, dir, file);
		return;
	}
	t = template_task_new(req, dir, name, run_remove, template_answer);
	if (t) {
		t->verb = "unlink";
		template_task_start(t);
	}
}

static int check_free(struct template_task *t)
{
	const struct template_rules *rules = registry_rules(t->i->fs->registry);
	struct template_stat st;
	struct buf text;
	int r;

	buf_init(&text, TEMPLATE_FILE_MAX + 32768);
	r = template_read(t->to, rules, &text, &st, NULL);
	buf_fini(&text);
	return r == -ENOENT ? 0 : err_set(&t->err, EEXIST, "there is a template %s", t->to);
}

/* A template under another name: the new one is there before the old one goes. */
static int run_move(struct template_task *t)
{
	const struct template_rules *rules = registry_rules(t->i->fs->registry);
	int r = t->flags & NO_REPLACE ? check_free(t) : 0;

	if (r == 0)
		r = template_run_read(t);
	if (r == 0 && t->st.builtin)
		r = err_set(&t->err, EPERM, "the built-in default cannot be moved");
	if (r == 0)
		r = template_save(t->to, rules, (char *)t->got.data, t->got.len, &t->err);
	return r == 0 ? template_remove(t->name, rules, &t->err) : r;
}

/* A scratch file, where there must be no template of the new name. */
static void answer_free(struct template_task *t, fuse_req_t req, int r)
{
	char file[TEMPLATE_NAME_MAX + 8];

	if (!req)
		return;
	snprintf(file, sizeof(file), "%s.json", t->to);
	if (r < 0)
		fuse_reply_err(req, t->err.code);
	else
		scratch_rename(req, t->i, t->file, t->i, file, 0);
}

static void move_template(
	fuse_req_t req, struct inode *dir, const char *name, const char *to, unsigned flags)
{
	struct template_task *t = template_task_new(req, dir, name, run_move, template_answer);

	if (!t)
		return;
	t->verb = "rename";
	t->flags = flags;
	snprintf(t->to, sizeof(t->to), "%s", to);
	template_task_start(t);
}

static void dir_rename(fuse_req_t req, struct inode *dir, const char *file, struct inode *to,
	const char *new_file, unsigned flags)
{
	char name[TEMPLATE_NAME_MAX + 1], new_name[TEMPLATE_NAME_MAX + 1];
	bool onto = to == dir && template_file_name(new_file, new_name);
	struct template_task *t;

	if (template_locked(req, dir, "rename", file))
		return;
	if (flags & ~NO_REPLACE) {
		fuse_reply_err(req, EINVAL);
	} else if (template_file_name(file, name)) {
		if (onto)
			move_template(req, dir, name, new_name, flags);
		else
			fuse_reply_err(req, EPERM);
	} else if (onto && (flags & NO_REPLACE)) {
		t = template_task_new(req, dir, NULL, check_free, answer_free);
		if (!t)
			return;
		snprintf(t->to, sizeof(t->to), "%s", new_name);
		snprintf(t->file, sizeof(t->file), "%s", file);
		template_task_start(t);
	} else {
		scratch_rename(req, dir, file, to, new_file, flags);
	}
}

static void list_one(void *arg, const char *name)
{
	char file[TEMPLATE_NAME_MAX + 8];

	snprintf(file, sizeof(file), "%s.json", name);
	dirlist_add(arg, file, 1, S_IFREG);
}

static int run_list(struct template_task *t)
{
	struct dirlist *d = dirlist_new();
	int r = d ? template_each(registry_rules(t->i->fs->registry), list_one, d, &t->err)
		  : err_set(&t->err, ENOMEM, "out of memory");

	if (r == 0)
		scratch_list(t->i, d);
	t->list = d;
	return r;
}

static void answer_list(struct template_task *t, fuse_req_t req, int r)
{
	if (req && r == 0)
		dirlist_reply_open(req, t->list, &t->fi);
	else
		dirlist_free(t->list);
	if (req && r < 0)
		fuse_reply_err(req, t->err.code);
}

static void dir_opendir(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	struct template_task *t = template_task_new(req, i, NULL, run_list, answer_list);

	if (!t)
		return;
	t->fi = *fi;
	template_task_start(t);
}

const struct node_ops templates_ops = {
	.kind = 'M',
	.mounters = true,
	.lookup = dir_lookup,
	.control = dir_control,
	.getattr = dir_getattr,
	.mknod = dir_mknod,
	.create = dir_create,
	.unlink = dir_unlink,
	.rename = dir_rename,
	.opendir = dir_opendir,
	.readdir = dirlist_readdir,
	.releasedir = dirlist_release,
};
