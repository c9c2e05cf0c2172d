/* SPDX-License-Identifier: MIT */
/* What is put into a sandbox before it is used, and what runs then: files, users, groups,
 * post_start, pre_stop. Owns nothing between calls, takes no lock; any thread. */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"
#include "common/setup_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LEN_MAX 32 /* of a user or a group, as useradd has it */

/* A file's content may be empty. */
static int content(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	*out = strdup(j->valuestring);
	return *out ? 0 : value_no_memory(p);
}

static int source(struct template_parse *p, const cJSON *j, void *to)
{
	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	return value_host_path(p, j->valuestring, to);
}

static int file_mode(struct template_parse *p, const cJSON *j, void *to)
{
	struct spec_file *f = to;

	f->has_mode = true;
	return value_mode(p, j, &f->mode);
}

/* The engine's own directories; ours text_path() has refused. */
static int check_place(struct template_parse *p, const char *path)
{
	static const char *const closed[] = {"/proc", "/sys", "/dev"};

	if (!path[1])
		return value_bad(p, path, "a path below /");
	for (size_t i = 0; i < sizeof(closed) / sizeof(*closed); i++)
		if (spec_beneath(path, closed[i], strlen(closed[i])))
			return value_fail(p, EINVAL, "nothing can be put into %s", closed[i]);
	return 0;
}

static int add_file(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"content", content, offsetof(struct spec_file, content)},
		{"source", source, offsetof(struct spec_file, source)},
		{"mode", file_mode, 0},
		{"owner", value_user, offsetof(struct spec_file, owner)},
	};
	struct spec_x *x = arg;
	struct spec_file *f = array_grow(&x->files, &x->n_files, sizeof(*f));
	int r;

	if (!f)
		return value_no_memory(p);
	f->path = strdup(j->string);
	if (!f->path)
		return value_no_memory(p);
	r = text_path(p, f->path, strlen(f->path));
	if (r == 0)
		r = check_place(p, f->path);
	if (r < 0)
		return r;
	if (cJSON_IsString(j))
		return content(p, j, &f->content);
	if (!cJSON_IsObject(j))
		return value_wrong_type(p, "the content or a map", j);
	r = value_map(p, j, TEMPLATE_KEYS(keys), f);
	if (r == 0 && !f->content == !f->source)
		r = value_fail(p, EINVAL, "needs either content or source");
	return r;
}

int key_files(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_members(p, j, "a map of paths to content", add_file, &p->spec->x);
}

static int account(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);
	const char *s = r == 0 ? j->valuestring : "";

	if (r == 0 && (!text_only(s, "_.-") || (!isalpha((unsigned char)*s) && *s != '_') ||
			      strlen(s) > NAME_LEN_MAX))
		r = value_bad(p, s, "a name of an account");
	return r;
}

static int id(struct template_parse *p, const cJSON *j, void *to)
{
	uint32_t *out = to;
	int64_t v;
	int r = value_whole(p, j, 0, UINT32_MAX - 1, &v);

	if (r == 0)
		*out = (uint32_t)v;
	return r;
}

static int add_user(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"name", account, offsetof(struct spec_user, name)},
		{"uid", id, offsetof(struct spec_user, uid)},
		{"gid", id, offsetof(struct spec_user, gid)},
		{"groups", value_ids, offsetof(struct spec_user, groups)},
		{"home", value_path, offsetof(struct spec_user, home)},
		{"shell", value_path, offsetof(struct spec_user, shell)},
	};
	struct spec_x *x = arg;
	struct spec_user *u = array_grow(&x->users, &x->n_users, sizeof(*u));
	int r;

	if (!u)
		return value_no_memory(p);
	u->uid = u->gid = SPEC_ID_NONE;
	if (cJSON_IsString(j))
		r = account(p, j, &u->name);
	else if (cJSON_IsObject(j))
		r = value_map(p, j, TEMPLATE_KEYS(keys), u);
	else
		r = value_wrong_type(p, "a name or a map", j);
	if (r < 0)
		return r;
	if (!u->name)
		return value_fail(p, EINVAL, "the key name is missing");
	for (size_t i = 0; r == 0 && i + 1 < x->n_users; i++)
		if (strcmp(x->users[i].name, u->name) == 0)
			r = value_fail(p, EINVAL, "%s stands there twice", u->name);
	return r;
}

int key_users(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_each(p, j, "a list of users", false, add_user, &p->spec->x);
}

static int add_group(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"name", account, offsetof(struct spec_group, name)},
		{"gid", id, offsetof(struct spec_group, gid)},
	};
	struct spec_x *x = arg;
	struct spec_group *g = array_grow(&x->groups, &x->n_groups, sizeof(*g));
	int r;

	if (!g)
		return value_no_memory(p);
	g->gid = SPEC_ID_NONE;
	if (cJSON_IsString(j))
		r = account(p, j, &g->name);
	else if (cJSON_IsObject(j))
		r = value_map(p, j, TEMPLATE_KEYS(keys), g);
	else
		r = value_wrong_type(p, "a name or a map", j);
	if (r < 0)
		return r;
	if (!g->name)
		return value_fail(p, EINVAL, "the key name is missing");
	for (size_t i = 0; r == 0 && i + 1 < x->n_groups; i++)
		if (strcmp(x->groups[i].name, g->name) == 0)
			r = value_fail(p, EINVAL, "%s stands there twice", g->name);
	return r;
}

int key_groups(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_each(p, j, "a list of groups", false, add_group, &p->spec->x);
}

/* What the agent takes of one command. */
static int check_sizes(struct template_parse *p, char *const *list)
{
	size_t n = 0;

	for (; list && list[n]; n++)
		if (strlen(list[n]) > SETUP_ARG_MAX)
			return value_fail(
				p, EINVAL, "one text is longer than %u bytes", SETUP_ARG_MAX);
	return n > SETUP_ITEMS ? value_fail(p, EINVAL, "more than %u of them", SETUP_ITEMS) : 0;
}

/* Text is a script for the shell, a list is an argv that needs none. */
static int hook_command(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	struct list l = {0};
	int r;

	if (!cJSON_IsString(j)) {
		r = value_words(p, j, to);
		if (r == 0 && !*out)
			r = value_fail(p, EINVAL, "is empty");
		return r < 0 ? r : check_sizes(p, *out);
	}
	if (!j->valuestring[0])
		return value_fail(p, EINVAL, "is empty");
	r = list_add(&l, strdup("sh"));
	*out = l.v;
	if (r == 0)
		r = list_add(&l, strdup("-c"));
	*out = l.v;
	if (r == 0)
		r = list_add(&l, strdup(j->valuestring));
	*out = l.v;
	return r == 0 ? check_sizes(p, *out) : value_no_memory(p);
}

static int hook_environment(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_environment(p, j, to);

	return r < 0 ? r : check_sizes(p, *out);
}

static int privileged(struct template_parse *p, const cJSON *j, void *to)
{
	bool on;
	int r = value_bool(p, j, &on);

	(void)to;
	return r == 0 && on ? value_fail(p, EPERM, "no command has more rights than its sandbox")
			    : r;
}

struct hooks {
	struct spec_hook **v;
	size_t *n;
};

static int add_hook(struct template_parse *p, const cJSON *j, void *arg)
{
	static const struct template_key keys[] = {
		{"command", hook_command, offsetof(struct spec_hook, command)},
		{"user", value_user, offsetof(struct spec_hook, user)},
		{"privileged", privileged, 0},
		{"working_dir", value_path, offsetof(struct spec_hook, working_dir)},
		{"environment", hook_environment, offsetof(struct spec_hook, environment)},
	};
	struct hooks *to = arg;
	struct spec_hook *h = array_grow(to->v, to->n, sizeof(*h));
	int r;

	if (!h)
		return value_no_memory(p);
	if (cJSON_IsString(j))
		return hook_command(p, j, &h->command);
	if (!cJSON_IsObject(j))
		return value_wrong_type(p, "a string or a map", j);
	r = value_map(p, j, TEMPLATE_KEYS(keys), h);
	if (r == 0 && !h->command)
		r = value_fail(p, EINVAL, "the key command is missing");
	return r;
}

static int get_hooks(struct template_parse *p, const cJSON *j, struct hooks *to)
{
	return value_each(p, j, "a string or a list of commands", true, add_hook, to);
}

int key_post_start(struct template_parse *p, const cJSON *j, void *to)
{
	struct hooks h = {&p->spec->x.post_start, &p->spec->x.n_post_start};

	(void)to;
	return get_hooks(p, j, &h);
}

int key_pre_stop(struct template_parse *p, const cJSON *j, void *to)
{
	struct hooks h = {&p->spec->x.pre_stop, &p->spec->x.n_pre_stop};

	(void)to;
	return get_hooks(p, j, &h);
}
