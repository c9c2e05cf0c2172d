/* SPDX-License-Identifier: MIT */
/* A table, not a parser: libfuse's fuse_opt does the rest. */
#include "fs/options.h"

#include "fs/choose.h"

#define FUSE_USE_VERSION 314
#include <fuse_opt.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `-o name=V` and `--name=V` are the same thing. */
#define VALUE(name, field)                                          \
	{name "=%s", offsetof(struct options, field), 0},           \
	{                                                           \
		"--" name "=%s", offsetof(struct options, field), 0 \
	}
#define SWITCH(name, field)                                   \
	{name, offsetof(struct options, field), 1},           \
	{                                                     \
		"--" name, offsetof(struct options, field), 1 \
	}

static const struct fuse_opt table[] = {
	VALUE("engine", engine),
	VALUE("host", host),
	VALUE("image", image),
	VALUE("templates", templates),
	VALUE("namespace", namespace),
	VALUE("symlinks", symlinks_word),
	VALUE("agent", agent),
	VALUE("audit", audit),
	VALUE("uid", uid_word),
	VALUE("gid", gid_word),
	VALUE("umask", umask_word),
	VALUE("allow_binds", binds_word),
	{"max_sandboxes=%u", offsetof(struct options, max_sandboxes), 0},
	{"--max_sandboxes=%u", offsetof(struct options, max_sandboxes), 0},
	SWITCH("exec", exec),
	SWITCH("allow_other", allow_other),
	SWITCH("rm_on_unmount", rm_on_unmount),
	SWITCH("locked", locked),
	{"-f", offsetof(struct options, foreground), 1},
	{"-d", offsetof(struct options, debug), 1},
	{"-h", offsetof(struct options, show_help), 1},
	{"--help", offsetof(struct options, show_help), 1},
	{"-V", offsetof(struct options, show_version), 1},
	{"--version", offsetof(struct options, show_version), 1},
	FUSE_OPT_END,
};

static int positional(void *data, const char *arg, int key, struct fuse_args *args)
{
	struct options *o = data;

	(void)args;
	if (key == FUSE_OPT_KEY_OPT && strncmp(arg, "--", 2) == 0) {
		fprintf(stderr, "sandboxfs: unknown option %s\n", arg);
		return -1;
	}
	if (key != FUSE_OPT_KEY_NONOPT)
		return 1; /* libfuse's, or mount's */
	if (o->source) {
		fprintf(stderr, "sandboxfs: too many arguments at %s\n", arg);
		return -1;
	}
	o->source = o->mountpoint;
	o->mountpoint = strdup(arg);
	return o->mountpoint ? 0 : -1;
}

static int check(struct options *o)
{
	if (!o->mountpoint)
		fprintf(stderr, "sandboxfs: no mount point; try sandboxfs --help\n");
	else if (o->symlinks_word && strcmp(o->symlinks_word, "contain") != 0 &&
		 strcmp(o->symlinks_word, "raw") != 0 && strcmp(o->symlinks_word, "deny") != 0)
		fprintf(stderr, "sandboxfs: symlinks=%s is not one of contain, raw, deny\n",
			o->symlinks_word);
	else
		return choose_check(o->engine);
	return -EINVAL;
}

static bool good_namespace(const char *s)
{
	static const char ok[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

	return *s && strlen(s) <= 64 && strspn(s, ok) == strlen(s) && !strchr("_.-", *s);
}

/* The daemon leaves this directory. */
static char *absolute(const char *path)
{
	char *cwd, *to;

	if (*path == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&to, "%s/%s", cwd, path) < 0)
		to = NULL;
	free(cwd);
	return to;
}

/* "/A:/B" */
static int set_binds(struct options *o)
{
	size_t n = 0;

	if (!o->binds_word)
		return 0;
	o->allow_binds = calloc(strlen(o->binds_word) + 2, sizeof(char *));
	if (!o->allow_binds)
		return -ENOMEM;
	for (const char *s = o->binds_word;; s++) {
		size_t len = strcspn(s, ":");

		if (*s != '/') {
			fprintf(stderr,
				"sandboxfs: allow_binds=%s: absolute paths, with colons between\n",
				o->binds_word);
			return -EINVAL;
		}
		o->allow_binds[n] = strndup(s, len);
		if (!o->allow_binds[n++])
			return -ENOMEM;
		s += len;
		if (!*s)
			return 0;
	}
}

static int set_defaults(struct options *o)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = 0;

	if (!o->namespace)
		o->namespace = strdup("default");
	if (o->namespace && !good_namespace(o->namespace)) {
		fprintf(stderr, "sandboxfs: namespace=%s: letters, digits, _ . - only\n",
			o->namespace);
		return -EINVAL;
	}
	if (o->symlinks_word)
		o->symlinks = *o->symlinks_word == 'r'	 ? SYMLINKS_RAW
			      : *o->symlinks_word == 'd' ? SYMLINKS_DENY
							 : SYMLINKS_CONTAIN;
	if (o->templates) {
		o->template_dirs[n++] = absolute(o->templates);
		return o->namespace && o->template_dirs[0] ? 0 : -ENOMEM;
	}
	if (xdg && *xdg && asprintf(&o->template_dirs[n], "%s/sandboxfs/templates", xdg) > 0)
		n++;
	else if (home && asprintf(&o->template_dirs[n], "%s/.config/sandboxfs/templates", home) > 0)
		n++;
	o->template_dirs[n] = strdup("/etc/sandboxfs/templates");
	return o->namespace ? 0 : -ENOMEM;
}

/* -EINVAL, after a message, where the word is no number of that base, at most max. */
static int number(
	const char *name, const char *word, int base, uint32_t max, bool *has, uint32_t *n)
{
	size_t len = word ? strspn(word, base == 8 ? "01234567" : "0123456789") : 0;
	unsigned long long value = len ? strtoull(word, NULL, base) : 0;

	if (!word)
		return 0;
	if (!len || len > 11 || word[len] || value > max) {
		fprintf(stderr, "sandboxfs: %s=%s is not %s number\n", name, word,
			base == 8 ? "an octal" : "a");
		return -EINVAL;
	}
	*has = true;
	*n = (uint32_t)value;
	return 0;
}

static int set_shown(struct options *o)
{
	int r = number("uid", o->uid_word, 10, UINT32_MAX - 1, &o->has_uid, &o->uid);

	if (r == 0)
		r = number("gid", o->gid_word, 10, UINT32_MAX - 1, &o->has_gid, &o->gid);
	if (r == 0)
		r = number("umask", o->umask_word, 8, 0777, &o->has_umask, &o->umask);
	return r;
}

int options_parse(struct options *o, struct fuse_args *args)
{
	int r;

	if (fuse_opt_parse(args, o, table, positional) < 0)
		return -EINVAL;
	if (o->show_help || o->show_version)
		return 0;
	r = check(o);
	if (r == 0)
		r = set_shown(o);
	if (r == 0)
		r = set_binds(o);
	return r < 0 ? r : set_defaults(o);
}

void options_fini(struct options *o)
{
	char *owned[] = {o->mountpoint, o->source, o->engine, o->host, o->image, o->templates,
		o->namespace, o->agent, o->audit, o->symlinks_word, o->uid_word, o->gid_word,
		o->umask_word, o->binds_word, o->template_dirs[0], o->template_dirs[1]};

	for (size_t k = 0; k < sizeof(owned) / sizeof(owned[0]); k++)
		free(owned[k]);
	for (char **b = o->allow_binds; b && *b; b++)
		free(*b);
	free(o->allow_binds);
	memset(o, 0, sizeof(*o));
}

void options_help(void)
{
	puts("usage: sandboxfs [OPTIONS] [SOURCE] MOUNTPOINT\n"
	     "\n"
	     "Mounts a view of container sandboxes: mkdir starts one, rmdir removes it.\n"
	     "\n"
	     "  -f                    stay in the foreground\n"
	     "  -d                    debug: foreground, with every request shown\n"
	     "  -h, --help            this\n"
	     "  -V, --version         the version\n"
	     "  -o KEY[=VALUE],...    options; --KEY[=VALUE] is the same:\n"
	     "    engine=auto|docker|bwrap  which engine (default: auto, the first that answers)\n"
	     "    host=ADDRESS        its address: unix:///path or tcp://host:port\n"
	     "    image=IMAGE         image of the default template\n"
	     "    templates=DIR       where NAME.json templates are\n"
	     "    namespace=NAME      show only this namespace's sandboxes (default: default)\n"
	     "    symlinks=contain|raw|deny\n"
	     "                        what links in a sandbox may say (default: contain)\n"
	     "    max_sandboxes=N     refuse more\n"
	     "    allow_binds=A[:B]   host paths that templates may use, with what is below\n"
	     "    locked              templates are read-only, limits can only be lowered\n"
	     "    audit=FILE          append a copy of .sandboxfs/events to FILE\n"
	     "    exec                let programs in sandboxes be run on the host\n"
	     "    allow_other         let other users in\n"
	     "    uid=N, gid=N        show all files as this user's, this group's\n"
	     "    umask=OCTAL         show files with the permissions 0777 but these\n"
	     "    rm_on_unmount       remove the sandboxes at unmount\n"
	     "    agent=PATH          the agent program (for development)");
}
