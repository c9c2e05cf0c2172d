/* SPDX-License-Identifier: MIT */
/* How a sandbox's setup went, for ctl/error and events. From an I/O thread. */
#include "sandbox/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORDS_SHOWN  180
#define OUTPUT_SHOWN 300 /* of its end: what went wrong is said last */

static void tell(struct sandbox *sb, const struct proto_setup *s)
{
	struct event_field fields[] = {{.key = "result", .text = s->result ? "failed" : "success"},
		{.key = "commands", .number = s->hooks},
		{.key = "exit_code", .number = s->exit_code}, {.key = "words", .text = s->words}};

	pthread_mutex_lock(&sb->lock);
	events_add(sb->registry->events, "post-start", sb->name, fields, s->result ? 4 : 2);
	pthread_mutex_unlock(&sb->lock);
}

int setup_verdict(struct sandbox *sb, const struct proto_setup *s, bool started, struct err *err)
{
	size_t len = strlen(s->output);
	const char *end = s->output + (len > OUTPUT_SHOWN ? len - OUTPUT_SHOWN : 0);

	if (started && s->hooks)
		tell(sb, s);
	if (s->result == PROTO_SETUP_FINE)
		return 0;
	return err_set(err, EIO, "%.*s%s%s", WORDS_SHOWN, s->words, *end ? ": " : "", end);
}
