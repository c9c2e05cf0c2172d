/* SPDX-License-Identifier: MIT */
/*
 * A sandbox's connection: bringing the container up, the handshake, and what becomes of the calls
 * when the connection is lost. bring_up runs in lifecycle threads (sb->busy makes it one at a
 * time); the channel's events come from an I/O thread.
 */
#include "sandbox/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define HELLO_PATIENCE_MS 30000
#define CALL_LOSSES	  3    /* a call is sent again so often */
#define LINK_LOSSES	  5    /* so many connections in a row that broke soon: it is no use */
#define LINK_SOON_MS	  1000 /* after its greeting */

struct link {
	struct sandbox *sb; /* a reference */
	struct channel *ch;
	struct call hello;
	bool greeted;	    /* hello was answered; I/O thread's, then constant */
	bool started;	    /* the container was started for it */
	int64_t greeted_ms; /* when; I/O thread's */
	bool broke;	    /* the agent broke the protocol; I/O thread's */
	struct err why;	    /* why it went down; I/O thread's */
	struct call *limbo; /* lost calls that may be sent again; I/O thread's */
};

struct channel *link_channel(struct link *l)
{
	return l->ch;
}

void lifecycle_fail(struct sandbox *sb, const char *op, const struct err *err, bool for_good)
{
	struct call *list;

	sandbox_error(sb, op, "", err);
	pthread_mutex_lock(&sb->lock);
	if (for_good)
		sb->state = SANDBOX_FAILED;
	else if (sb->state == SANDBOX_STARTING)
		sb->state = SANDBOX_STOPPED;
	sb->busy = false;
	list = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(list, err->code, err->msg);
}

void lifecycle_unlink(struct sandbox *sb)
{
	struct channel *ch = NULL;

	pthread_mutex_lock(&sb->lock);
	sb->ready = false;
	if (sb->link) {
		ch = sb->link->ch;
		channel_get(ch);
	}
	pthread_mutex_unlock(&sb->lock);
	if (ch) {
		channel_close(ch);
		channel_put(ch);
	}
}

/* The handshake is done: what waited is sent. */
static void greeted(struct link *l, const struct proto_hello *h)
{
	struct sandbox *sb = l->sb;
	struct call *c;
	char *workspace = strdup(h->workspace), *old;
	void *view;

	pthread_mutex_lock(&sb->lock);
	if (sb->state == SANDBOX_FAILED) { /* for good, by an older connection that broke */
		sb->busy = false;
		pthread_mutex_unlock(&sb->lock);
		free(workspace);
		channel_close(l->ch);
		return;
	}
	if (!h->resumed || !sb->epoch)
		sb->epoch++;
	sb->uid = h->uid;
	sb->gid = h->gid;
	old = sb->workspace;
	sb->workspace = workspace ? workspace : old;
	sb->state = SANDBOX_RUNNING;
	sb->busy = false;
	sb->ready = true;
	while ((c = sb->waiting) && sb->ready && sb->link == l) {
		DL_DELETE(sb->waiting, c);
		c->waiting = false;
		sandbox_send_unlock(sb, c);
		pthread_mutex_lock(&sb->lock);
	}
	view = sb->view;
	pthread_mutex_unlock(&sb->lock);
	if (workspace)
		free(old);
	if (view)
		sb->view_ops->up(view);
}

static int check_hello(struct sandbox *sb, const struct proto_hello *h, struct err *err)
{
	bool moved;

	if (h->version < PROTO_VERSION_MIN || h->version > PROTO_VERSION)
		return err_set(err, EPROTONOSUPPORT,
			"the agent speaks protocol version %u, this daemon %u to %u", h->version,
			PROTO_VERSION_MIN, PROTO_VERSION);
	if (*h->trouble)
		return err_set(err, EIO, "%s", h->trouble);
	if (!proto_path_ok(h->workspace)) /* link texts are made with it */
		return err_set(err, EPROTO, "the agent names no proper workspace");
	pthread_mutex_lock(&sb->lock);
	moved = *sb->workspace && strcmp(sb->workspace, h->workspace) != 0;
	pthread_mutex_unlock(&sb->lock);
	if (moved)
		return err_set(err, EPROTO, "the agent names another workspace than before");
	return 0;
}

static bool hello_done(struct call *c, int r, struct wire_in *body)
{
	struct link *l = (struct link *)((char *)c - offsetof(struct link, hello));
	struct proto_hello h = {0};
	struct err err = {0};
	bool ok = true;

	l->greeted = true;
	l->greeted_ms = loop_now_ms();
	if (r < 0) {
		err_set(&err, -r, "the agent refused us: %s", *c->words ? c->words : strerror(-r));
	} else {
		proto_get_hello(body, &h);
		ok = wire_end(body);
		r = ok ? check_hello(l->sb, &h, &err)
		       : err_set(&err, EPROTO, "the agent's greeting is malformed");
	}
	if (r < 0) {
		lifecycle_fail(l->sb, "connect", &err, true);
		lifecycle_unlink(l->sb);
	} else {
		greeted(l, &h);
	}
	proto_hello_fini(&h);
	return ok;
}

static void on_down(void *arg, bool broke, const struct err *err)
{
	struct link *l = arg;

	l->broke = broke;
	l->why = *err;
	pthread_mutex_lock(&l->sb->lock);
	if (l->sb->link == l)
		l->sb->ready = false;
	pthread_mutex_unlock(&l->sb->lock);
}

static void on_lost(void *arg, struct call *c)
{
	struct link *l = arg;

	if (c == &l->hello)
		return; /* on_gone looks at greeted */
	if (c->repeat && !l->broke && ++c->losses <= CALL_LOSSES) {
		DL_APPEND(l->limbo, c);
		return;
	}
	c->words = l->why.code ? l->why.msg : "the connection to the agent was lost";
	c->done(c, -EIO, NULL);
}

/* The connection broke while calls were under way. If the container is still there the calls that
 * may be repeated are sent again; they do not wake one that has ended. */
struct recovery {
	struct sandbox *sb;
	struct call *limbo;
};

static void recover(void *arg)
{
	struct recovery *rec = arg;
	struct sandbox *sb = rec->sb;
	const struct engine_ops *ops = sb->registry->engine->ops;
	struct engine_box box = {0};
	struct err err = {0};
	struct call *c, *tmp;
	int r = ops->inspect(sb->registry->engine, sb->id, &box, &err);
	bool up = r == 0 && (box.state == ENGINE_RUNNING || box.state == ENGINE_PAUSED);

	if (r == 0)
		err_set(&err, EIO, "the sandbox ended while this was under way");
	if (!up) {
		calls_fail(rec->limbo, err.code, err.msg);
	} else {
		pthread_mutex_lock(&sb->lock);
		DL_FOREACH_SAFE (rec->limbo, c, tmp) {
			DL_DELETE(rec->limbo, c);
			DL_APPEND(sb->waiting, c);
			c->waiting = true;
		}
		pthread_mutex_unlock(&sb->lock);
	}
	pthread_mutex_lock(&sb->lock);
	up = sb->waiting != NULL;
	sb->busy = up;
	pthread_mutex_unlock(&sb->lock);
	if (up)
		lifecycle_bring_up_now(sb);
	if (r == 0)
		registry_apply(sb->registry, &box);
	engine_box_fini(&box);
	sandbox_put(sb);
	free(rec);
}

static void start_recovery(struct sandbox *sb, struct call *limbo)
{
	struct recovery *rec = malloc(sizeof(*rec));

	if (rec) {
		*rec = (struct recovery){.sb = sb, .limbo = limbo};
		sandbox_get(sb);
		if (pool_run(sb->registry->pool, recover, rec) == 0)
			return;
		sandbox_put(sb);
		free(rec);
	}
	pthread_mutex_lock(&sb->lock);
	sb->busy = false;
	pthread_mutex_unlock(&sb->lock);
	calls_fail(limbo, ENOMEM, "no memory to connect again");
}

/* Why the agent cannot be reached: the container's own end says more than a lost connection. */
static void connect_failed(struct sandbox *sb, struct err *err, bool broke, bool started)
{
	struct registry *reg = sb->registry;
	struct engine_box box = {0};
	struct err ignored = {0};
	bool ended = false;

	if (!broke && err->code != EHOSTDOWN &&
		reg->engine->ops->inspect(reg->engine, sb->id, &box, &ignored) == 0) {
		ended = box.state == ENGINE_EXITED;
		if (ended)
			err_set(err, EIO, "the container ended at once with exit code %d%s%s",
				box.exit_code, *box.error ? ": " : "", box.error);
		engine_box_fini(&box);
	}
	if (ended && !started) { /* it was ending just when we came: now it can be started */
		lifecycle_bring_up_now(sb);
		return;
	}
	lifecycle_fail(sb, "connect", err,
		broke || ended || (err->code != EHOSTDOWN && !sandbox_epoch(sb)));
}

/* The greeting was never answered. The engine knows more, so a lifecycle thread asks it. */
struct diagnosis {
	struct sandbox *sb;
	struct err err;
	bool broke, started;
};

static void diagnose(void *arg)
{
	struct diagnosis *d = arg;

	connect_failed(d->sb, &d->err, d->broke, d->started);
	sandbox_put(d->sb);
	free(d);
}

static void handshake_failed(struct link *l, bool wanted)
{
	struct diagnosis *d = wanted ? malloc(sizeof(*d)) : NULL;
	struct err err = l->why;

	if (!err.code)
		err_set(&err, EIO, "the agent did not answer the greeting within %d s",
			HELLO_PATIENCE_MS / 1000);
	else
		err_prefix(&err, "no greeting from the agent");
	if (d) {
		*d = (struct diagnosis){
			.sb = l->sb, .err = err, .broke = l->broke, .started = l->started};
		sandbox_get(l->sb);
		if (pool_run(l->sb->registry->pool, diagnose, d) == 0)
			return;
		sandbox_put(l->sb);
		free(d);
	}
	if (wanted)
		lifecycle_fail(l->sb, "connect", &err, l->broke);
}

/* With the sandbox's lock held: connections that break soon after their greeting, one after
 * another, are as bad as a broken protocol. A container that ended is another matter: it is not
 * running then. */
static void count_loss(struct link *l)
{
	struct sandbox *sb = l->sb;

	if (loop_now_ms() - l->greeted_ms > LINK_SOON_MS)
		sb->losses = 0;
	else if (++sb->losses >= LINK_LOSSES && !l->broke) {
		l->broke = true;
		if (!l->why.code)
			err_set(&l->why, EIO, "the connection to the agent was lost");
		err_prefix(&l->why, "%u connections broke in a row", sb->losses);
	}
}

static void on_gone(void *arg)
{
	struct link *l = arg;
	struct sandbox *sb = l->sb;
	struct registry *r = sb->registry;
	bool again, current, wanted;

	pthread_mutex_lock(&sb->lock);
	current = sb->link == l;
	if (current) {
		sb->link = NULL;
		sb->ready = false;
	}
	wanted = !sb->removing && !sb->removed;
	if (l->greeted && wanted && !sb->held)
		count_loss(l);
	again = current && l->greeted && !l->broke && wanted && !sb->busy &&
		(l->limbo || sb->waiting);
	sb->busy |= again;
	pthread_mutex_unlock(&sb->lock);

	if (!l->greeted)
		handshake_failed(l, wanted);
	else if (l->broke)
		lifecycle_fail(sb, "protocol", &l->why, true);
	if (again)
		start_recovery(sb, l->limbo);
	else
		calls_fail(l->limbo, EIO, "the sandbox ended while this was under way");
	call_fini(&l->hello);
	channel_put(l->ch);
	free(l);

	pthread_mutex_lock(&r->lock);
	r->links--;
	pthread_cond_broadcast(&r->links_gone);
	pthread_mutex_unlock(&r->lock);
	sandbox_put(sb);
}

struct patience {
	struct sandbox *sb;
	struct link *l; /* compared, never followed */
};

static void no_hello(void *arg)
{
	struct patience *p = arg;
	struct channel *ch = NULL;

	pthread_mutex_lock(&p->sb->lock);
	if (p->sb->link == p->l && !p->sb->ready && p->sb->busy) {
		ch = p->sb->link->ch;
		channel_get(ch);
	}
	pthread_mutex_unlock(&p->sb->lock);
	if (ch) {
		channel_close(ch);
		channel_put(ch);
	}
	sandbox_put(p->sb);
	free(p);
}

static void expect_hello(struct sandbox *sb, struct link *l)
{
	struct patience *p = malloc(sizeof(*p));

	if (!p)
		return;
	sandbox_get(sb);
	*p = (struct patience){.sb = sb, .l = l};
	if (loop_after(sb->registry->loop, HELLO_PATIENCE_MS, no_hello, p) < 0) {
		sandbox_put(sb);
		free(p);
	}
}

/* Makes a connection of a stream and greets. The rest happens in the I/O thread. */
static int link_new(struct sandbox *sb, struct stream *s, bool started, struct err *err)
{
	struct registry *reg = sb->registry;
	struct link *l = calloc(1, sizeof(*l));
	struct channel_events events = {
		.down = on_down, .lost = on_lost, .gone = on_gone, .arg = l};
	int r;

	if (!l) {
		s->close(s);
		return err_set(err, ENOMEM, "no memory for a connection");
	}
	l->sb = sb;
	l->started = started;
	sandbox_get(sb);
	call_begin(&l->hello, PROTO_HELLO, 0, 0);
	wire_u32(&l->hello.frame, PROTO_MAGIC);
	wire_u32(&l->hello.frame, PROTO_VERSION);
	wire_u32(&l->hello.frame, PROTO_VERSION_MIN);
	buf_append(&l->hello.frame, sb->session, sizeof(sb->session));
	l->hello.done = hello_done;

	pthread_mutex_lock(&reg->lock);
	reg->links++;
	pthread_mutex_unlock(&reg->lock);
	/* Under the lock, so that no event sees a sandbox that does not know its link. */
	pthread_mutex_lock(&sb->lock);
	r = channel_new(reg->loop, s, &events, &l->ch);
	if (r == 0) {
		sb->link = l;
		sb->ready = false;
		channel_get(l->ch); /* for the send below */
	}
	pthread_mutex_unlock(&sb->lock);
	if (r < 0) {
		pthread_mutex_lock(&reg->lock);
		reg->links--;
		pthread_mutex_unlock(&reg->lock);
		call_fini(&l->hello);
		free(l);
		sandbox_put(sb);
		return err_set(err, -r, "cannot watch the connection: %s", strerror(-r));
	}
	struct channel *ch = l->ch;

	expect_hello(sb, l);
	channel_send(ch, &l->hello);
	channel_put(ch);
	return 0;
}

/* Starts the container if it must be. 0: it runs; 1: it is paused by somebody, wait; -errno. */
static int ensure_running(struct sandbox *sb, bool *started, struct err *err)
{
	struct registry *reg = sb->registry;
	const struct engine_ops *ops = reg->engine->ops;
	struct engine_box box = {0};
	enum engine_state state;
	int r = ops->inspect(reg->engine, sb->id, &box, err);

	if (r < 0)
		return r;
	state = box.state;
	engine_box_fini(&box);
	if (state == ENGINE_RUNNING)
		return 0;
	if (state == ENGINE_GONE)
		return err_set(err, ENOENT, "the container is being removed");
	pthread_mutex_lock(&sb->lock);
	sb->state = state == ENGINE_PAUSED ? SANDBOX_PAUSED : SANDBOX_STARTING;
	if (state == ENGINE_PAUSED)
		sb->busy = false;
	pthread_mutex_unlock(&sb->lock);
	if (state == ENGINE_PAUSED)
		return 1;
	*started = true;
	return ops->start(reg->engine, sb->id, err);
}

void lifecycle_bring_up_now(struct sandbox *sb)
{
	struct registry *reg = sb->registry;
	struct err err = {0};
	bool started = false;
	struct stream *s;
	int r = ensure_running(sb, &started, &err);

	if (r == 1)
		return;
	if (r == -ENOENT) {
		registry_drop(reg, sb, false);
		lifecycle_fail(sb, "start", &err, true);
		return;
	}
	if (r < 0) {
		lifecycle_fail(sb, "start", &err, r != -EHOSTDOWN);
		return;
	}
	if (reg->engine->ops->connect(reg->engine, sb->id, &s, &err) < 0) {
		connect_failed(sb, &err, false, started);
		return;
	}
	if (link_new(sb, s, started, &err) < 0)
		lifecycle_fail(sb, "connect", &err, false);
}

static void bring_up_task(void *arg)
{
	struct sandbox *sb = arg;

	lifecycle_bring_up_now(sb);
	sandbox_put(sb);
}

void lifecycle_bring_up(struct sandbox *sb)
{
	struct err err = {0};

	sandbox_get(sb);
	if (pool_run(sb->registry->pool, bring_up_task, sb) < 0) {
		err_set(&err, ENOMEM, "no memory to start the sandbox");
		lifecycle_fail(sb, "start", &err, false);
		sandbox_put(sb);
	}
}
