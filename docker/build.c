/* SPDX-License-Identifier: MIT */
/* An image made from a directory with a Dockerfile: the context is sent as it is packed, the log is
 * told line by line. Any thread; nothing is shared. */
#include "docker/build.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "docker/body.h"
#include "docker/context.h"
#include "docker/credentials.h"
#include "docker/docker.h"
#include "docker/follow.h"
#include "docker/images.h"
#include "docker/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DOCKERFILE_MAX (1u << 20)
#define QUERY_MAX      (1u << 20)
#define AUTH_MAX       (1u << 20)
#define REGISTRIES_MAX 16u
#define STAGES_MAX     64u

struct build {
	struct objects objects;
	struct docker *docker;
	struct context *context;
	struct build_log log;
	struct err *err;
};

static void log_flush(struct build_log *l)
{
	if (!l->n)
		return;
	l->line[l->n] = 0;
	memcpy(l->last, l->line, l->n + 1);
	l->n = 0;
	l->fetcher->built(l->fetcher->arg, l->line);
}

void build_log_text(struct build_log *l, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (l->escape) { /* a colour: ESC [ ... letter */
			l->escape = c == '[' || (c >= 0x20 && c < 0x40);
		} else if (c == 0x1b) {
			l->escape = true;
		} else if (c == '\n' || c == '\r') {
			log_flush(l);
		} else {
			l->line[l->n++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
			if (l->n == sizeof(l->line) - 1)
				log_flush(l);
		}
	}
}

static int on_object(void *arg, const cJSON *o)
{
	struct build *b = arg;
	const char *error = json_string(o, "error"), *text = json_string(o, "stream");
	const char *status = json_string(o, "status");
	int64_t total;

	if (text)
		build_log_text(&b->log, text);
	/* What a FROM pulls: without its counting. */
	if (status && !json_int(json_object(o, "progressDetail"), "total", &total)) {
		const char *id = json_string(o, "id");

		build_log_text(&b->log, status);
		build_log_text(&b->log, id ? " " : "");
		build_log_text(&b->log, id ? id : "");
		build_log_text(&b->log, "\n");
	}
	if (!error)
		return 0;
	log_flush(&b->log);
	return err_set(b->err, strcasestr(error, "no space left") ? ENOSPC : EIO,
		"%.300s%s%.120s%s", error, *b->log.last ? " (the last line of its log: " : "",
		b->log.last, *b->log.last ? ")" : "");
}

static int on_data(void *arg, const void *data, size_t n)
{
	struct build *b = arg;

	return image_feed(&b->objects, data, n, "build", b->err);
}

static ssize_t on_body(void *arg, void *p, size_t n)
{
	struct build *b = arg;

	return context_read(b->context, p, n, b->err);
}

static int on_again(void *arg)
{
	struct build *b = arg;

	return context_rewind(b->context, b->err);
}

/* KEY=VALUE becomes a map, as text. */
static char *args_json(char *const *args)
{
	struct json_builder b = {0};
	cleanup_json cJSON *map = json_new(&b);

	body_add_pairs(&b, map, args);
	return b.bad ? NULL : cJSON_PrintUnformatted(map);
}

static void query(struct buf *q, const char *key, const char *value)
{
	if (!value)
		return;
	buf_printf(q, "%s%s=", strchr((char *)q->data, '?') ? "&" : "?", key);
	http_escape(q, value, false);
}

static char *build_path(const struct spec *spec, const char *dockerfile)
{
	cleanup_free char *args = args_json(spec->build.args);
	struct buf q;

	if (!args)
		return NULL;
	buf_init(&q, QUERY_MAX);
	buf_puts(&q, "/build");
	query(&q, "t", spec->image);
	query(&q, "dockerfile", dockerfile);
	query(&q, "buildargs", args);
	query(&q, "target", spec->build.target);
	query(&q, "platform", spec->platform);
	query(&q, "labels", "{\"" LABEL_BUILT "\":\"true\"}");
	buf_puts(&q, "&rm=1&forcerm=1");
	return buf_steal(&q);
}

/* The image that a line "FROM [--platform=P] IMAGE" names: n bytes; NULL where it is another line.
 */
static const char *from_image(const char *line, size_t *n)
{
	line += strspn(line, " \t");
	if (strncasecmp(line, "FROM", 4) != 0 || !strspn(line + 4, " \t"))
		return NULL;
	line += 4;
	for (;;) {
		line += strspn(line, " \t");
		*n = strcspn(line, " \t\r\n");
		if (strncmp(line, "--", 2) != 0)
			break;
		line += *n;
	}
	return *n ? line : NULL;
}

/* What stands behind the image: "AS NAME", n bytes; NULL: nothing of the kind. */
static const char *stage_name(const char *p, size_t *n)
{
	p += strspn(p, " \t");
	if (strncasecmp(p, "AS", 2) != 0 || !strspn(p + 2, " \t"))
		return NULL;
	p += 2;
	p += strspn(p, " \t");
	*n = strcspn(p, " \t\r\n");
	return p;
}

static bool is_among(char *const *list, size_t count, const char *s)
{
	while (count && strcasecmp(list[count - 1], s) != 0)
		count--;
	return count;
}

/* Takes s over, which may be NULL; one that is there already, or for which there is no room, is
 * dropped. */
static void add_once(char **list, size_t *count, size_t max, char *s)
{
	if (s && *count < max && !is_among(list, *count, s))
		list[(*count)++] = s;
	else
		free(s);
}

size_t build_registries(const char *text, char **to, size_t max)
{
	char *stages[STAGES_MAX];
	size_t count = 0, n_stages = 0, n;

	for (const char *line = text; *line && count < max;) {
		const char *image = from_image(line, &n);
		cleanup_free char *name = image ? strndup(image, n) : NULL;
		const char *stage = image ? stage_name(image + n, &n) : NULL;

		/* One with a '$' only the engine can resolve. */
		if (name && !strchr(name, '$') && strcmp(name, "scratch") != 0 &&
			!is_among(stages, n_stages, name))
			add_once(to, &count, max, credentials_registry(name));
		if (stage)
			add_once(stages, &n_stages, STAGES_MAX, strndup(stage, n));
		line = strchrnul(line, '\n');
		line += *line == '\n';
	}
	while (n_stages)
		free(stages[--n_stages]);
	return count;
}

/* What is kept for the registries that the Dockerfile's FROM lines name; NULL for none. */
static char *auth_header(const struct build *build, int stop_fd, struct err *why)
{
	char *registries[REGISTRIES_MAX + 1] = {0};
	struct buf text, b;
	size_t empty;

	buf_init(&text, DOCKERFILE_MAX);
	buf_init(&b, AUTH_MAX);
	if (context_dockerfile(build->context, &text, NULL) == 0)
		build_registries((char *)text.data, registries, REGISTRIES_MAX);
	buf_fini(&text);
	buf_puts(&b, "X-Registry-Config: ");
	empty = b.len;
	credentials_config(build->docker->config, registries, stop_fd, &b, why);
	if (b.len == empty)
		buf_fini(&b);
	for (char **r = registries; *r; r++)
		free(*r);
	return b.data ? buf_steal(&b) : NULL;
}

static int run(struct build *b, const char *path, int stop_fd, struct err *err)
{
	struct err why = {0};
	cleanup_free char *header = auth_header(b, stop_fd, &why);
	struct follow_request req = {.method = "POST",
		.path = path,
		.header = header,
		.body = on_body,
		.again = on_again,
		.type = "application/x-tar",
		.retry = true};
	struct follow_sink sink = {.data = on_data, .arg = b, .stop_fd = stop_fd};
	int rc;

	if (why.code)
		log_warn("credentials for a build: %s", why.msg);
	objects_init(&b->objects, on_object, b);
	rc = follow(b->docker->http, &req, &sink, err);
	rc = image_end(&b->objects, rc, stop_fd, "build", err);
	objects_fini(&b->objects);
	log_flush(&b->log);
	if (header)
		explicit_bzero(header, strlen(header));
	if (rc && rc != -EINTR)
		image_told(&why, err);
	return rc;
}

int docker_image_build(
	struct engine *e, const struct spec *spec, const struct engine_fetcher *f, struct err *err)
{
	const char *dockerfile = spec->build.dockerfile ? spec->build.dockerfile : "Dockerfile";
	struct build b = {.docker = docker_of(e), .log.fetcher = f, .err = err};
	cleanup_free char *path = NULL;
	int rc;

	while (!strncmp(dockerfile, "./", 2))
		dockerfile += 2;
	path = build_path(spec, dockerfile);
	if (!path)
		return err_set(err, EINVAL, "the build of %s has too many args", spec->image);
	rc = context_open(spec->build.context, dockerfile, f->stop_fd, &b.context, err);
	if (rc == 0) {
		rc = run(&b, path, f->stop_fd, err);
		context_close(b.context);
	}
	if (rc && rc != -EINTR)
		err_prefix(err, "cannot build %s", spec->image);
	return rc;
}
