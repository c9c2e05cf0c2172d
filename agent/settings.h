/* SPDX-License-Identifier: MIT */
/* Settings of ctl/ and of each job: checked when they are set, kept as the text that a file shows.
 */
#pragma once

#include "common/buf.h"
#include "common/err.h"
#include "common/proto.h"

struct launch_config;
struct user;

struct settings {
	char *text[PROTO_SETS]; /* NULL: the default; owned */
};

enum settings_tty { SETTINGS_TTY_NONE, SETTINGS_TTY_PIPE, SETTINGS_TTY_TERMINAL };

void settings_fini(struct settings *s);
int settings_copy(struct settings *to, const struct settings *from);

/* As written to the file: empty, or n 0, is the default. -EINVAL and others, with words. */
int settings_set(struct settings *s, const struct launch_config *config, unsigned what,
	const uint8_t *p, size_t n, struct err *err);
/* As the file shows it, without the last newline. */
int settings_get(const struct settings *s, const struct launch_config *config, unsigned what,
	struct buf *out);

/* TIMEOUT and MAX_WAIT; 0: none. */
int64_t settings_ms(const struct settings *s, unsigned what);
enum settings_tty settings_tty(const struct settings *s, unsigned *columns, unsigned *rows);
/* Whom its commands become. -EPERM: the agent may not. */
int settings_user(const struct settings *s, const struct launch_config *config, struct user *user,
	struct err *err);

/* The next line of *text (which moves on) as a new string; NULL at the end, or *failed. */
char *settings_line(const char **text, bool *failed);

/* In a job's directory. What cannot be read or is no setting is the default. */
int settings_save(const struct settings *s, int dir_fd);
void settings_load(struct settings *s, int dir_fd);
