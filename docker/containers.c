/* SPDX-License-Identifier: MIT */
/* Containers: made, changed, listed, removed. Any thread; nothing is shared but the agent's volume,
 * which has its own lock. */
#include "docker/box.h"
#include "docker/body.h"
#include "docker/docker.h"
#include "docker/exec.h"
#include "docker/images.h"
#include "docker/json.h"
#include "docker/name.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define PATH_MAX_LEN  1536
#define LIST_MAX      (256u << 20)
#define LONG_S	      180 /* creating and removing move files */
#define REMOVE_WAIT_S 60
#define MAKING_LEN    32
/* A name is the engine's before its container can be looked at. */
#define CREATE_TRIES   100u
#define CREATE_WAIT_MS 50

/* METHOD /containers/ID/what; all that come here may be repeated. */
static int act(struct docker *d, const char *method, const char *id, const char *what,
	unsigned timeout_s, struct http_reply *r, struct err *err)
{
	char path[PATH_MAX_LEN];
	struct http_call c = {
		.method = method, .path = path, .repeatable = true, .timeout_s = timeout_s};

	*r = (struct http_reply){0};
	if (!name_is_id(id))
		return err_set(err, EINVAL, "%.64s is no container's id", id);
	snprintf(path, sizeof(path), "/containers/%s%s", id, what);
	return http_call(d->http, &c, r, err);
}

int docker_container(struct docker *d, const char *id, cJSON **out, struct err *err)
{
	char path[128];
	struct http_call c = {.method = "GET", .path = path};

	if (!name_is_id(id))
		return err_set(err, EINVAL, "%.64s is no container's id", id);
	snprintf(path, sizeof(path), "/containers/%s/json", id);
	return http_json(d->http, &c, out, err);
}

static bool says(const struct http_reply *r, const char *words)
{
	return r->body.len && strcasestr((const char *)r->body.data, words);
}

/* A word that no other request to make a container has. */
static int new_making(char word[MAKING_LEN + 1], struct err *err)
{
	uint8_t bytes[MAKING_LEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, EIO, "no random numbers");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(word + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* The name is taken. Where the answer to a request was lost, and it was sent again, it is taken by
 * what that request made: 0 and its id. -EAGAIN: nothing has the name (yet, or any more). */
static int made_before(
	struct docker *d, const char *name, const char *making, char **id, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	char path[PATH_MAX_LEN];
	struct http_call c = {.method = "GET", .path = path};
	const char *got, *by;
	int rc;

	snprintf(path, sizeof(path), "/containers/%s/json", name);
	rc = http_json(d->http, &c, &j, err);
	if (rc)
		return rc == -ENOENT ? -EAGAIN : rc;
	got = json_string(j, "Id");
	by = json_string(json_object(json_object(j, "Config"), "Labels"), LABEL_MAKING);
	if (!by || strcmp(by, making) != 0 || !name_is_id(got))
		return err_set(err, EEXIST, "the name is taken: container %s", name);
	*id = strdup(got);
	return *id ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* Podman has other words, and 500, for one that is just being made. */
static bool name_is_taken(int rc, const struct err *err)
{
	return rc == -EBUSY || (rc == -EIO && strstr(err->msg, "already in use"));
}

static int post_create(struct docker *d, const char *name, const struct spec *spec,
	const char *making, const cJSON *body, char **id, struct err *err)
{
	cleanup_json cJSON *answer = NULL;
	char path[PATH_MAX_LEN];
	struct http_call c = {.method = "POST",
		.path = path,
		.json = body,
		.timeout_s = LONG_S,
		.repeatable = true}; /* made_before tells */
	struct timespec moment = {.tv_nsec = CREATE_WAIT_MS * 1000000L};
	const char *got;
	int rc;

	snprintf(path, sizeof(path), "/containers/create?name=%s%s%.64s", name,
		spec->platform ? "&platform=" : "", spec->platform ? spec->platform : "");
	for (unsigned tries = CREATE_TRIES;; nanosleep(&moment, NULL)) {
		rc = http_json(d->http, &c, &answer, err);
		if (!name_is_taken(rc, err))
			break;
		rc = made_before(d, name, making, id, err);
		if (rc != -EAGAIN)
			return rc;
		if (!--tries)
			return err_set(err, EEXIST, "the name is taken: container %s", name);
	}
	if (rc)
		return rc;
	got = json_string(answer, "Id");
	if (!name_is_id(got))
		return err_set(err, EPROTO, "the engine made a container without an id");
	*id = strdup(got);
	return *id ? 0 : err_set(err, ENOMEM, "out of memory");
}

int docker_create(struct engine *e, const struct spec *spec, char **id, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_free char *name = NULL, *user = NULL;
	cleanup_json cJSON *body = NULL;
	char making[MAKING_LEN + 1];
	int rc;

	rc = name_encode(spec->namespace, spec->name, ENGINE_MARK_NONE, NULL, &name);
	if (rc)
		return err_set(err, -rc, "%s cannot be a sandbox's name", spec->name);
	if (spec->user && *spec->user) {
		user = strdup(spec->user);
		if (!user)
			return err_set(err, ENOMEM, "out of memory");
	} else {
		rc = image_user(d, spec->image, &user, err);
		if (rc)
			return rc;
	}
	rc = new_making(making, err);
	if (rc)
		return rc;
	rc = body_create(spec, user, agent_volume_name(d->agent), making, &body, err);
	if (rc)
		return rc;
	rc = agent_volume_ensure(d->agent, d->http, spec->image, err);
	if (rc)
		return rc;
	return post_create(d, name, spec, making, body, id, err);
}

/* The volume can have been emptied between its check and the start: fill it again, once. */
static int refill(struct docker *d, const char *id, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	const char *image;
	int rc = docker_container(d, id, &j, err);

	if (rc)
		return rc;
	image = json_string(j, "Image");
	if (!image)
		return err_set(err, EPROTO, "container %.12s has no image", id);
	agent_volume_doubt(d->agent);
	return agent_volume_ensure(d->agent, d->http, image, err);
}

/* 404 is also said of what the container needs, a network for one: it is gone only if it is. */
int docker_start(struct engine *e, const char *id, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_json cJSON *j = NULL;
	struct http_reply r;
	int rc = act(d, "POST", id, "/start", LONG_S, &r, err);

	if (rc && says(&r, ENGINE_AGENT_PATH) && says(&r, "no such file")) {
		http_reply_fini(&r);
		rc = refill(d, id, err);
		rc = rc ? rc : act(d, "POST", id, "/start", LONG_S, &r, err);
	}
	http_reply_fini(&r);
	if (rc == -ENOENT && !docker_container(d, id, &j, NULL)) {
		rc = -EINVAL;
		if (err)
			err->code = EINVAL;
	}
	return rc;
}

int docker_stop(struct engine *e, const char *id, unsigned grace_s, struct err *err)
{
	struct http_reply r;
	char what[40];
	int rc;

	snprintf(what, sizeof(what), "/stop?t=%u", grace_s);
	rc = act(docker_of(e), "POST", id, what, grace_s + LONG_S, &r, err);
	http_reply_fini(&r);
	return rc;
}

/* The state, from the engine's own words; "" if it cannot be had. */
static void status_of(struct docker *d, const char *id, char status[16])
{
	cleanup_json cJSON *j = NULL;
	const char *s;

	status[0] = 0;
	docker_container(d, id, &j, NULL);
	s = json_string(json_object(j, "State"), "Status");
	if (s)
		snprintf(status, 16, "%s", s);
}

int docker_pause(struct engine *e, const char *id, bool pause, struct err *err)
{
	struct docker *d = docker_of(e);
	struct http_reply r;
	char status[16];
	int rc = pause ? exec_settle(d, id, err) : 0;

	if (rc)
		return rc;
	rc = act(d, "POST", id, pause ? "/pause" : "/unpause", 0, &r, err);
	http_reply_fini(&r);
	if (rc != -EBUSY && rc != -EIO && rc != -EINVAL)
		return rc;
	status_of(d, id, status); /* it may be so already */
	return strcmp(status, pause ? "paused" : "running") ? rc : 0;
}

int docker_rename(
	struct engine *e, const char *id, const char *name, enum engine_mark mark, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_free char *to = NULL;
	char what[PATH_MAX_LEN - 128];
	struct http_reply r;
	int rc = name_encode(d->namespace, name, mark, id, &to);

	if (rc)
		return err_set(err, -rc, "%s cannot be a sandbox's name", name ? name : "nothing");
	snprintf(what, sizeof(what), "/rename?name=%s", to);
	rc = act(d, "POST", id, what, 0, &r, err);
	if (rc && says(&r, "same name"))
		rc = 0;
	else if (r.status == 409 || (rc == -EIO && says(&r, "already in use")))
		rc = err_set(err, EEXIST, "the name is taken: container %s", to);
	http_reply_fini(&r);
	return rc;
}

/* Someone else removes it: returns when it is gone. */
static int wait_removed(struct docker *d, const char *id, struct err *err)
{
	struct http_reply r;
	int rc = act(d, "POST", id, "/wait?condition=removed", REMOVE_WAIT_S, &r, err);

	http_reply_fini(&r);
	return r.status == 404 ? 0 : rc;
}

int docker_remove(struct engine *e, const char *id, struct err *err)
{
	struct docker *d = docker_of(e);
	struct http_reply r;
	int rc = act(d, "DELETE", id, "?force=1&v=1", LONG_S, &r, err);

	if (r.status == 404)
		rc = 0;
	else if (r.status == 409 && says(&r, "already in progress"))
		rc = wait_removed(d, id, err);
	http_reply_fini(&r);
	return rc;
}

int docker_inspect(struct engine *e, const char *id, struct engine_box *box, struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_json cJSON *j = NULL;
	int rc = docker_container(d, id, &j, err);

	return rc ? rc : box_from_inspect(j, d->namespace, box, err);
}

void docker_filter(struct json_builder *b, cJSON *filter, const char *namespace)
{
	char *label;

	if (asprintf(&label, LABEL_NAMESPACE "=%s", namespace) < 0) {
		b->bad = true;
		return;
	}
	json_add_string(b, json_add_array(b, filter, "label"), NULL, label);
	free(label);
}

static int list_path(struct docker *d, struct buf *b, struct err *err)
{
	cleanup_free char *filter = NULL;
	struct json_builder builder = {0};
	cleanup_json cJSON *f = json_new(&builder);

	docker_filter(&builder, f, d->namespace);
	filter = builder.bad ? NULL : cJSON_PrintUnformatted(f);
	buf_puts(b, "/containers/json?all=1&filters=");
	http_escape(b, filter ? filter : "", false);
	return filter && !b->error ? 0 : err_set(err, ENOMEM, "out of memory");
}

int docker_list(struct engine *e, void (*each)(void *arg, const struct engine_box *box), void *arg,
	struct err *err)
{
	struct docker *d = docker_of(e);
	cleanup_json cJSON *all = NULL;
	struct http_call c = {.method = "GET", .max = LIST_MAX};
	struct engine_box box;
	struct buf path;
	int rc;

	buf_init(&path, 8192);
	rc = list_path(d, &path, err);
	c.path = (char *)path.data;
	rc = rc ? rc : http_json(d->http, &c, &all, err);
	buf_fini(&path);
	if (rc)
		return rc;
	if (!cJSON_IsArray(all))
		return err_set(err, EPROTO, "the engine's list is no list");
	for (const cJSON *j = all->child; j; j = j->next) {
		rc = box_from_list(j, d->namespace, &box, err);
		if (rc == -ENOENT) {
			log_trace("engine: %s", err ? err->msg : "");
			continue;
		}
		if (rc)
			return rc; /* half a list would make sandboxes vanish */
		each(arg, &box);
		engine_box_fini(&box);
	}
	return 0;
}
