/* SPDX-License-Identifier: MIT */
/*
 * posix [OPTIONS] DIR [TOPIC...]: runs the topics, each in a fresh directory beneath DIR, and
 * removes it. The last lines are the plan and the number of assertions; the status is 1 if one
 * failed.
 */
#include "tests/posix/posix.h"
#include "tests/posix/tap.h"

#include <getopt.h>
#include <grp.h>

struct options options;
const char *topic = "";

static const struct {
	const char *name;
	void (*run)(void);
	bool named_only; /* runs only if named */
} topics[] = {
	{"paths", topic_paths, false},
	{"limits", topic_limits, false},
	{"pointers", topic_pointers, false},
	{"access", topic_access, false},
	{"open_rights", topic_open_rights, false},
	{"dir_rights", topic_dir_rights, false},
	{"create", topic_create, false},
	{"sticky", topic_sticky, false},
	{"chmod", topic_chmod, false},
	{"chown", topic_chown, false},
	{"setid", topic_setid, false},
	{"link", topic_link, false},
	{"rename", topic_rename, false},
	{"rename_flags", topic_rename_flags, false},
	{"mkdir", topic_mkdir, false},
	{"rmdir", topic_rmdir, false},
	{"unlink", topic_unlink, false},
	{"symlink", topic_symlink, false},
	{"special", topic_special, false},
	{"open", topic_open, false},
	{"busy_text", topic_busy_text, false},
	{"truncate", topic_truncate, false},
	{"fallocate", topic_fallocate, false},
	{"utimens", topic_utimens, false},
	{"times", topic_times, false},
	{"xattr", topic_xattr, false},
	{"acl", topic_acl, false},
	{"readdir", topic_readdir, false},
	{"statfs", topic_statfs, false},
	{"bytes", topic_bytes, false},
	{"read_only", topic_read_only, true},
	{"caller", topic_caller, true},
	{"mapped", topic_mapped, true},
};

enum { N_TOPICS = sizeof(topics) / sizeof(topics[0]) };

static void usage(FILE *out)
{
	fputs("usage: posix [OPTIONS] DIR [TOPIC...]\n"
	      "  --no-devices      device nodes are refused there, by design\n"
	      "  --user-namespace  ids above 65535 are EINVAL there, and root loses set-id bits "
	      "too\n"
	      "  --no-exec         nothing can be run from there\n"
	      "  --brief           a line a topic, and the failures\n"
	      "  --as=U:G[:G2]     topic caller: whose rights the caller must have there\n"
	      "  --as-is           topic caller: the mount sees to that; files made as README "
	      "says\n"
	      "  --shown=U:G       topic mapped: the owner that all files must show\n"
	      "topics:",
		out);
	for (int k = 0; k < N_TOPICS; k++)
		fprintf(out, " %s%s", topics[k].name, topics[k].named_only ? "(if named)" : "");
	fputs("\n", out);
}

static bool parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"no-devices", no_argument, NULL, 'd'},
		{"user-namespace", no_argument, NULL, 'n'},
		{"no-exec", no_argument, NULL, 'x'},
		{"brief", no_argument, NULL, 'b'},
		{"as", required_argument, NULL, 'u'},
		{"as-is", no_argument, NULL, 'i'},
		{"shown", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct who *w = &options.caller;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			options.no_devices = true;
			break;
		case 'n':
			options.user_namespace = true;
			break;
		case 'x':
			options.no_exec = true;
			break;
		case 'b':
			options.brief = true;
			break;
		case 'i':
			options.as_is = true;
			break;
		case 'u':
			c = sscanf(optarg, "%u:%u:%u", &w->uid, &w->gid, &w->groups[0]);
			if (c < 2)
				return false;
			w->n = c == 3;
			break;
		case 's':
			if (sscanf(optarg, "%ld:%ld", &options.shown_uid, &options.shown_gid) != 2)
				return false;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			return false;
		}
	}
	return optind < argc;
}

static bool run_topic(int k, int base)
{
	unsigned before = tap_failed(), first = tap_count();
	char dir[64];

	topic = topics[k].name;
	if (topics[k].named_only) {
		/* Such a place may be read-only, or have been prepared. */
		if (fchdir(base) < 0)
			bail("fchdir: %s", strerror(errno));
		topics[k].run();
	} else {
		snprintf(dir, sizeof(dir), "posix.%d.%s", (int)getpid(), topic);
		if (mkdirat(base, dir, 0755) < 0 || fchdir(base) < 0 || chdir(dir) < 0)
			bail("cannot make a directory there: %s", strerror(errno));
		topics[k].run();
		if (fchdir(base) < 0)
			bail("fchdir: %s", strerror(errno));
		wipe(dir);
	}
	tap_new_topic();
	if (options.brief)
		printf("%s - %s: %u assertions, %u failed\n",
			before == tap_failed() ? "ok" : "not ok", topic, tap_count() - first,
			tap_failed() - before);
	fflush(stdout);
	return before == tap_failed();
}

static void run_named(const char *word, int base)
{
	for (int k = 0; k < N_TOPICS; k++) {
		if (strcmp(topics[k].name, word) == 0) {
			run_topic(k, base);
			return;
		}
	}
	bail("no topic %s", word);
}

int main(int argc, char **argv)
{
	static char self[4096];
	int base, n = 0;

	if (argc == 2 && strcmp(argv[1], "--pause") == 0) {
		/* Being run: see topic busy_text. */
		if (write(1, "r", 1) != 1)
			return 1;
		return read(0, self, 1) < 0;
	}
	if (!parse(argc, argv)) {
		usage(stderr);
		return 2;
	}
	if (geteuid() != 0)
		bail("run me as root");
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		bail("/proc/self/exe: %s", strerror(errno));
	options.self = self;
	base = open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		bail("%s: %s", argv[optind], strerror(errno));
	umask(0);
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		bail("cannot become root alone: %s", strerror(errno));
	for (n = optind + 1; n < argc; n++)
		run_named(argv[n], base);
	for (int k = 0; optind + 1 == argc && k < N_TOPICS; k++)
		if (!topics[k].named_only)
			run_topic(k, base);
	if (!options.brief)
		printf("1..%u\n", tap_count());
	printf("# %u assertions, %u failed\n", tap_count(), tap_failed());
	return tap_failed() ? 1 : 0;
}
