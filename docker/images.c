/* SPDX-License-Identifier: MIT */
/* Images: looked up, and pulled with progress. Any thread; nothing is shared. */
#include "docker/images.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "docker/credentials.h"
#include "docker/follow.h"
#include "docker/json.h"
#include "docker/objects.h"
#include "docker/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define AUTH_MAX (512u << 10)

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

/* "linux/arm64/v8" beside what an image says of itself. A variant that either leaves out is any. */
static bool is_for(const cJSON *j, const char *platform)
{
	const char *const have[] = {
		json_string(j, "Os"), json_string(j, "Architecture"), json_string(j, "Variant")};

	for (size_t i = 0; i < 3 && *platform; i++) {
		size_t len = strcspn(platform, "/");

		if (have[i] && *have[i] &&
			(strlen(have[i]) != len || strncasecmp(have[i], platform, len) != 0))
			return false;
		platform += len + (platform[len] == '/');
	}
	return true;
}

int docker_image_check(struct engine *e, const char *image, const char *platform, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	int rc = inspect(docker_of(e), image, &j, err);

	if (rc == 0 && platform && !is_for(j, platform))
		return err_set(err, ENOENT, "the engine's image %s is not for %s", image, platform);
	return rc;
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
	struct progress progress;
	const struct engine_fetcher *fetcher;
	struct err *err;
};

int image_failure(const char *words, struct err *err)
{
	static const struct {
		const char *words;
		int code;
	} known[] = {{"unauthorized", EACCES}, {"no basic auth", EACCES}, {"denied", EACCES},
		{"authentication required", EACCES}, {"not found", ENOENT},
		{"manifest unknown", ENOENT}, {"does not exist", ENOENT},
		{"no matching manifest", ENOENT}, {"no space left", ENOSPC}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcasestr(words, known[i].words))
			return err_set(err, known[i].code, "%s", words);
	return err_set(err, EIO, "%s", words);
}

/* A failure inside the stream: the status line had been good. */
static int on_object(void *arg, const cJSON *o)
{
	struct pull *p = arg;
	const char *error = json_string(o, "error");

	if (error)
		return image_failure(error, p->err);
	if (progress_feed(&p->progress, o))
		p->fetcher->pulled(
			p->fetcher->arg, p->progress.percent, p->progress.bytes, p->progress.total);
	return 0;
}

int image_feed(struct objects *o, const void *data, size_t n, const char *what, struct err *err)
{
	int rc = objects_feed(o, data, n);

	if (rc == -EPROTO)
		return err_set(err, EPROTO, "the engine's report of the %s is not JSON", what);
	if (rc == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	return rc;
}

int image_end(const struct objects *o, int rc, int stop_fd, const char *what, struct err *err)
{
	if ((rc == 0 || rc == -EINTR) && follow_stopped(stop_fd))
		return err_set(err, EINTR, "the %s was interrupted", what);
	if (rc == 0 && o->depth)
		return err_set(
			err, EPROTO, "the engine's report of the %s ends in the middle", what);
	return rc;
}

void image_told(const struct err *why, struct err *err)
{
	struct err all = *err;

	if (why->code)
		err_set(err, all.code, "%.250s (%.200s)", all.msg, why->msg);
}

static int on_data(void *arg, const void *data, size_t n)
{
	struct pull *p = arg;

	return image_feed(&p->objects, data, n, "pull", p->err);
}

/* The head with what is kept for the registry, or NULL for none. A helper that fails is told of
 * where the pull fails too: an image that all may have needs none. */
static char *auth_header(const char *config, const char *image, int stop_fd, struct err *why)
{
	cleanup_free char *registry = credentials_registry(image);
	struct buf b;

	buf_init(&b, AUTH_MAX);
	buf_puts(&b, "X-Registry-Auth: ");
	if (!registry || credentials_header(config, registry, stop_fd, &b, why) < 0 ||
		(b.len && b.data[b.len - 1] == ' ')) {
		buf_fini(&b);
		return NULL;
	}
	return buf_steal(&b);
}

static char *pull_path(const char *image, const char *platform, struct err *err)
{
	cleanup_free char *name = NULL, *tag = NULL;
	struct buf b;
	char *path;

	if (image_split(image, &name, &tag)) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	buf_init(&b, 8192);
	buf_puts(&b, "/images/create?fromImage=");
	http_escape(&b, name, false);
	if (*tag) {
		buf_puts(&b, "&tag=");
		http_escape(&b, tag, false);
	}
	if (platform) {
		buf_puts(&b, "&platform=");
		http_escape(&b, platform, false);
	}
	path = buf_steal(&b);
	if (!path)
		err_set(err, EINVAL, "image name %.40s... is too long", image);
	return path;
}

/* The answer's own words may stand for a code that its status does not tell. */
static int refine(int rc, struct err *err)
{
	struct err said = *err;

	return rc == -EIO ? image_failure(said.msg, err) : rc;
}

/* Podman is content with an image for another platform if the registry has no other. */
static int pulled_for(struct engine *e, const char *image, const char *platform, struct err *err)
{
	int rc = docker_image_check(e, image, platform, err);

	if (rc == -ENOENT)
		return err_set(err, ENOENT, "cannot pull %s: it is not for %s", image, platform);
	return rc;
}

int docker_image_pull(struct engine *e, const char *image, const char *platform,
	const struct engine_fetcher *f, struct err *err)
{
	struct err why = {0};
	struct pull p = {.fetcher = f, .err = err};
	cleanup_free char *path = pull_path(image, platform, err);
	cleanup_free char *header =
		path ? auth_header(docker_of(e)->config, image, f->stop_fd, &why) : NULL;
	struct follow_request req = {
		.method = "POST", .path = path, .header = header, .retry = true};
	struct follow_sink sink = {.data = on_data, .arg = &p, .stop_fd = f->stop_fd};
	int rc;

	if (!path)
		return -err->code;
	if (why.code)
		log_warn("credentials for %s: %s", image, why.msg);
	objects_init(&p.objects, on_object, &p);
	rc = follow(docker_of(e)->http, &req, &sink, err);
	rc = image_end(&p.objects, rc, f->stop_fd, "pull", err);
	objects_fini(&p.objects);
	if (header)
		explicit_bzero(header, strlen(header));
	if (!rc && platform)
		return pulled_for(e, image, platform, err);
	if (!rc || rc == -EINTR)
		return rc;
	rc = refine(rc, err);
	err_prefix(err, "cannot pull %s", image);
	image_told(&why, err);
	return rc;
}
