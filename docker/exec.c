/* SPDX-License-Identifier: MIT */
/* Execs, made and looked at. Nothing is shared. */
#include "docker/exec.h"

#include "docker/json.h"
#include "docker/name.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define SETTLE_MS 20
#define SETTLES	  250

int exec_create(struct docker *d, const char *container, char exec[EXEC_ID_MAX], struct err *err)
{
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b), *answer = NULL;
	char path[128];
	/* An exec that is never started is nothing: twice is as good as once. */
	struct http_call c = {.method = "POST", .path = path, .json = body, .repeatable = true};
	cJSON *argv;
	const char *got;
	int rc;

	if (!name_is_id(container))
		return err_set(err, EINVAL, "%.64s is no container's id", container);
	snprintf(path, sizeof(path), "/containers/%s/exec", container);
	json_add_bool(&b, body, "AttachStdin", true);
	json_add_bool(&b, body, "AttachStdout", true);
	json_add_bool(&b, body, "AttachStderr", true);
	json_add_bool(&b, body, "Tty", false);
	json_add_string(&b, body, "User", "0");
	argv = json_add_array(&b, body, "Cmd");
	json_add_string(&b, argv, NULL, ENGINE_AGENT_PATH);
	json_add_string(&b, argv, NULL, "relay");
	if (b.bad)
		return err_set(err, ENOMEM, "out of memory");
	rc = http_json(d->http, &c, &answer, err);
	if (rc)
		return rc;
	got = json_string(answer, "Id");
	if (!name_is_id(got))
		return err_set(err, EPROTO, "the engine made an exec without an id");
	snprintf(exec, EXEC_ID_MAX, "%s", got);
	return 0;
}

/* 1: the engine is just starting it. It says "running" from the first moment, without a pid. */
static int half_started(struct docker *d, const char *exec, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	char path[128];
	struct http_call c = {.method = "GET", .path = path};
	int64_t pid = 0;
	int rc;

	snprintf(path, sizeof(path), "/exec/%s/json", exec);
	rc = http_json(d->http, &c, &j, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	json_int(j, "Pid", &pid);
	return json_true(j, "Running") && !pid;
}

static int any_half_started(struct docker *d, const char *container, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	const cJSON *ids;
	int rc = docker_container(d, container, &j, err);

	if (rc)
		return rc;
	ids = json_array(j, "ExecIDs");
	for (const cJSON *id = ids ? ids->child : NULL; id && !rc; id = id->next)
		if (cJSON_IsString(id) && name_is_id(id->valuestring))
			rc = half_started(d, id->valuestring, err);
	return rc;
}

int exec_settle(struct docker *d, const char *container, struct err *err)
{
	struct timespec moment = {.tv_nsec = SETTLE_MS * 1000000L};
	int rc = 0;

	for (int i = 0; i < SETTLES; i++) {
		rc = any_half_started(d, container, err);
		if (rc <= 0)
			return rc;
		nanosleep(&moment, NULL);
	}
	return err_set(err, EBUSY, "a program is just being started in container %.12s", container);
}
