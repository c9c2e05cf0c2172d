/* SPDX-License-Identifier: MIT */
/* What a container printed: read from the engine as it comes, and only the end of it kept. */
#include "docker/demux.h"
#include "docker/docker.h"
#include "docker/follow.h"
#include "docker/log_time.h"
#include "docker/name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINES  4000 /* the engine cuts lines at 16 KiB */
#define LOGS_S 30   /* an engine that hangs must not keep the thread */

struct logs {
	struct demux demux;
	struct buf *out;
	size_t max;
	bool cut;
};

/* Twice as much as is kept, so that not each piece moves all. */
static void keep_end(struct logs *l, size_t most)
{
	if (l->out->len > most) {
		buf_consume(l->out, l->out->len - l->max);
		l->cut = true;
	}
}

static int on_data(void *arg, const void *p, size_t n)
{
	struct logs *l = arg;
	uint8_t *to = buf_reserve(l->out, n);
	ssize_t got;

	if (!to)
		return -ENOMEM;
	memcpy(to, p, n);
	got = demux_feed(&l->demux, to, n);
	if (got < 0)
		return (int)got;
	buf_commit(l->out, (size_t)got);
	keep_end(l, 2 * l->max);
	return 0;
}

/* The same text, its times in UTC. */
static int to_utc(struct buf *out, struct err *err)
{
	struct buf utc;

	buf_init(&utc, 2 * out->len + 1);
	log_time_utc(out, &utc);
	buf_fini(out);
	*out = utc;
	if (!utc.error)
		return 0;
	buf_fini(out);
	return err_set(err, ENOMEM, "out of memory");
}

int docker_logs(
	struct engine *e, const char *id, size_t max, int stop_fd, struct buf *out, struct err *err)
{
	struct docker *d = docker_of(e);
	struct logs l = {.out = out, .max = max};
	char path[256];
	struct follow_request req = {.method = "GET", .path = path, .timeout_s = LOGS_S};
	struct follow_sink sink = {.data = on_data, .arg = &l, .stop_fd = stop_fd};
	const uint8_t *line;
	int rc;

	if (!name_is_id(id))
		return err_set(err, EINVAL, "%.64s is no container's id", id);
	snprintf(path, sizeof(path), "/containers/%s/logs?stdout=1&stderr=1&timestamps=1&tail=%d",
		id, LINES);
	demux_init(&l.demux);
	l.demux.both = true;
	buf_init(out, 2 * max + CURL_MAX_WRITE_SIZE + 1);
	rc = follow(d->http, &req, &sink, err);
	if (rc < 0) {
		buf_fini(out);
		return err->code ? rc : err_set(err, -rc, "cannot read the log");
	}
	keep_end(&l, max);
	line = l.cut ? memchr(out->data, '\n', out->len) : NULL;
	if (line) /* it begins within a line */
		buf_consume(out, (size_t)(line + 1 - out->data));
	return d->flavour.local_log ? to_utc(out, err) : 0;
}
