/* SPDX-License-Identifier: MIT */
/* The object: references, what there is to know, and the way of a call to the agent. Any thread. */
#include "sandbox/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <utlist.h>

struct sandbox *sandbox_new(struct registry *r, const char *name, uint32_t owner)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->refs = 1;
	sb->registry = r;
	sb->owner = owner;
	sb->created = time(NULL);
	pthread_mutex_init(&sb->lock, NULL);
	sb->name = strdup(name);
	sb->id = strdup("");
	sb->template = strdup("");
	sb->config = strdup("");
	sb->image_id = strdup("");
	sb->workspace = strdup("");
	if (!sb->name || !sb->id || !sb->template || !sb->config || !sb->image_id ||
		!sb->workspace ||
		getrandom(sb->session, sizeof(sb->session), 0) != sizeof(sb->session)) {
		sandbox_put(sb);
		return NULL;
	}
	return sb;
}

void sandbox_get(struct sandbox *sb)
{
	sb->refs++;
}

void sandbox_put(struct sandbox *sb)
{
	if (--sb->refs)
		return;
	if (sb->view)
		sb->view_ops->drop(sb->view);
	free(sb->name);
	free(sb->id);
	free(sb->template);
	free(sb->config);
	free(sb->image_id);
	free(sb->workspace);
	free(sb->published);
	owed_fini(sb);
	pthread_mutex_destroy(&sb->lock);
	free(sb);
}

/* What a change of state is called; NULL: nothing that anybody did. */
static const char *called(enum sandbox_state from, enum sandbox_state to)
{
	bool was_up = from == SANDBOX_RUNNING || from == SANDBOX_PAUSED;

	if (to == SANDBOX_FAILED)
		return "failed";
	if (to == SANDBOX_PAUSED)
		return "paused";
	if (to == SANDBOX_RUNNING)
		return from == SANDBOX_PAUSED ? "resumed" : "started";
	return was_up ? "stopped" : NULL;
}

void sandbox_become(struct sandbox *sb, enum sandbox_state state, const char *words)
{
	struct event_field why = {.key = "message", .text = words};
	const char *event = called(sb->state, state);

	if (sb->state == state)
		return;
	sb->state = state;
	sb->moved = ++sb->registry->moves;
	if (event)
		events_add(sb->registry->events, event, sb->name, &why, words && *words);
}

static void call_fail(struct call *c, int code, const char *words)
{
	c->words = words;
	c->done(c, -code, NULL);
}

struct call *sandbox_take_waiting(struct sandbox *sb)
{
	struct call *list = sb->waiting;

	sb->waiting = NULL;
	for (struct call *c = list; c; c = c->next)
		c->waiting = false;
	return list;
}

void calls_fail(struct call *list, int code, const char *words)
{
	struct call *c, *tmp;

	DL_FOREACH_SAFE (list, c, tmp) {
		DL_DELETE(list, c);
		call_fail(c, c->gentle ? EAGAIN : code, words);
	}
}

static void act_as(struct call *c, uint32_t uid, uint32_t gid)
{
	for (int i = 0; i < 4; i++) {
		c->frame.data[16 + i] = (uint8_t)(uid >> (8 * i));
		c->frame.data[20 + i] = (uint8_t)(gid >> (8 * i));
	}
}

bool call_may_repeat(struct call *c)
{
	return (c->repeat || (!c->linked && !call_was_sent(c))) && ++c->losses <= CALL_LOSSES;
}

/* Its connection was lost before it was sent. */
static void send_late(struct sandbox *sb, struct call *c)
{
	if (!call_may_repeat(c))
		call_fail(c, EIO, "the connection to the agent was lost");
	else if (!c->gentle)
		sandbox_call(sb, c);
	else if (sandbox_call_now(sb, c) < 0)
		call_fail(c, EAGAIN, "the connection to the agent was lost");
}

void sandbox_send_unlock(struct sandbox *sb, struct call *c)
{
	struct channel *ch = link_channel(sb->link);
	bool stale = c->epoch && c->epoch != sb->epoch, late = false;

	if (c->as_user && !c->frame.error)
		act_as(c, sb->uid, sb->gid);
	channel_get(ch);
	pthread_mutex_unlock(&sb->lock);
	if (stale)
		call_fail(c, ESTALE, "the sandbox was started anew");
	else
		late = channel_send(ch, c) < 0; /* it was lost just now: the sandbox is not ready */
	channel_put(ch);
	if (late)
		send_late(sb, c);
}

void sandbox_call(struct sandbox *sb, struct call *c)
{
	struct err why = {0};
	bool kick;

	pthread_mutex_lock(&sb->lock);
	if (sb->removed || sb->removing) {
		err_set(&why, ENOENT, "the sandbox was removed");
	} else if (sb->held) {
		err_set(&why, ESHUTDOWN, "the sandbox is %s; write running to ctl/state",
			sandbox_state_name(sb->state));
	} else if (sb->ready && !sb->idle) {
		sandbox_send_unlock(sb, c);
		return;
	} else if (sb->state == SANDBOX_FAILED) {
		why = sb->error;
	} else {
		DL_APPEND(sb->waiting, c);
		c->waiting = true;
		kick = !sb->busy && (sb->state != SANDBOX_PAUSED || sb->idle);
		sb->busy |= kick;
		pthread_mutex_unlock(&sb->lock);
		if (kick)
			lifecycle_bring_up(sb);
		return;
	}
	pthread_mutex_unlock(&sb->lock);
	call_fail(c, why.code ? why.code : EIO, why.msg);
}

static int call_if(struct sandbox *sb, struct call *c, bool even_paused)
{
	pthread_mutex_lock(&sb->lock);
	if (!sb->ready || sb->removed || sb->removing ||
		((sb->state == SANDBOX_PAUSED || sb->idle) && !even_paused)) {
		pthread_mutex_unlock(&sb->lock);
		return -EAGAIN;
	}
	sandbox_send_unlock(sb, c);
	return 0;
}

int sandbox_call_now(struct sandbox *sb, struct call *c)
{
	bool kick;

	c->gentle = true;
	pthread_mutex_lock(&sb->lock);
	if (sb->ready || sb->held || sb->state != SANDBOX_RUNNING || sb->removed || sb->removing) {
		pthread_mutex_unlock(&sb->lock);
		return call_if(sb, c, false);
	}
	DL_APPEND(sb->waiting, c);
	c->waiting = true;
	kick = !sb->busy;
	sb->busy = true;
	pthread_mutex_unlock(&sb->lock);
	if (kick)
		lifecycle_connect(sb);
	return 0;
}

int sandbox_call_linked(struct sandbox *sb, struct call *c)
{
	c->linked = true;
	return call_if(sb, c, true);
}

bool sandbox_cancel_waiting(struct sandbox *sb, struct call *c)
{
	bool was;

	pthread_mutex_lock(&sb->lock);
	was = c->waiting;
	if (was) {
		DL_DELETE(sb->waiting, c);
		c->waiting = false;
	}
	pthread_mutex_unlock(&sb->lock);
	return was;
}

void sandbox_cancel(struct sandbox *sb, struct call *c)
{
	struct channel *ch = NULL;

	pthread_mutex_lock(&sb->lock);
	if (sb->ready) {
		ch = link_channel(sb->link);
		channel_get(ch);
	}
	pthread_mutex_unlock(&sb->lock);
	if (ch) {
		channel_cancel(ch, c);
		channel_put(ch);
	}
}

bool sandbox_answers(struct sandbox *sb)
{
	bool yes;

	pthread_mutex_lock(&sb->lock);
	yes = sb->ready && sb->state != SANDBOX_PAUSED;
	pthread_mutex_unlock(&sb->lock);
	return yes;
}

/* With the lock held. */
static struct sandbox_info numbers(const struct sandbox *sb)
{
	return (struct sandbox_info){
		.state = sb->state,
		.removed = sb->removed,
		.epoch = sb->epoch,
		.uid = sb->uid,
		.gid = sb->gid,
		.timeout_ms = sb->policy.timeout_ms,
		.owner = sb->owner,
		.created = sb->created,
	};
}

void sandbox_numbers(struct sandbox *sb, struct sandbox_info *info)
{
	pthread_mutex_lock(&sb->lock);
	*info = numbers(sb);
	pthread_mutex_unlock(&sb->lock);
}

int sandbox_info(struct sandbox *sb, struct sandbox_info *info)
{
	pthread_mutex_lock(&sb->lock);
	*info = numbers(sb);
	info->name = strdup(sb->name);
	info->id = strdup(sb->id);
	info->template = strdup(sb->template);
	info->image_id = strdup(sb->image_id);
	info->config = strdup(sb->config);
	info->workspace = strdup(sb->workspace);
	pthread_mutex_unlock(&sb->lock);
	if (!info->name || !info->id || !info->template || !info->image_id || !info->config ||
		!info->workspace) {
		sandbox_info_fini(info);
		return -ENOMEM;
	}
	return 0;
}

void sandbox_info_fini(struct sandbox_info *info)
{
	free(info->name);
	free(info->id);
	free(info->template);
	free(info->image_id);
	free(info->config);
	free(info->workspace);
	memset(info, 0, sizeof(*info));
}

uint32_t sandbox_epoch(struct sandbox *sb)
{
	uint32_t epoch;

	pthread_mutex_lock(&sb->lock);
	epoch = sb->epoch;
	pthread_mutex_unlock(&sb->lock);
	return epoch;
}

enum sandbox_state sandbox_state(struct sandbox *sb)
{
	enum sandbox_state s;

	pthread_mutex_lock(&sb->lock);
	s = sb->state;
	pthread_mutex_unlock(&sb->lock);
	return s;
}

const char *sandbox_state_name(enum sandbox_state s)
{
	static const char *const names[] = {
		"creating", "starting", "running", "paused", "stopped", "failed"};

	return names[s];
}

/* FNV-1a of the container's id: the same for every daemon that looks at it. */
uint64_t sandbox_seed(struct sandbox *sb)
{
	uint64_t h = 0xcbf29ce484222325u;

	pthread_mutex_lock(&sb->lock);
	for (const char *p = sb->id; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3u;
	h = *sb->id ? h : 0;
	pthread_mutex_unlock(&sb->lock);
	return h;
}

/* Whether trying the same again may help, without anybody doing anything. */
static bool retryable(int code)
{
	return code == EHOSTDOWN || code == EAGAIN || code == EBUSY || code == EINTR ||
	       code == ETIMEDOUT || code == ECONNRESET;
}

void sandbox_error_render(struct sandbox *sb, struct buf *out)
{
	pthread_mutex_lock(&sb->lock);
	if (sb->error.code)
		buf_printf(out, "code: %s\nop: %s\nretryable: %s\nmessage: %s\n",
			err_name(sb->error.code), sb->error_op,
			retryable(sb->error.code) ? "yes" : "no", sb->error.msg);
	pthread_mutex_unlock(&sb->lock);
}

void sandbox_error(struct sandbox *sb, const char *op, const char *path, const struct err *err)
{
	char where[256];
	uint32_t owner;

	pthread_mutex_lock(&sb->lock);
	owner = sb->owner;
	sb->error = *err;
	snprintf(sb->error_op, sizeof(sb->error_op), "%s", op);
	snprintf(where, sizeof(where), "%s%s%s", sb->name, *path ? "/" : "", path);
	pthread_mutex_unlock(&sb->lock);
	report_add(sb->registry->report, owner, op, where, err);
}

void *sandbox_view(struct sandbox *sb, const struct view_ops *ops, void *arg)
{
	void *view;

	pthread_mutex_lock(&sb->lock);
	if (!sb->view) {
		sb->view = ops->make(sb, arg);
		sb->view_ops = ops;
	}
	view = sb->view;
	pthread_mutex_unlock(&sb->lock);
	return view;
}
