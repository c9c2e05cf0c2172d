/* SPDX-License-Identifier: MIT */
/*
 * Three parties: whoever gets the agent's answer (an I/O thread) puts it into the list; the
 * sandbox's thread, started when there is something and gone after a while without, takes it from
 * there, tells the kernel, and then releases the answers that were held for it. c->lock guards all
 * fields; it is held neither while the kernel is told nor while an op is answered.
 */
#include "fs/changes.h"

#include "common/log.h"
#include "fs/box.h"
#include "fs/op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#define LINGER_S     2	/* how long a thread waits for more */
#define UNSEEN_TRIES 10 /* see tell_node */
#define NOTIFY_INC_EPOCH \
	8 /* of the kernel from protocol 7.44 on; libfuse 3.14 has no name for it */
#define AGAIN_AFTER_MS 200
#define HOLD_MS	       3000   /* for changes that were counted: then they do not come */
#define PACE_NS	       500000 /* an agent that always has something cannot keep us busy */

struct batch {
	struct batch *next;
	uint64_t seq;	/* the agent's, after these */
	uint32_t epoch; /* 0: not from the agent */
	bool all;	/* everything; then no body */
	void (*then)(void *arg);
	void *arg;
	size_t len;
	uint8_t body[];
};

/* A thread, joined by whoever comes next. */
struct teller {
	struct changes *c;
	pthread_t thread; /* set when it has ended, as the next */
	struct teller *next;
};

struct changes_threads {
	pthread_mutex_t lock;
	pthread_cond_t none;
	unsigned n;	      /* protected by lock, as the next */
	struct changes *list; /* those that have one */
	struct teller *ended; /* to be joined */
	_Atomic bool closing; /* the mount goes: the kernel is told nothing more */
};

struct changes {
	struct fs *fs;
	struct itable *table;
	struct sandbox *sb; /* not a reference: the sandbox owns the table that owns this */
	struct call ask;    /* CHANGES; the channel's, then the thread's, while asking */
	int64_t asked_ns;   /* when; as ask */

	pthread_mutex_t lock;
	pthread_cond_t more;
	bool asking;	/* from a question until its answer is dealt with; protected by lock, as
			   all that follows */
	bool heard;	/* asked, and not told otherwise since */
	uint32_t epoch; /* whose numbers these are */
	uint64_t told;	/* the kernel knows of all up to this */
	struct batch *first, **last; /* for the thread */
	bool running;		     /* there is a thread */
	struct changes *prev, *next; /* in the mount's list of those; protected by its lock */
	struct op *held;	     /* answers that wait */
	bool patience;		     /* a timer looks after them */
};

static void ask_again(struct changes *c);
static void be_patient(struct changes *c);

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct changes *changes_new(struct fs *fs, struct itable *t, struct sandbox *sb)
{
	struct changes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fs = fs;
	c->table = t;
	c->sb = sb;
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	return c;
}

void changes_free(struct changes *c)
{
	struct batch *b;

	if (!c)
		return;
	while ((b = c->first)) {
		c->first = b->next;
		free(b);
	}
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool changes_are_heard(struct changes *c)
{
	bool heard;

	pthread_mutex_lock(&c->lock);
	heard = c->heard;
	pthread_mutex_unlock(&c->lock);
	return heard;
}

bool changes_are_told(struct changes *c, uint64_t seq)
{
	bool told;

	pthread_mutex_lock(&c->lock);
	told = !c->heard || seq <= c->told;
	pthread_mutex_unlock(&c->lock);
	return told;
}

bool changes_hold(struct changes *c, uint64_t seq, struct op *op)
{
	bool wait, timer;

	pthread_mutex_lock(&c->lock);
	wait = c->heard && seq > c->told;
	timer = wait && !c->patience;
	if (wait) {
		op->hold_seq = seq;
		op->held_ms = now_ns() / 1000000;
		op->next_held = c->held;
		c->held = op;
		c->patience = true;
	}
	pthread_mutex_unlock(&c->lock);
	if (timer)
		be_patient(c);
	return wait;
}

/* Answers what waited for what the kernel knows now; all, when nothing is heard any more. */
static void release(struct changes *c)
{
	struct op *go = NULL, **at, *op;

	pthread_mutex_lock(&c->lock);
	for (at = &c->held; (op = *at);) {
		if (c->heard && op->hold_seq > c->told) {
			at = &op->next_held;
			continue;
		}
		*at = op->next_held;
		op->next_held = go;
		go = op;
	}
	pthread_mutex_unlock(&c->lock);
	while ((op = go)) {
		go = op->next_held;
		op_released(op);
	}
}

/* --- telling the kernel -------------------------------------------------------------------------
 */

static fuse_ino_t number(const struct inode *i)
{
	return i == i->fs->root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)i;
}

void changes_tell_attr(struct inode *i)
{
	fuse_lowlevel_notify_inval_inode(i->fs->session, number(i), -1, 0);
}

/* An entry that has just been given to the kernel is not known there before its caller has run, and
 * nothing tells when that is: so it is tried again, for a moment. */
static void tell_node(struct changes *c, struct inode *i, bool data)
{
	static const struct timespec moment = {.tv_nsec = 1000000};

	for (int k = 0; k < UNSEEN_TRIES; k++) {
		int r = fuse_lowlevel_notify_inval_inode(
			c->fs->session, number(i), data ? 0 : -1, 0);

		if (r != -ENOENT || !inode_is_known(i))
			return;
		nanosleep(&moment, NULL);
	}
}

/* same: the name is right, but is to be looked up again before it is used. libfuse reads the byte
 * after the name too, which in a message is another's. */
static void tell_name(struct changes *c, struct inode *dir, const char *name, size_t len, bool same)
{
	struct fuse_session *se = c->fs->session;
	char text[PROTO_NAME_MAX + 1];

	if (!S_ISDIR(dir->type) || len > PROTO_NAME_MAX)
		return;
	memcpy(text, name, len);
	text[len] = 0;
	if (!same || fuse_lowlevel_notify_expire_entry(
			     se, number(dir), text, len, FUSE_LL_EXPIRE_ONLY) == -ENOSYS)
		fuse_lowlevel_notify_inval_entry(se, number(dir), text, len);
}

/* A new enough kernel asks again for every name of the mount. */
static bool tell_epoch(struct changes *c)
{
	struct {
		uint32_t len;
		int32_t code;
		uint64_t unique;
	} out = {.len = sizeof(out), .code = NOTIFY_INC_EPOCH};

	return write(fuse_session_fd(c->fs->session), &out, sizeof(out)) == (ssize_t)sizeof(out);
}

/* Else the trees' own names: what is beneath goes with them. */
static void tell_roots(struct changes *c)
{
	struct inode *box = inode_fixed_known(c->table, &sandbox_ops, 0);
	struct inode *dot = inode_fixed_known(c->fs->table, &dot_rootfs_ops, 0);
	struct sandbox_info info;

	if (box)
		tell_name(c, box, "workspace", strlen("workspace"), false);
	if (dot && sandbox_info(c->sb, &info) == 0) {
		tell_name(c, dot, info.name, strlen(info.name), false);
		sandbox_info_fini(&info);
	}
	inode_put(box);
	inode_put(dot);
}

static void tell_all(struct changes *c)
{
	struct inode **all;
	size_t n;

	if (!tell_epoch(c))
		tell_roots(c);
	while (inode_all(c->table, &all, &n) < 0)
		sleep(1); /* no memory: but it must be told */
	for (size_t k = 0; k < n; k++) {
		fuse_lowlevel_notify_inval_inode(c->fs->session, number(all[k]), 0, 0);
		inode_put(all[k]);
	}
	free(all);
}

static void tell_batch(struct changes *c, const struct batch *b)
{
	struct wire_in in = wire_in(b->body, b->len);

	if (b->all)
		tell_all(c);
	while (in.p < in.end && !in.bad) {
		struct proto_change p;
		struct inode *i;

		proto_get_change(&in, &p);
		if (p.kind == PROTO_CHANGE_ALL) {
			tell_all(c);
			continue;
		}
		i = inode_by_node(c->table, p.node);
		if (!i)
			continue; /* forgotten meanwhile */
		if (proto_change_named(p.kind))
			tell_name(c, i, (const char *)p.name, p.name_len,
				p.kind == PROTO_CHANGE_SIZE);
		else
			tell_node(c, i, p.kind == PROTO_CHANGE_DATA);
		inode_put(i);
	}
}

/* --- the thread ---------------------------------------------------------------------------------
 */

/* The next batch; NULL: there has been none for a while, and the thread is no longer the thread. */
static struct batch *next_batch(struct changes *c)
{
	struct timespec until;
	struct batch *b;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LINGER_S;
	pthread_mutex_lock(&c->lock);
	while (!c->first && r == 0 && !c->fs->threads->closing)
		r = pthread_cond_timedwait(&c->more, &c->lock, &until);
	b = c->first;
	if (b) {
		c->first = b->next;
		if (!c->first)
			c->last = &c->first;
	} else {
		c->running = false;
	}
	pthread_mutex_unlock(&c->lock);
	return b;
}

static void thread_unlist(struct changes *c)
{
	struct changes_threads *t = c->fs->threads;

	pthread_mutex_lock(&t->lock);
	DL_DELETE(t->list, c);
	pthread_mutex_unlock(&t->lock);
}

/* It holds nothing of the mount's any more. */
static void thread_ended(struct changes_threads *t, struct teller *me)
{
	me->thread = pthread_self();
	pthread_mutex_lock(&t->lock);
	me->next = t->ended;
	t->ended = me;
	if (--t->n == 0)
		pthread_cond_broadcast(&t->none);
	pthread_mutex_unlock(&t->lock);
}

static void join_ended(struct changes_threads *t)
{
	struct teller *list, *x;

	pthread_mutex_lock(&t->lock);
	list = t->ended;
	t->ended = NULL;
	pthread_mutex_unlock(&t->lock);
	while ((x = list)) {
		list = x->next;
		pthread_join(x->thread, NULL);
		free(x);
	}
}

static void *run(void *arg)
{
	struct teller *me = arg;
	struct changes *c = me->c;
	struct changes_threads *t = c->fs->threads;
	struct sandbox *sb = c->sb;
	struct batch *b;

	while ((b = next_batch(c))) {
		if (!t->closing)
			tell_batch(c, b);
		pthread_mutex_lock(&c->lock);
		if (b->epoch == c->epoch && b->seq > c->told)
			c->told = b->seq;
		pthread_mutex_unlock(&c->lock);
		release(c);
		if (b->then)
			b->then(b->arg);
		if (b->epoch)
			ask_again(c);
		free(b);
	}
	thread_unlist(c);
	sandbox_put(sb); /* and c may be gone */
	thread_ended(t, me);
	return NULL;
}

static int start_thread(struct changes *c)
{
	struct changes_threads *t = c->fs->threads;
	struct teller *x = calloc(1, sizeof(*x));
	pthread_t thread;
	int r;

	if (!x)
		return -ENOMEM;
	x->c = c;
	join_ended(t);
	sandbox_get(c->sb);
	pthread_mutex_lock(&t->lock);
	t->n++;
	DL_APPEND(t->list, c);
	pthread_mutex_unlock(&t->lock);
	r = pthread_create(&thread, NULL, run, x);
	if (r) {
		thread_unlist(c);
		pthread_mutex_lock(&t->lock);
		t->n--;
		pthread_mutex_unlock(&t->lock);
		sandbox_put(c->sb);
		free(x);
	}
	return -r;
}

static void ensure_thread(struct changes *c);

static void thread_again(void *arg)
{
	struct changes *c = arg;
	struct sandbox *sb = c->sb;

	ensure_thread(c);
	sandbox_put(sb);
}

/* Whoever called this put something into the list. */
static void ensure_thread(struct changes *c)
{
	bool start;

	pthread_mutex_lock(&c->lock);
	start = !c->running && c->first;
	c->running |= start;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
	if (!start || start_thread(c) == 0)
		return;
	log_warn("no thread to tell the kernel of changes; trying again");
	pthread_mutex_lock(&c->lock);
	c->running = false;
	pthread_mutex_unlock(&c->lock);
	sandbox_get(c->sb);
	if (registry_after(c->fs->registry, AGAIN_AFTER_MS, thread_again, c) < 0)
		sandbox_put(c->sb);
}

static void put_batch(struct changes *c, struct batch *b)
{
	b->next = NULL;
	pthread_mutex_lock(&c->lock);
	*c->last = b;
	c->last = &b->next;
	pthread_mutex_unlock(&c->lock);
	ensure_thread(c);
}

void changes_drop_all(struct changes *c, void (*then)(void *arg), void *arg)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (b) {
		b->all = true;
		b->then = then;
		b->arg = arg;
		put_batch(c, b);
	} else if (then) {
		then(arg);
	}
}

/* --- asking the agent ---------------------------------------------------------------------------
 */

/* Nothing is heard any more: what the kernel has may be old. */
static void unheard(struct changes *c)
{
	bool was;

	pthread_mutex_lock(&c->lock);
	was = c->heard;
	c->heard = false;
	pthread_mutex_unlock(&c->lock);
	if (was)
		changes_drop_all(c, NULL, NULL);
	release(c);
}

static void stop_asking(struct changes *c)
{
	pthread_mutex_lock(&c->lock);
	c->asking = false;
	pthread_mutex_unlock(&c->lock);
	unheard(c);
}

static bool too_long(struct changes *c)
{
	int64_t now = now_ns() / 1000000;
	bool late = false;

	pthread_mutex_lock(&c->lock);
	for (struct op *op = c->held; op; op = op->next_held)
		late |= now - op->held_ms > HOLD_MS;
	c->patience = c->held && !late;
	pthread_mutex_unlock(&c->lock);
	return late;
}

/* An agent counted changes that it does not tell: it is not believed any more. */
static void look_at_held(void *arg)
{
	struct changes *c = arg;
	struct sandbox *sb = c->sb;
	bool again;

	if (too_long(c))
		unheard(c);
	pthread_mutex_lock(&c->lock);
	again = c->patience;
	pthread_mutex_unlock(&c->lock);
	if (again)
		be_patient(c);
	sandbox_put(sb);
}

static void be_patient(struct changes *c)
{
	sandbox_get(c->sb);
	if (registry_after(c->fs->registry, HOLD_MS / 2, look_at_held, c) < 0)
		sandbox_put(c->sb);
}

static bool well_formed(const struct wire_in *body)
{
	struct wire_in in = *body;
	struct proto_change p;

	do
		proto_get_change(&in, &p);
	while (!in.bad && in.p < in.end);
	return !in.bad;
}

static bool answered(struct call *call, int r, struct wire_in *body)
{
	struct changes *c = (struct changes *)((char *)call - offsetof(struct changes, ask));
	struct sandbox *sb = c->sb;
	struct batch *b = NULL;
	bool ok = true;

	if (r == 0) {
		size_t n = (size_t)(body->end - body->p);

		ok = well_formed(body);
		b = ok ? calloc(1, sizeof(*b) + n) : NULL;
		if (b) {
			b->seq = call->seq;
			b->epoch = call->epoch;
			b->len = n;
			memcpy(b->body, body->p, n);
		}
	}
	call_fini(call);
	if (b)
		put_batch(c, b);
	else
		stop_asking(c);
	sandbox_put(sb);
	return ok;
}

/* With c->asking set by the caller. */
static void ask(struct changes *c)
{
	uint32_t epoch = sandbox_epoch(c->sb);
	uint64_t told;

	pthread_mutex_lock(&c->lock);
	if (c->epoch != epoch) {
		c->epoch = epoch;
		c->told = 0;
	}
	told = c->told;
	c->heard = true;
	pthread_mutex_unlock(&c->lock);
	/* Not repeated when the connection breaks: that could start a container that was stopped.
	 * The kernel is told to ask again for everything; whoever does brings the connection back.
	 */
	c->ask = (struct call){.done = answered};
	c->asked_ns = now_ns();
	call_begin(&c->ask, PROTO_CHANGES, 0, 0);
	c->ask.epoch = epoch;
	wire_u64(&c->ask.frame, told);
	sandbox_get(c->sb);
	if (sandbox_call_linked(c->sb, &c->ask) < 0) {
		call_fini(&c->ask);
		stop_asking(c);
		sandbox_put(c->sb);
	}
}

static void ask_again(struct changes *c)
{
	int64_t pause = c->asked_ns + PACE_NS - now_ns();

	if (pause > 0)
		nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
	ask(c);
}

void changes_up(struct changes *c)
{
	bool start;

	if (!sandbox_answers(c->sb))
		return;
	pthread_mutex_lock(&c->lock);
	start = !c->asking;
	c->asking = true;
	pthread_mutex_unlock(&c->lock);
	if (start)
		ask(c);
}

/* --- the mount ----------------------------------------------------------------------------------
 */

struct changes_threads *changes_threads_new(void)
{
	struct changes_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->none, NULL);
	return t;
}

void changes_threads_end(struct fs *fs)
{
	struct changes_threads *t = fs->threads;

	t->closing = true;
	pthread_mutex_lock(&t->lock);
	for (struct changes *c = t->list; c; c = c->next) {
		pthread_mutex_lock(&c->lock);
		pthread_cond_signal(&c->more);
		pthread_mutex_unlock(&c->lock);
	}
	while (t->n)
		pthread_cond_wait(&t->none, &t->lock);
	pthread_mutex_unlock(&t->lock);
	join_ended(t);
}

void changes_threads_free(struct changes_threads *t)
{
	if (!t)
		return;
	pthread_cond_destroy(&t->none);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
