/* SPDX-License-Identifier: MIT */
/* A job of a sandbox, by its files under ctl/jobs/: made, started, followed, forgotten. One thread,
 * one that carries the input, and one for each stream of output. What fails is said on stderr. */
#pragma once

#include "tools/copy.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define JOB_TEXT_MAX 16384 /* a small file's; of a summary all but the output's head and tail */

enum { JOB_STREAMS = 2 };
enum { JOB_TROUBLE = 125 }; /* the exit status when there is trouble of our own */

struct job {
	char sandbox[PATH_MAX];
	char dir[PATH_MAX + 32]; /* its directory; "": none yet */
	int signals;		 /* a signalfd: what is to be passed on */
	int input;		 /* its stdin, or -1 */
	struct copy copies[JOB_STREAMS];
};

/* Makes the directory, and blocks the signals that are passed on. False: it has said why. */
bool job_make(struct job *j, const char *sandbox);
/* Writes one of its files, in one piece. */
bool job_set(const struct job *j, const char *file, const char *text);
/* The same behind what the file has. */
bool job_add(const struct job *j, const char *file, const char *text);
/* argv of a command, as the file argv wants it. */
bool job_run(const struct job *j, char *const *argv);
/* From our standard input to the command's, by a thread, until the end of either. */
bool job_feed(struct job *j);
/* Copies what it prints until it has ended, and passes signals on; resized is called for SIGWINCH.
 * Who has sent a signal that ends programs is not kept waiting by a reader that takes nothing. */
bool job_follow(struct job *j, void (*resized)(struct job *j));
/* How it ended, in words if need be: the exit status for us. */
int job_status(struct job *j);
/* Forgets it; kills what is left of it. The threads may still read *j. */
void job_forget(const struct job *j);

/* To all its processes; it does not matter if none is left. */
void job_signal(const struct job *j, int sig);
/* A small file's text, cut at JOB_TEXT_MAX; "" if it cannot be read. */
void job_text(const char *dir, const char *file, char text[JOB_TEXT_MAX]);
/* What follows `key: ` in one of the text's lines before an empty one; NULL: there is none. */
const char *job_line(const char *text, const char *key);
/* "what: ..." with the sandbox's own words if it has any. False. */
bool job_failed(const struct job *j, const char *what, int code);
/* "sandboxfs-exec: ..." on stderr, if anybody takes it. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
