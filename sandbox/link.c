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
#define LINK_LOSSES	  5    /* so many connections in a row that broke soon: it is no use */
#define LINK_SOON_MS	  1000 /* after its greeting */
#define REFUSED_MAX	  5    /* so many in a row that were never greeted */

struct link {
	_Atomic int refs; /* the channel's, until it is gone, and that of who sends the greeting */
	struct sandbox *sb; /* a reference */
	struct channel *ch;
	struct call hello, setup;
	struct proto_hello said; /* the greeting's answer; I/O thread's */
	bool greeted;		 /* hello was answered; I/O thread's, then constant */
	bool settled;		 /* and it is known whether the sandbox can serve; I/O thread's */
	bool started;		 /* the container was started for it */
	int64_t greeted_ms;	 /* when; I/O thread's */
	bool broke;		 /* the agent broke the protocol; I/O thread's */
	struct err why;		 /* why it went down; I/O thread's */
	struct call *limbo;	 /* lost calls that may be sent again; I/O thread's */
};

struct channel *link_channel(struct link *l)
{
	return l->ch;
}

static void link_put(struct link *l)
{
	if (--l->refs)
		return;
	call_fini(&l->hello);
	call_fini(&l->setup);
	proto_hello_fini(&l->said);
	channel_put(l->ch);
	sandbox_put(l->sb);
	free(l);
}

void lifecycle_fail(struct sandbox *sb, const char *op, const struct err *err, bool for_good)
{
	struct call *list;

	sandbox_error(sb, op, "", err);
	pthread_mutex_lock(&sb->lock);
	if (for_good && !sb->removed)
		sandbox_become(sb, SANDBOX_FAILED, err->msg);
	else if (for_good)
		sb->state = SANDBOX_FAILED; /* its removal has been told */
	else if (sb->state == SANDBOX_STARTING)
		sandbox_become(sb, SANDBOX_STOPPED, NULL);
	sb->busy = false;
	list = sandbox_take_waiting(sb);
	if (err->code == EHOSTDOWN && !for_good)
		lifecycle_keep(sb, &list);
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

/* With the lock held: it runs and is connected; what waited is sent. */
static void serve(struct sandbox *sb)
{
	const struct link *l = sb->link;
	struct call *c;

	sandbox_become(sb, SANDBOX_RUNNING, NULL);
	sb->busy = sb->idle = false;
	while ((c = sb->waiting) && sb->ready && !sb->idle && sb->link == l) {
		DL_DELETE(sb->waiting, c);
		c->waiting = false;
		c->until_ms = 0; /* the engine is back */
		sandbox_send_unlock(sb, c);
		pthread_mutex_lock(&sb->lock);
	}
}

/* The handshake is done. */
static void greeted(struct link *l, const struct proto_hello *h)
{
	struct sandbox *sb = l->sb;
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
	sb->refused = 0;
	if (!h->resumed || !sb->epoch)
		sb->epoch++;
	sb->uid = h->uid;
	sb->gid = h->gid;
	old = sb->workspace;
	sb->workspace = workspace ? workspace : old;
	sb->ready = true;
	owed_send(sb);
	serve(sb);
	view = sb->view;
	pthread_mutex_unlock(&sb->lock);
	if (workspace)
		free(old);
	if (view)
		sb->view_ops->up(view);
	idle_ask(sb);
}

bool lifecycle_send_waiting(struct sandbox *sb)
{
	bool ready;

	pthread_mutex_lock(&sb->lock);
	ready = sb->ready;
	if (ready)
		serve(sb);
	pthread_mutex_unlock(&sb->lock);
	if (ready)
		idle_ask(sb);
	return ready;
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

static void give_up(struct link *l, const char *op, const struct err *err)
{
	l->settled = true;
	lifecycle_fail(l->sb, op, err, true);
	lifecycle_unlink(l->sb);
}

static bool hello_done(struct call *c, int r, struct wire_in *body)
{
	struct link *l = (struct link *)((char *)c - offsetof(struct link, hello));
	struct err err = {0};
	bool ok = true;

	l->greeted = true;
	l->greeted_ms = loop_now_ms();
	if (r < 0) {
		err_set(&err, -r, "the agent refused us: %s", *c->words ? c->words : strerror(-r));
	} else {
		proto_get_hello(body, &l->said);
		ok = wire_end(body);
		r = ok ? check_hello(l->sb, &l->said, &err)
		       : err_set(&err, EPROTO, "the agent's greeting is malformed");
	}
	if (r < 0) {
		give_up(l, "connect", &err);
		return ok;
	}
	pthread_mutex_lock(&l->sb->lock);
	l->sb->setting_up = l->sb->link == l;
	pthread_mutex_unlock(&l->sb->lock);
	return true;
}

/* The setup has ended, now or at an earlier start; the sandbox serves, or has failed. */
static bool setup_done(struct call *c, int r, struct wire_in *body)
{
	struct link *l = (struct link *)((char *)c - offsetof(struct link, setup));
	struct proto_setup s = {0};
	struct err err = {0};

	if (l->settled)
		return true; /* its greeting has failed */
	if (r == 0) {
		proto_get_setup(body, &s);
		if (!wire_end(body)) {
			proto_setup_fini(&s);
			return false;
		}
		r = setup_verdict(l->sb, &s, l->started, &err);
	} else if (r == -EOPNOTSUPP) {
		r = 0; /* an agent that knows of no setup */
	} else {
		err_set(&err, -r, "the setup: %s", *c->words ? c->words : strerror(-r));
	}
	if (r < 0) {
		give_up(l, s.result == PROTO_SETUP_HOOK_FAILED ? "post_start" : "setup", &err);
	} else {
		l->settled = true;
		greeted(l, &l->said);
	}
	proto_setup_fini(&s);
	return true;
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

	if (c == &l->hello || c == &l->setup)
		return; /* on_gone looks at greeted and settled */
	if (call_was_sent(c))
		owed_outcome(l->sb, c);
	if (!l->broke && call_may_repeat(c)) {
		DL_APPEND(l->limbo, c);
		return;
	}
	c->words = l->why.code ? l->why.msg : "the connection to the agent was lost";
	c->done(c, -EIO, NULL);
}

static void on_owed(void *arg, struct call *c)
{
	owed_give(((struct link *)arg)->sb, c);
}

static bool try_again(struct sandbox *sb)
{
	bool again;

	pthread_mutex_lock(&sb->lock);
	again = !sb->removing && !sb->removed && ++sb->refused < REFUSED_MAX;
	pthread_mutex_unlock(&sb->lock);
	return again;
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
	/* It was ending just when we came: now it can be started. The engine may not know yet. */
	if (!started && (ended || (!broke && err->code != EHOSTDOWN && try_again(sb)))) {
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
		err_set(&err, EIO, "no greeting from the agent: %s", l->why.msg);
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

static void send_again(struct sandbox *sb, struct call *list)
{
	struct call *c, *tmp;

	DL_FOREACH_SAFE (list, c, tmp) {
		DL_DELETE(list, c);
		sandbox_call(sb, c);
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
		sb->ready = sb->setting_up = false;
	}
	wanted = !sb->removing && !sb->removed;
	if (l->greeted && wanted && !sb->held && !sb->idle)
		count_loss(l);
	/* Lost during the setup: that goes on inside, and we are still busy with it. */
	again = current && l->greeted && !l->broke && wanted &&
		(l->settled ? !sb->busy && (l->limbo || sb->waiting) : sb->busy);
	sb->busy |= again;
	pthread_mutex_unlock(&sb->lock);

	if (!l->greeted)
		handshake_failed(l, wanted);
	else if (l->broke)
		lifecycle_fail(sb, "protocol", &l->why, true);
	if (again)
		lifecycle_recover(sb, l->limbo);
	else if (l->greeted && !l->broke && wanted)
		send_again(sb, l->limbo); /* somebody else brings it up */
	else
		calls_fail(l->limbo, EIO, "the sandbox ended while this was under way");
	pthread_mutex_lock(&r->lock);
	r->links--;
	pthread_cond_broadcast(&r->links_gone);
	pthread_mutex_unlock(&r->lock);
	link_put(l);
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
	if (p->sb->link == p->l && !p->sb->ready && !p->sb->setting_up && p->sb->busy) {
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
		.down = on_down, .lost = on_lost, .owed = on_owed, .gone = on_gone, .arg = l};
	int r;

	if (!l) {
		s->close(s);
		return err_set(err, ENOMEM, "no memory for a connection");
	}
	l->refs = 2;
	l->sb = sb;
	l->started = started;
	sandbox_get(sb);
	call_begin(&l->hello, PROTO_HELLO, 0, 0);
	wire_u32(&l->hello.frame, PROTO_MAGIC);
	wire_u32(&l->hello.frame, PROTO_VERSION);
	wire_u32(&l->hello.frame, PROTO_VERSION_MIN);
	buf_append(&l->hello.frame, sb->session, sizeof(sb->session));
	l->hello.done = hello_done;
	call_begin(&l->setup, PROTO_SETUP, 0, 0);
	l->setup.done = setup_done;

	pthread_mutex_lock(&reg->lock);
	reg->links++;
	pthread_mutex_unlock(&reg->lock);
	/* Under the lock, so that no event sees a sandbox that does not know its link. */
	pthread_mutex_lock(&sb->lock);
	if (sb->removed) { /* meanwhile, or all is being closed: nobody would end it any more */
		s->close(s);
		r = -ENOENT;
	} else {
		r = channel_new(reg->loop, s, &events, &l->ch);
	}
	if (r == 0) {
		sb->link = l;
		sb->ready = sb->setting_up = false;
	}
	pthread_mutex_unlock(&sb->lock);
	if (r < 0) {
		pthread_mutex_lock(&reg->lock);
		reg->links--;
		pthread_mutex_unlock(&reg->lock);
		call_fini(&l->hello);
		call_fini(&l->setup);
		free(l);
		sandbox_put(sb);
		return err_set(err, -r, "cannot watch the connection: %s", strerror(-r));
	}
	/* The connection may be lost already, and all of that told. */
	expect_hello(sb, l);
	(void)channel_send(l->ch, &l->hello);
	(void)channel_send(l->ch, &l->setup); /* at once: one round trip for both */
	link_put(l);
	return 0;
}

/* The user has stopped or paused it, perhaps just now and by another daemon: it stays so, and who
 * waits for it hears that. False: it was released since the engine was asked. */
static bool stay_held(struct sandbox *sb, enum engine_state state, uint64_t asked)
{
	struct call *list;

	pthread_mutex_lock(&sb->lock);
	if (sb->moved > asked) {
		pthread_mutex_unlock(&sb->lock);
		return false;
	}
	sb->held = true;
	sandbox_become(sb, state == ENGINE_PAUSED ? SANDBOX_PAUSED : SANDBOX_STOPPED, NULL);
	sb->busy = false;
	list = sandbox_take_waiting(sb);
	pthread_mutex_unlock(&sb->lock);
	calls_fail(list, ESHUTDOWN, "the sandbox was stopped or paused");
	return true;
}

static bool is_held(const struct engine_box *box)
{
	return (box->mark == ENGINE_MARK_STOPPED && box->state == ENGINE_EXITED) ||
	       (box->mark == ENGINE_MARK_PAUSED && box->state == ENGINE_PAUSED);
}

/* Starts the container if it must be. 0: it runs; 1: it is stopped or paused by somebody, and that
 * has been seen to; -errno. */
static int ensure_running(struct sandbox *sb, bool *started, struct err *err)
{
	struct registry *reg = sb->registry;
	const struct engine_ops *ops = reg->engine->ops;
	struct engine_box box = {0};
	enum engine_state state;
	int r;

	for (bool again = true; again;) {
		uint64_t asked = reg->moves;

		r = ops->inspect(reg->engine, sb->id, &box, err);
		if (r < 0)
			return r;
		state = box.state;
		again = is_held(&box);
		if (again) {
			engine_box_fini(&box);
			if (stay_held(sb, state, asked))
				return 1;
		}
	}
	if (box.mark == ENGINE_MARK_IDLE) {
		if (state == ENGINE_PAUSED &&
			(r = ops->pause(reg->engine, sb->id, false, err)) == 0)
			state = ENGINE_RUNNING;
		if (r == 0)
			r = ops->rename(reg->engine, sb->id, box.name, ENGINE_MARK_NONE, err);
	}
	engine_box_fini(&box);
	if (r < 0)
		return r;
	if (state == ENGINE_RUNNING)
		return 0;
	if (state == ENGINE_GONE)
		return err_set(err, ENOENT, "the container is being removed");
	pthread_mutex_lock(&sb->lock);
	sandbox_become(sb, state == ENGINE_PAUSED ? SANDBOX_PAUSED : SANDBOX_STARTING, NULL);
	if (state == ENGINE_PAUSED)
		sb->busy = false;
	else
		sb->published_known = false;
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
		registry_removed(reg, sb, false);
		lifecycle_fail(sb, "start", &err, true);
		return;
	}
	if (r < 0) {
		lifecycle_fail(sb, "start", &err, r != -EHOSTDOWN);
		return;
	}
	if (lifecycle_send_waiting(sb)) /* it was only paused */
		return;
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
