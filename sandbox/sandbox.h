/* SPDX-License-Identifier: MIT */
/*
 * One sandbox: its state, its connection to the agent, and the calls that wait for it. The view
 * (fs/) holds references; the registry and the lifecycle change it.
 */
#pragma once

#include "sandbox/channel.h"
#include "sandbox/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct sandbox;
struct registry;

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_STARTING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSED,
	SANDBOX_STOPPED,
	SANDBOX_FAILED,
};

void sandbox_get(struct sandbox *sb);
void sandbox_put(struct sandbox *sb);

/* Sends c now, or when the sandbox is up: what needs the container starts it and waits. Never
 * blocks. Fails the call (done with -errno and words) where it cannot come up: ESHUTDOWN when the
 * user stopped or paused it, the reason when it has failed, ENOENT when it was removed. */
void sandbox_call(struct sandbox *sb, struct call *c);

/* The same, but only if the agent can be asked now, or once the connection to a sandbox that runs
 * has been made; else -EAGAIN: from here, and c stays the caller's, or from done(). For what must
 * neither wait for a sandbox nor wake it. */
int sandbox_call_now(struct sandbox *sb, struct call *c);

/* The same whenever there is a connection, to a paused sandbox too: for what nobody waits for. */
int sandbox_call_linked(struct sandbox *sb, struct call *c);

/* Both for a call whose done() cannot have finished (the caller sees to that). cancel_waiting: true
 * if it was still waiting here, and is the caller's again. cancel: asks the agent to give it up;
 * done() comes. */
bool sandbox_cancel_waiting(struct sandbox *sb, struct call *c);
void sandbox_cancel(struct sandbox *sb, struct call *c);

/* Whether its agent can be expected to answer: not when the container is paused or cut off. */
bool sandbox_answers(struct sandbox *sb);

/* A one-way frame, if epoch is still the current one. A CLOSE or FORGET comes to the agent for
 * sure, as long as its session goes on; others do only if the sandbox is connected. */
void sandbox_post(struct sandbox *sb, uint32_t epoch, const struct buf *frame);

/* A copy of what there is to know; sandbox_info_fini frees it. */
struct sandbox_info {
	enum sandbox_state state;
	bool removed;	     /* only the empty directories of a removed one are left */
	uint32_t epoch;	     /* of the nodes and handles that its agent knows; 0: never connected */
	uint32_t uid, gid;   /* its user, once it was connected */
	uint64_t timeout_ms; /* its template's; 0: none */
	uint32_t owner;
	int64_t created;
	char *name, *id, *template, *image_id, *config;
	char *workspace; /* path inside; "" until it was connected */
};

int sandbox_info(struct sandbox *sb, struct sandbox_info *info);
/* The same without the strings: nothing to free. */
void sandbox_numbers(struct sandbox *sb, struct sandbox_info *info);
void sandbox_info_fini(struct sandbox_info *info);
uint32_t sandbox_epoch(struct sandbox *sb);
enum sandbox_state sandbox_state(struct sandbox *sb);
const char *sandbox_state_name(enum sandbox_state s);

/* A number that is this sandbox's own for its life, whoever looks: for inode numbers. 0 while the
 * engine has no container for it. */
uint64_t sandbox_seed(struct sandbox *sb);

/* The last failure: ctl/error's text; "" if there was none. */
void sandbox_error_render(struct sandbox *sb, struct buf *out);
/* Notes one, here and in .sandboxfs/errors. path is below the sandbox's directory, "" for itself.
 */
void sandbox_error(struct sandbox *sb, const char *op, const char *path, const struct err *err);

/* The view's own data, made once under the sandbox's lock, freed with the sandbox. */
struct view_ops {
	void *(*make)(struct sandbox *sb, void *arg);
	void (*drop)(void *view);
	/* The agent can be asked from now on. From an I/O thread, with no lock held. */
	void (*up)(void *view);
};
void *sandbox_view(struct sandbox *sb, const struct view_ops *ops, void *arg);
