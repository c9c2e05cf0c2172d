/* SPDX-License-Identifier: MIT */
/*
 * Errands in threads of their own pool, since they last as long as what they cause: the lifecycle's
 * threads are needed for that. A thread only waits for the process that acts (doer.h). d->lock
 * guards the list and who answers.
 */
#include "fs/doing.h"

#include "common/cleanup.h"
#include "fs/op.h"
#include "sandbox/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define ERRANDS_MAX 256 /* and threads: each may wait for a sandbox that does not answer */

struct errand {
	struct doing *d;
	struct inode *i;
	struct op *op; /* who waits, or NULL; protected by d->lock, as the next two */
	int acting;    /* doer_begin()'s, while it is under way; -1 */
	bool left;     /* who waited has gone: nothing more is to be done */
	size_t written;
	char *text;
	struct doer_order order;
	struct errand *prev, *next;
};

struct doing {
	struct fs *fs;
	const struct doer *doer;
	struct pool *pool;

	pthread_mutex_t lock;
	pthread_cond_t answered;
	struct errand *errands; /* protected by lock, as the next */
	unsigned answering;
	bool stop;
};

struct doing *doing_new(struct fs *fs, const struct doer *doer)
{
	struct doing *d = calloc(1, sizeof(*d));

	if (!d || pool_new(ERRANDS_MAX, &d->pool) < 0) {
		free(d);
		return NULL;
	}
	d->fs = fs;
	d->doer = doer;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->answered, NULL);
	return d;
}

void doing_free(struct doing *d)
{
	if (!d)
		return;
	pool_free(d->pool);
	pthread_cond_destroy(&d->answered);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* The request that waits for an errand is the caller's to answer, then to say so. NULL: nobody
 * waits. */
static fuse_req_t answer_begin(struct errand *e)
{
	struct op *op;

	pthread_mutex_lock(&e->d->lock);
	op = e->op;
	e->op = NULL;
	e->d->answering++;
	pthread_mutex_unlock(&e->d->lock);
	return op ? op_take(op) : NULL;
}

static void answer_end(struct doing *d)
{
	pthread_mutex_lock(&d->lock);
	d->answering--;
	pthread_cond_broadcast(&d->answered);
	pthread_mutex_unlock(&d->lock);
}

void doing_stop(struct doing *d)
{
	struct errand *e;

	pthread_mutex_lock(&d->lock);
	d->stop = true;
	for (;;) {
		struct op *op = NULL;

		DL_FOREACH (d->errands, e) {
			if (e->op) {
				op = e->op;
				e->op = NULL;
				break;
			}
		}
		if (!op)
			break;
		pthread_mutex_unlock(&d->lock);
		fuse_req_t req = op_take(op);

		if (req)
			fuse_reply_err(req, ENOTCONN);
		pthread_mutex_lock(&d->lock);
	}
	while (d->answering)
		pthread_cond_wait(&d->answered, &d->lock);
	pthread_mutex_unlock(&d->lock);
}

/* Who wrote it does not wait any more. As an op's leave(): the errand is there until its request
 * has been taken. */
static void leave(struct op *op)
{
	struct errand *e = op->data;

	pthread_mutex_lock(&e->d->lock);
	e->left = true;
	if (e->acting >= 0)
		doer_leave(e->acting);
	pthread_mutex_unlock(&e->d->lock);
}

static void errand_free(struct errand *e)
{
	inode_put(e->i);
	free(e->text);
	free(e);
}

static void answer(struct errand *e, const struct err *err)
{
	fuse_req_t req = answer_begin(e);

	if (err->code)
		fs_fail(e->d->fs, req, NULL, "do", ".sandboxfs/do", err);
	else if (req && e->written)
		fuse_reply_write(req, e->written);
	else if (req)
		fuse_reply_err(req, 0);
	answer_end(e->d);
}

/* Whether it is still to be done; then fd is where it can be left. */
static bool wanted(struct errand *e, int fd, struct err *err)
{
	bool left;

	pthread_mutex_lock(&e->d->lock);
	left = e->left;
	e->acting = left ? -1 : fd;
	if (e->d->stop)
		err_set(err, ENOTCONN, "the mount is ending");
	pthread_mutex_unlock(&e->d->lock);
	return !left && !err->code;
}

static void act(struct errand *e, struct err *err)
{
	cleanup_close int fd = -1;
	int r;

	if (!wanted(e, -1, err))
		return;
	r = doer_begin(e->d->doer, &e->order, e->text, err);
	if (r < 0)
		return;
	fd = r;
	if (wanted(e, fd, err))
		doer_wait(fd, err);
	pthread_mutex_lock(&e->d->lock);
	e->acting = -1;
	if (e->left)
		*err = (struct err){0}; /* that was its own wish */
	pthread_mutex_unlock(&e->d->lock);
}

static void run(void *arg)
{
	struct errand *e = arg;
	struct doing *d = e->d;
	struct err err = {0};

	act(e, &err);
	answer(e, &err);
	pthread_mutex_lock(&d->lock);
	DL_DELETE(d->errands, e);
	pthread_mutex_unlock(&d->lock);
	errand_free(e);
}

void doing_caller(fuse_req_t req, struct doer_order *who)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int n = fuse_req_getgroups(req, PROTO_GROUPS_MAX, who->groups);

	who->uid = ctx->uid;
	who->gid = ctx->gid;
	who->n_groups = n < 0 ? 0 : n > (int)PROTO_GROUPS_MAX ? (int)PROTO_GROUPS_MAX : n;
}

/* True after it has answered. Those that nobody waits for stay until they are done. */
static bool is_full(fuse_req_t req, struct doing *d)
{
	struct errand *e;
	struct err err;
	unsigned n;

	pthread_mutex_lock(&d->lock);
	DL_COUNT(d->errands, e, n);
	pthread_mutex_unlock(&d->lock);
	if (n < ERRANDS_MAX)
		return false;
	err_set(&err, EAGAIN, "%u writes are under way already: some sandbox does not answer",
		ERRANDS_MAX);
	fs_fail(d->fs, req, NULL, "do", ".sandboxfs/do", &err);
	return true;
}

void doing_run(fuse_req_t req, struct inode *i, const struct doer_order *who, char *text,
	size_t written, bool wait)
{
	struct doing *d = i->fs->doing;
	struct errand *e = calloc(1, sizeof(*e));
	struct err none = {0};

	if (!e)
		fuse_reply_err(req, ENOMEM);
	if (!e || is_full(req, d)) {
		free(text);
		free(e);
		return;
	}
	*e = (struct errand){.d = d, .i = i, .text = text, .written = written, .order = *who};
	e->acting = -1;
	e->order.mounted = i->fs->mounted;
	e->order.own_ino = i->ino;
	inode_get(i);
	e->op = op_wait_for(req, wait ? leave : NULL, e);
	if (!e->op) {
		errand_free(e);
		return;
	}
	if (!wait)
		answer(e, &none);
	pthread_mutex_lock(&d->lock);
	DL_APPEND(d->errands, e);
	pthread_mutex_unlock(&d->lock);
	if (pool_run(d->pool, run, e) < 0) {
		err_set(&none, ENOMEM, "no memory for that");
		answer(e, &none);
		pthread_mutex_lock(&d->lock);
		DL_DELETE(d->errands, e);
		pthread_mutex_unlock(&d->lock);
		errand_free(e);
	}
}
