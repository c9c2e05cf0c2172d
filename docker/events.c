/* SPDX-License-Identifier: MIT */
/*
 * The engine's events, followed in the caller's thread. The engine sends the head of its answer
 * just before it subscribes us, so events are asked for from a moment before: a few may be told
 * twice, none is missed between up() and the first one. Nothing is shared.
 */
#include "common/cleanup.h"
#include "docker/docker.h"
#include "docker/follow.h"
#include "docker/json.h"
#include "docker/name.h"
#include "docker/objects.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct watch {
	struct objects objects;
	const struct engine_watcher *watcher;
	struct err *err;
};

/* Docker's words, then those of Podman, which tells of a "died" as "die" but filters it by its own
 * name. For a filter: {"type":["container"],"label":["..."],"event":[...]}. */
static char *filters(const char *namespace)
{
	static const char *const events[] = {"create", "start", "die", "destroy", "rename", "pause",
		"unpause", "oom", "stop", "remove", "update", "died", NULL};
	struct json_builder b = {0};
	cleanup_json cJSON *f = json_new(&b);
	cJSON *list;

	json_add_string(&b, json_add_array(&b, f, "type"), NULL, "container");
	docker_filter(&b, f, namespace);
	list = json_add_array(&b, f, "event");
	for (size_t i = 0; events[i]; i++)
		json_add_string(&b, list, NULL, events[i]);
	return b.bad ? NULL : cJSON_PrintUnformatted(f);
}

static int on_event(void *arg, const cJSON *o)
{
	struct watch *w = arg;
	const char *id = json_string(json_object(o, "Actor"), "ID");

	if (!id)
		id = json_string(o, "id");
	if (name_is_id(id))
		w->watcher->changed(w->watcher->arg, id);
	return 0;
}

static void on_head(void *arg)
{
	struct watch *w = arg;

	w->watcher->up(w->watcher->arg);
}

static int on_data(void *arg, const void *p, size_t n)
{
	struct watch *w = arg;
	int rc = objects_feed(&w->objects, p, n);

	if (rc == -EPROTO)
		return err_set(w->err, EPROTO, "the engine's event stream is not JSON");
	return rc ? err_set(w->err, -rc, "out of memory") : 0;
}

static int engine_clock(struct docker *d, int64_t *now, struct err *err)
{
	struct http_call c = {.method = "GET", .path = "/_ping", .tries = 1};
	struct http_reply r;
	int rc = http_call(d->http, &c, &r, err);

	http_reply_fini(&r);
	*now = r.date;
	return rc;
}

int docker_watch(struct engine *e, const struct engine_watcher *watcher, struct err *err)
{
	struct docker *d = docker_of(e);
	struct watch w = {.watcher = watcher, .err = err};
	struct follow_sink sink = {
		.head = on_head, .data = on_data, .arg = &w, .stop_fd = watcher->stop_fd};
	struct follow_request req = {.method = "GET"};
	cleanup_free char *filter = NULL, *path = NULL;
	struct buf b;
	int64_t now;
	int rc;

	rc = engine_clock(d, &now, err);
	if (rc)
		return rc;
	filter = filters(d->namespace);
	buf_init(&b, 8192);
	buf_puts(&b, "/events?filters=");
	http_escape(&b, filter ? filter : "", false);
	if (now > 1)
		buf_printf(&b, "&since=%" PRId64, now - 1);
	path = buf_steal(&b);
	if (!filter || !path)
		return err_set(err, ENOMEM, "out of memory");
	objects_init(&w.objects, on_event, &w);
	req.path = path;
	if (d->flavour.late_head) {
		sink.head = NULL;
		on_head(&w);
	}
	rc = follow(d->http, &req, &sink, err);
	objects_fini(&w.objects);
	/* The stream can also end by itself, and that is no end that anyone asked for. */
	if (!rc && !follow_stopped(watcher->stop_fd))
		rc = err_set(err, EHOSTDOWN, "the engine at %s ended its event stream",
			http_host(d->http));
	return rc;
}
