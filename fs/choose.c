/* SPDX-License-Identifier: MIT */
/*
 * The table of engines and of the places where they may be, in the order in which they are tried.
 * An engine that needs no place has a row without `find`.
 *
 * What the user has named is taken or the mount fails: were another engine taken instead, the
 * sandboxes would be made on a machine, and with rights, that nobody asked for.
 */
#include "fs/choose.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_S 10u /* to answer: it may be far away, or busy */
#define USUAL_S 3u  /* a socket where nobody asked us to look */

static const struct candidate {
	const char *engine;  /* the word for -o engine= */
	const char *place;   /* where that is, for words */
	const char *because; /* why it was taken */
	const char *remedy;  /* what helps where it was not; NULL: what was wrong says it */
	bool named;	     /* by the user: nothing else will do */
	unsigned patience_s;
	engine_find *find;
	engine_open *open;
} candidates[] = {
	{"docker", "-o host", "-o host names it", "start that engine", true, NAMED_S,
		docker_place_option, docker_engine_open},
	{"docker", "DOCKER_HOST", "DOCKER_HOST names it",
		"start that engine, unset DOCKER_HOST, or name another one with -o host=ADDRESS",
		true, NAMED_S, docker_place_env, docker_engine_open},
	{"docker", "the docker context", "the current docker context names it",
		"start that engine, choose another one with `docker context use`, or name one with "
		"-o host=ADDRESS",
		true, NAMED_S, docker_place_context, docker_engine_open},
	{"docker", "the Docker socket", "the Docker socket answers", "start Docker", false, USUAL_S,
		docker_place_socket, docker_engine_open},
	{"docker", "the Podman socket", "the Podman socket answers",
		"start Podman's service (podman.socket)", false, USUAL_S, docker_place_podman,
		docker_engine_open},
	{"bwrap", "the embedded engine", "no other engine answers", NULL, false, 0, bwrap_place,
		bwrap_engine_open},
};

#define CANDIDATES (sizeof(candidates) / sizeof(candidates[0]))

int choose_check(const char *word)
{
	const char *last = "auto";

	if (!word || strcmp(word, "auto") == 0)
		return 0;
	for (size_t i = 0; i < CANDIDATES; i++)
		if (strcmp(word, candidates[i].engine) == 0)
			return 0;
	fprintf(stderr, "sandboxfs: engine=%s is not one of auto", word);
	for (size_t i = 0; i < CANDIDATES; i++) {
		if (strcmp(last, candidates[i].engine) != 0)
			fprintf(stderr, ", %s", candidates[i].engine);
		last = candidates[i].engine;
	}
	fputs("\n", stderr);
	return -EINVAL;
}

/* The value of `key: value` in an engine's description; "" where there is none. */
static void value(const char *text, const char *key, char *to, size_t size)
{
	size_t len = strlen(key);

	*to = 0;
	for (const char *s = text; s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
		if (strncmp(s, key, len) == 0 && strncmp(s + len, ": ", 2) == 0) {
			s += len + 2;
			snprintf(to, size, "%.*s", (int)strcspn(s, "\n"), s);
			return;
		}
}

static void say(struct engine *e, const char *why)
{
	char name[64], version[80], address[256];
	cleanup_free char *text = NULL;
	struct err err;

	if (e->ops->describe(e, &text, &err) < 0)
		text = NULL;
	value(text, "engine", name, sizeof(name));
	value(text, "version", version, sizeof(version));
	value(text, "address", address, sizeof(address));
	fprintf(stderr, "sandboxfs: engine %s%s%s%s%s: %s\n", *name ? name : e->ops->name,
		*version ? " " : "", version, *address ? " at " : "", address, why);
}

/* An engine of one place only was asked for by its name, or is what is left. */
static const char *reason(const struct candidate *c, const struct options *o)
{
	size_t places = 0;

	for (size_t i = 0; i < CANDIDATES; i++)
		places += strcmp(candidates[i].engine, c->engine) == 0;
	return places == 1 && o->engine && strcmp(o->engine, c->engine) == 0 ? "-o engine names it"
									     : c->because;
}

/* 0, or -errno with words; *named: it is there, and nothing else will do. */
static int attempt(const struct candidate *c, const struct options *o, struct engine_config config,
	struct engine **e, char **why, bool *named, struct err *err)
{
	struct engine_place place = {0};
	int r = c->find ? c->find(o->host, &place, err) : 0;

	*named = c->named && r != -ENOENT;
	config.place = c->find ? &place : NULL;
	config.patience_s = c->patience_s;
	if (r == 0)
		r = c->open(&config, e, err);
	if (r == 0) {
		*why = place.why ? steal_ptr(&place.why) : strdup(reason(c, o));
		if (!*why) {
			(*e)->ops->close(*e);
			r = err_set(err, ENOMEM, "out of memory");
		}
	}
	engine_place_fini(&place);
	return r;
}

/* One message: each place and what was wrong with it, and what helps. */
static void say_none(const struct buf *tried, const struct buf *remedies, const char *named)
{
	fprintf(stderr, "sandboxfs: no engine:\n%s", tried->len ? (const char *)tried->data : "");
	if (named)
		fprintf(stderr, "sandboxfs: nothing else is tried, since %s says where: %s\n",
			named, remedies->len ? (const char *)remedies->data : "");
	else if (remedies->len)
		fprintf(stderr, "sandboxfs: %s, or name an engine with -o host=ADDRESS\n",
			(const char *)remedies->data);
}

int choose_engine(const struct options *o, const char *agent, const char *launch, struct engine **e,
	char **why)
{
	bool any = !o->engine || strcmp(o->engine, "auto") == 0, named = false;
	struct engine_config config = {
		.namespace = o->namespace, .agent_path = agent, .launch_path = launch};
	const struct candidate *c = candidates;
	struct buf tried, remedies;
	struct err err = {0};
	int r = -ENOENT;

	buf_init(&tried, 16384);
	buf_init(&remedies, 4096);
	for (size_t i = 0; r < 0 && !named && i < CANDIDATES; i++) {
		c = &candidates[i];
		if (!any && strcmp(o->engine, c->engine) != 0)
			continue;
		r = attempt(c, o, config, e, why, &named, &err);
		if (r == 0)
			break;
		if (named) { /* what was not there before it is of no use now */
			buf_reset(&tried);
			buf_reset(&remedies);
		}
		buf_printf(&tried, "  %s: %s\n", c->place, err.msg);
		if (c->remedy && (named || !c->named))
			buf_printf(&remedies, "%s%s", remedies.len ? ", " : "", c->remedy);
	}
	if (r == 0)
		say(*e, *why);
	else
		say_none(&tried, &remedies, named ? c->place : NULL);
	buf_fini(&tried);
	buf_fini(&remedies);
	return r;
}
