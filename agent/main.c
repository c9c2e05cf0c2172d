/* SPDX-License-Identifier: MIT */
/* The command line of the agent. */
#include "agent/init.h"

#include <stdio.h>
#include <string.h>

#define STATE_DIR "/.sandboxfs/state" /* as in sandbox/engine.h */

static int usage(void)
{
	fputs("usage: agent init [--state DIR] [--root DIR] [--workspace PATH] [--user SPEC] "
	      "[--groups LIST] [--setup 0|1] [--listen FD] [--caps HEX] [-- COMMAND...]\n"
	      "       agent relay [--state DIR]\n"
	      "       agent --version\n",
		stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct init_options o = {.state = STATE_DIR,
		.root = "/",
		.workspace = "/workspace",
		.user = "0",
		.groups = "",
		.setup = "0"};
	const struct {
		const char *name;
		const char **value;
	} options[] = {{"--state", &o.state}, {"--root", &o.root}, {"--workspace", &o.workspace},
		{"--user", &o.user}, {"--groups", &o.groups}, {"--setup", &o.setup},
		{"--listen", &o.listen}, {"--caps", &o.caps}};
	const size_t n_options = sizeof(options) / sizeof(options[0]);
	int i = 2;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("sandboxfs agent " SANDBOXFS_VERSION);
		return 0;
	}
	if (argc < 2)
		return usage();
	for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
		size_t k;

		for (k = 0; k < n_options && strcmp(argv[i], options[k].name) != 0; k++)
			;
		if (k == n_options || i + 1 >= argc)
			return usage();
		*options[k].value = argv[i + 1];
	}
	if (i + 1 < argc)
		o.command = argv + i + 1;
	if (strcmp(argv[1], "init") == 0)
		return init_run(&o);
	if (strcmp(argv[1], "relay") == 0 && !o.command)
		return relay_run(o.state);
	return usage();
}
