/* SPDX-License-Identifier: MIT */
/* sandboxfs-exec: a command in a sandbox as if it ran here, with streams, signals and exit code. */
#include "tools/job.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(FILE *to, int status)
{
	fprintf(to,
		"usage: sandboxfs-exec [OPTIONS] SANDBOX COMMAND [ARGUMENT...]\n\n"
		"Runs COMMAND in the sandbox whose directory is SANDBOX (such as /mnt/sbx/demo).\n"
		"  -e KEY=VALUE  an environment variable (may be repeated; KEY alone unsets)\n"
		"  -n            no input\n"
		"  -t SECONDS    kill it after so long (exit status 124)\n"
		"  -u USER       as this user of the sandbox\n"
		"  -w DIRECTORY  in this directory of the sandbox\n"
		"  -h, -V        this text; the version\n\n"
		"The exit status is the command's; 125 if output was lost or it is unknown.\n");
	return status;
}

/* One more line of env, with its newline. */
static bool add_line(char **env, const char *line)
{
	char *more;

	if (strchr(line, '\n')) {
		complain("-e: a value of several lines cannot be given");
		return false;
	}
	if (asprintf(&more, "%s%s\n", *env ? *env : "", line) < 0)
		return false;
	free(*env);
	*env = more;
	return true;
}

struct wanted {
	const char *timeout, *user, *cwd;
	char *env;
	bool no_input;
};

static bool prepare(struct job *j, const struct wanted *w)
{
	/* The job's own settings begin as the sandbox's: env is added to those. */
	return (!w->timeout || job_set(j, "timeout", w->timeout)) &&
	       (!w->user || job_set(j, "user", w->user)) &&
	       (!w->cwd || job_set(j, "cwd", w->cwd)) && (!w->env || job_add(j, "env", w->env)) &&
	       (w->no_input || job_set(j, "tty", "pipe\n"));
}

int main(int argc, char **argv)
{
	struct wanted w = {0};
	static struct job j; /* a thread may use it to the very end */
	int c, status = JOB_TROUBLE;

	while ((c = getopt(argc, argv, "+e:nt:u:w:hV")) != -1) {
		switch (c) {
		case 'e':
			if (!add_line(&w.env, optarg))
				return JOB_TROUBLE;
			break;
		case 'n':
			w.no_input = true;
			break;
		case 't':
			w.timeout = optarg;
			break;
		case 'u':
			w.user = optarg;
			break;
		case 'w':
			w.cwd = optarg;
			break;
		case 'h':
			return usage(stdout, 0);
		case 'V':
			puts("sandboxfs-exec " SANDBOXFS_VERSION);
			return 0;
		default:
			return usage(stderr, JOB_TROUBLE);
		}
	}
	if (argc - optind < 2)
		return usage(stderr, JOB_TROUBLE);
	if (job_make(&j, argv[optind]) && prepare(&j, &w) && job_run(&j, argv + optind + 1) &&
		(w.no_input || job_feed(&j)) && job_follow(&j, NULL))
		status = job_status(&j);
	job_forget(&j);
	free(w.env);
	return status;
}
