/* SPDX-License-Identifier: MIT */
/* The agent's two modes, each from its options to its exit status. */
#pragma once

struct init_options {
	const char *state, *root, *workspace, *user, *groups;
	const char *setup;  /* "1": there must be one */
	const char *listen; /* the number of an inherited socket; NULL: one of its own */
	const char *caps;   /* the capabilities that it keeps, in hexadecimal; NULL: all it has */
	char **command;	    /* NULL: none */
};

int init_run(const struct init_options *options);
int relay_run(const char *state);
