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
#include "fs/tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#define LINGER_S       2 /* how long a thread waits for more */
#define AGAIN_AFTER_MS 200
#define HOLD_MS	       3000   /* for changes that were counted: then they do not come */
#define PACE_NS	       500000 /* an agent that always has something cannot keep us busy */
#define REST_ALL_MS    50u
#define REST_MAX_MS    500u

struct batch {
	struct batch *next;
	uint64_t seq;	/* the agent's, after these */
	uint32_t epoch; /* 0: not from the agent */
	bool all;	/* everything; then no body */
	void (*then)(void *arg);
	void *arg;
	struct inode
		*dir; /* a reference; not NULL: the host's own doing in it: the body is a name */
	struct inode *moved; /* out of dir; a reference; then no name */
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

static void ask(struct changes *c);
static void be_patient(struct changes *c);

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void batch_free(struct batch *b)
{
	inode_put(b->dir);
	inode_put(b->moved);
	free(b);
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
		batch_free(b);
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

void changes_tell_attr(struct inode *i)
{
	fuse_lowlevel_notify_inval_inode(i->fs->session, tell_number(i), -1, 0);
}

static bool closing(const void *arg)
{
	const struct changes *c = arg;

	return c->fs->threads->closing;
}

/* What the agent of a removed sandbox says is of no use either. */
static bool useless(const void *arg)
{
	const struct changes *c = arg;

	return closing(c) || box_is_husk(c->sb);
}

/* Returns how long to rest afterwards, in ms. An agent that has much to say gets half of a thread's
 * time at most; and one that says again and again that everything has changed costs the others,
 * whose names are looked up anew each time, not much. */
static unsigned tell_batch(struct changes *c, const struct batch *b)
{
	struct telling t = {.fs = c->fs,
		.table = c->table,
		.sb = c->sb,
		.useless = b->epoch ? useless : closing,
		.arg = c};
	int64_t since = now_ns(), ms;
	bool all = false;

	if (b->all)
		tell_all(&t);
	else if (b->moved)
		tell_moved(&t, b->dir, b->moved);
	else if (b->dir)
		tell_name(&t, b->dir, (const char *)b->body, b->len, false);
	else
		all = tell_body(&t, b->body, b->len);
	ms = (now_ns() - since) / 1000000;
	if (all && ms < REST_ALL_MS)
		ms = REST_ALL_MS;
	return ms < REST_MAX_MS ? (unsigned)ms : REST_MAX_MS;
}

/* --- the thread ---------------------------------------------------------------------------------
 */

static struct timespec from_now(int64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	ns += t.tv_nsec;
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	return t;
}

/* The next batch. NULL: it is time to ask (ask_at, if that is not 0), or there has been none for a
 * while, and the thread is no longer the thread. */
static struct batch *next_batch(struct changes *c, int64_t ask_at)
{
	int64_t wait = ask_at ? ask_at - now_ns() : LINGER_S * INT64_C(1000000000);
	struct timespec until = from_now(wait > 0 ? wait : 0);
	struct batch *b;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->first && r == 0 && !c->fs->threads->closing)
		r = pthread_cond_timedwait(&c->more, &c->lock, &until);
	b = c->first;
	if (b) {
		c->first = b->next;
		if (!c->first)
			c->last = &c->first;
	} else if (!ask_at) {
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

/* Returns when the agent is to be asked for more; 0: not for this. */
static int64_t work_off(struct changes *c, struct batch *b)
{
	unsigned rest_ms = c->fs->threads->closing ? 0 : tell_batch(c, b);
	int64_t ask_at = 0;

	pthread_mutex_lock(&c->lock);
	if (b->epoch == c->epoch && b->seq > c->told)
		c->told = b->seq;
	pthread_mutex_unlock(&c->lock);
	release(c);
	if (b->then)
		b->then(b->arg);
	if (b->epoch) {
		ask_at = now_ns() + rest_ms * INT64_C(1000000);
		if (ask_at < c->asked_ns + PACE_NS)
			ask_at = c->asked_ns + PACE_NS;
	}
	batch_free(b);
	return ask_at;
}

static void *run(void *arg)
{
	struct teller *me = arg;
	struct changes *c = me->c;
	struct changes_threads *t = c->fs->threads;
	struct sandbox *sb = c->sb;
	int64_t ask_at = 0;

	for (;;) {
		struct batch *b = next_batch(c, ask_at);
		int64_t at = b ? work_off(c, b) : 0;

		if (at)
			ask_at = at; /* one question, so one answer at a time */
		if (!b && !ask_at)
			break;
		if (ask_at && (t->closing || now_ns() >= ask_at)) {
			ask_at = 0;
			if (!t->closing)
				ask(c);
		}
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
	if (c->fs->threads->closing) { /* there may be no thread any more */
		if (b->then)
			b->then(b->arg);
		batch_free(b);
		return;
	}
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

void changes_settle(struct inode *dir, struct inode *moved)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b) { /* then it stays so */
		inode_put(moved);
		return;
	}
	inode_get(dir);
	b->dir = dir;
	b->moved = moved;
	put_batch(itable_changes(dir->table), b);
}

void changes_tell_name(struct inode *dir, const char *name)
{
	struct changes *c = itable_changes(dir->table);
	size_t n = name ? strlen(name) : 0;
	struct batch *b = name ? calloc(1, sizeof(*b) + n + 1) : NULL;

	if (!b) {
		changes_drop_all(c, NULL, NULL);
		return;
	}
	inode_get(dir);
	b->dir = dir;
	b->len = n;
	memcpy(b->body, name, n + 1);
	put_batch(c, b);
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

void changes_threads_close(struct fs *fs)
{
	struct changes_threads *t = fs->threads;

	t->closing = true;
	pthread_mutex_lock(&t->lock);
	for (struct changes *c = t->list; c; c = c->next) {
		pthread_mutex_lock(&c->lock);
		pthread_cond_signal(&c->more);
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_unlock(&t->lock);
}

bool changes_threads_end(struct fs *fs, int patience_ms)
{
	struct changes_threads *t = fs->threads;
	struct timespec until;
	bool ended;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += patience_ms / 1000;
	pthread_mutex_lock(&t->lock);
	while (t->n && r == 0)
		r = patience_ms < 0 ? pthread_cond_wait(&t->none, &t->lock)
				    : pthread_cond_timedwait(&t->none, &t->lock, &until);
	ended = t->n == 0;
	pthread_mutex_unlock(&t->lock);
	join_ended(t);
	return ended;
}

void changes_threads_free(struct changes_threads *t)
{
	if (!t)
		return;
	pthread_cond_destroy(&t->none);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
