/* SPDX-License-Identifier: MIT */
/*
 * All sandboxes of one namespace, fed by the engine's list and event stream, and what can be done
 * to them as a whole. Calls that change something return at once and report by callback, from a
 * lifecycle thread.
 */
#pragma once

#include "sandbox/engine.h"
#include "sandbox/events.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "sandbox/template.h"

struct registry_config {
	struct engine *engine; /* the registry's from now on */
	const char *chosen;    /* why that one, in words; borrowed until registry_free */
	const char *namespace;
	const struct template_rules *rules; /* borrowed until registry_free */
	unsigned max_sandboxes;		    /* 0: no limit */
	const char *audit;		    /* a file for a copy of the events; NULL: none */
};

/* Lists the sandboxes once and begins to follow the engine. Takes the engine, also on failure. */
int registry_new(const struct registry_config *config, struct registry **out, struct err *err);
/* Ends all connections and threads; what was begun in the engine is finished first. With remove_all
 * every sandbox of the namespace is removed. No callback comes after it. */
void registry_close(struct registry *r, bool remove_all);
/* Frees it, once nobody holds a sandbox any more. */
void registry_free(struct registry *r);

struct report *registry_report(struct registry *r);
const struct template_rules *registry_rules(const struct registry *r);
struct events *registry_events(struct registry *r);
/* A new reference, or NULL. */
struct sandbox *registry_find(struct registry *r, const char *name);
/* Names in no order; each is called with the registry's lock held. */
void registry_each(struct registry *r,
	void (*each)(void *arg, const char *name, struct sandbox *sb), void *arg);
/* Text of .sandboxfs/engine. May block for a moment: from a lifecycle thread. */
void registry_describe(struct registry *r, struct buf *out);

typedef void registry_done(void *arg, int result, const struct err *err); /* result: 0 or -errno */

/* The engine has made the container, or the image must be fetched first: then it goes on behind. */
void registry_create(
	struct registry *r, const char *name, uint32_t owner, registry_done *done, void *arg);
/* Out of sight when done is called; the engine removes it behind. With keep_husk its name stays, as
 * empty directories, until registry_forget. */
void registry_remove(
	struct registry *r, struct sandbox *sb, bool keep_husk, registry_done *done, void *arg);
void registry_forget(struct registry *r, struct sandbox *sb);
void registry_rename(
	struct registry *r, struct sandbox *sb, const char *name, registry_done *done, void *arg);
/* "running", "paused", "stopped", "restart": done when it is so. -EINVAL at once for another word.
 */
void registry_set_state(
	struct registry *r, struct sandbox *sb, const char *word, registry_done *done, void *arg);

/* Runs fn(arg) in a lifecycle thread. */
int registry_defer(struct registry *r, void (*fn)(void *arg), void *arg);
/* Runs fn(arg) in an I/O thread after a delay. */
int registry_after(struct registry *r, unsigned delay_ms, void (*fn)(void *arg), void *arg);
