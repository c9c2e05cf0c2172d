/* SPDX-License-Identifier: MIT */
/* Images: looked up, and pulled with progress. Any thread; nothing is shared. */
#include "docker/images.h"

#include "common/cleanup.h"
#include "docker/follow.h"
#include "docker/json.h"
#include "docker/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_LEN 256

static int inspect(struct docker *d, const char *image, cJSON **out, struct err *err)
{
	struct http_call c = {.method = "GET"};
	cleanup_free char *path = NULL;
	struct buf b;
	int rc;

	if (!*image)
		return err_set(err, EINVAL, "no image is named");
	buf_init(&b, 8192);
	buf_puts(&b, "/images/");
	http_escape(&b, image, true);
	buf_puts(&b, "/json");
	c.path = path = buf_steal(&b);
	if (!path)
		return err_set(err, EINVAL, "image name %.40s... is too long", image);
	rc = http_json(d->http, &c, out, err);
	if (rc == -ENOENT)
		return err_set(err, ENOENT, "the engine has no image %s", image);
	return rc;
}

int docker_image_check(struct engine *e, const char *image, struct err *err)
{
	cleanup_json cJSON *j = NULL;

	return inspect(docker_of(e), image, &j, err);
}

int image_user(struct docker *d, const char *image, char **user, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	const char *name;
	int rc = inspect(d, image, &j, err);

	if (rc)
		return rc;
	name = json_string(json_object(j, "Config"), "User");
	*user = strdup(name && *name ? name : "0");
	return *user ? 0 : err_set(err, ENOMEM, "out of memory");
}

int image_split(const char *image, char **name, char **tag)
{
	const char *slash = strrchr(image, '/');
	const char *colon = strchr(slash ? slash : image, ':');
	cleanup_free char *n = NULL, *t = NULL;

	if (strchr(image, '@')) {
		n = strdup(image);
		t = strdup("");
	} else {
		n = colon ? strndup(image, (size_t)(colon - image)) : strdup(image);
		t = strdup(colon && colon[1] ? colon + 1 : "latest");
	}
	if (!n || !t)
		return -ENOMEM;
	*name = steal_ptr(&n);
	*tag = steal_ptr(&t);
	return 0;
}

struct pull {
	struct objects objects;
	bool (*progress)(void *arg, const char *line);
	void *arg;
	char line[LINE_MAX_LEN]; /* the last one */
	struct err *err;
};

static int report(struct pull *p)
{
	if (p->progress && !p->progress(p->arg, p->line))
		return err_set(p->err, EINTR, "the pull was interrupted");
	return 0;
}

/* A failure inside the stream: the status line had been good. */
static int failure(struct pull *p, const char *words)
{
	bool missing = strcasestr(words, "not found") || strcasestr(words, "manifest unknown") ||
		       strcasestr(words, "does not exist");

	return err_set(p->err, missing ? ENOENT : EIO, "%s", words);
}

static int on_object(void *arg, const cJSON *o)
{
	struct pull *p = arg;
	const char *error = json_string(o, "error"), *status = json_string(o, "status");
	const char *id = json_string(o, "id");
	const cJSON *detail = json_object(o, "progressDetail");
	int64_t current, total;
	char count[64] = "";

	if (error)
		return failure(p, error);
	if (!status)
		status = json_string(o, "stream"); /* Podman's word for it */
	if (!status)
		return 0;
	if (json_int(detail, "current", &current) && json_int(detail, "total", &total))
		snprintf(count, sizeof(count), " %lld/%lld", (long long)current, (long long)total);
	snprintf(p->line, sizeof(p->line), "%.150s%s%.32s%s", status, id ? " " : "", id ? id : "",
		count);
	for (char *c = p->line; *c; c++)
		if ((unsigned char)*c < 0x20)
			*c = ' ';
	return report(p);
}

static int on_data(void *arg, const void *data, size_t n)
{
	struct pull *p = arg;
	int rc = objects_feed(&p->objects, data, n);

	if (rc == -EPROTO)
		return err_set(p->err, EPROTO, "the engine's report of the pull is not JSON");
	if (rc == -ENOMEM)
		return err_set(p->err, ENOMEM, "out of memory");
	return rc;
}

static int on_tick(void *arg)
{
	return report(arg); /* so that whoever waits can end it */
}

int docker_image_pull(struct engine *e, const char *image,
	bool (*progress)(void *arg, const char *line), void *arg, struct err *err)
{
	cleanup_free char *name = NULL, *tag = NULL, *path = NULL;
	struct pull p = {.progress = progress, .arg = arg, .err = err};
	struct follow_sink sink = {.data = on_data, .tick = on_tick, .arg = &p, .stop_fd = -1};
	struct buf b;
	int rc;

	if (image_split(image, &name, &tag))
		return err_set(err, ENOMEM, "out of memory");
	buf_init(&b, 8192);
	buf_puts(&b, "/images/create?fromImage=");
	http_escape(&b, name, false);
	if (*tag) {
		buf_puts(&b, "&tag=");
		http_escape(&b, tag, false);
	}
	path = buf_steal(&b);
	if (!path)
		return err_set(err, EINVAL, "image name %.40s... is too long", image);
	snprintf(p.line, sizeof(p.line), "Pulling %.200s", image);
	objects_init(&p.objects, on_object, &p);
	rc = follow(docker_of(e)->http, "POST", path, &sink, err);
	objects_fini(&p.objects);
	if (rc && rc != -EINTR && err)
		err_prefix(err, "cannot pull %s", image);
	return rc;
}
