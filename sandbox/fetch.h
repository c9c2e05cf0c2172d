/* SPDX-License-Identifier: MIT */
/* Images that are not there yet: each is pulled or built once, however many sandboxes wait for it,
 * in threads of this module's own; no one else's thread waits. Any thread. */
#pragma once

#include "sandbox/engine.h"
#include "sandbox/events.h"
#include "sandbox/sandbox.h"

struct fetches;

/* Called once, without a lock: 0, or -errno with words; -ENOENT where the sandbox left. */
typedef void fetch_done(void *arg, int result, const struct err *err);

int fetches_new(struct engine *engine, struct events *events, struct fetches **out);
/* Ends all fetches and fails who waits (-ESHUTDOWN), and who comes later. When it returns, every
 * done() has. */
void fetches_close(struct fetches *f);
void fetches_free(struct fetches *f);

/* The sandbox waits for spec->image: joins who fetches it, or begins. Needs spec only meanwhile.
 * Progress is told as events of every sandbox that waits. */
void fetch_join(struct fetches *f, struct sandbox *sb, const struct spec *spec, fetch_done *done,
	void *arg);
/* The sandbox waits no more, if it did. A fetch that nobody waits for is ended. */
void fetch_leave(struct fetches *f, struct sandbox *sb);
