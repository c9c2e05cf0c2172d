/* SPDX-License-Identifier: MIT */
/* The agent's two modes, each from its options to its exit status. */
#pragma once

struct init_options {
	const char *state, *root, *workspace, *user;
	char **command; /* NULL: none */
};

int init_run(const struct init_options *options);
int relay_run(const char *state);
