/* SPDX-License-Identifier: MIT */
/* sandboxfs-shell: a terminal in a sandbox. Ours is raw meanwhile: keys, Ctrl-C among them, go to
 * the terminal inside, which has our size. */
#include "tools/job.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The best shell there is; a login shell, so that profiles are read. */
static const char any_shell[] = "for s in \"$SHELL\" /bin/bash /usr/bin/bash; do\n"
				"  if [ -x \"$s\" ]; then exec \"$s\" -l; fi\n"
				"done\n"
				"exec sh -l\n";

static struct termios before;

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: sandboxfs-shell [OPTIONS] SANDBOX [COMMAND [ARGUMENT...]]\n\n"
		"A shell, or COMMAND, on a terminal in the sandbox whose directory is SANDBOX.\n"
		"  -u USER       as this user of the sandbox\n"
		"  -w DIRECTORY  in this directory of the sandbox\n"
		"  -h, -V        this text; the version\n");
	return status;
}

static bool put_size(struct job *j)
{
	struct winsize w = {.ws_col = 80, .ws_row = 24};
	char text[32];

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_col || !w.ws_row)
		w = (struct winsize){.ws_col = 80, .ws_row = 24};
	snprintf(text, sizeof(text), "%ux%u\n", w.ws_col, w.ws_row);
	return job_set(j, "tty", text);
}

static void resized(struct job *j)
{
	put_size(j);
}

static bool put_term(struct job *j)
{
	const char *term = getenv("TERM");
	char line[128];

	if (!term || !*term || strlen(term) > 64 || strchr(term, '\n'))
		return true;
	snprintf(line, sizeof(line), "TERM=%s\n", term);
	return job_add(j, "env", line);
}

static void restore(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static bool make_raw(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &before) < 0) {
		complain("the standard input is no terminal: use sandboxfs-exec");
		return false;
	}
	atexit(restore);
	raw = before;
	cfmakeraw(&raw);
	return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static bool run(struct job *j, char *const *argv)
{
	return *argv ? job_run(j, argv) : job_set(j, "exec", any_shell);
}

int main(int argc, char **argv)
{
	const char *user = NULL, *cwd = NULL;
	static struct job j; /* a thread may use it to the very end */
	int c, status = JOB_TROUBLE;

	while ((c = getopt(argc, argv, "+u:w:hV")) != -1) {
		switch (c) {
		case 'u':
			user = optarg;
			break;
		case 'w':
			cwd = optarg;
			break;
		case 'h':
			return usage(stdout, 0);
		case 'V':
			puts("sandboxfs-shell " SANDBOXFS_VERSION);
			return 0;
		default:
			return usage(stderr, JOB_TROUBLE);
		}
	}
	if (optind >= argc)
		return usage(stderr, JOB_TROUBLE);
	if (!isatty(STDIN_FILENO)) {
		complain("the standard input is no terminal: use sandboxfs-exec");
		return JOB_TROUBLE;
	}
	if (job_make(&j, argv[optind]) && put_size(&j) && put_term(&j) &&
		(!user || job_set(&j, "user", user)) && (!cwd || job_set(&j, "cwd", cwd)) &&
		run(&j, argv + optind + 1) && make_raw() && job_feed(&j) &&
		job_follow(&j, resized)) {
		restore(); /* words are for a terminal that is not raw */
		status = job_status(&j);
	}
	job_forget(&j);
	return status;
}
