/* SPDX-License-Identifier: MIT */
/* A copy of the events in a file, by a thread of its own: however slow or full the file is, nobody
 * waits for it. What could not be written is counted, and said in a line when it goes on. */
#pragma once

#include "common/err.h"
#include "sandbox/event_line.h"

struct audit;

/* Opens it for appending. */
int audit_new(const char *path, struct audit **out, struct err *err);
/* Any thread; never blocks. Takes a reference of its own. */
void audit_add(struct audit *a, struct event_line *l);
/* Writes out what is there, for at most two seconds. */
void audit_free(struct audit *a);
