/* SPDX-License-Identifier: MIT */
/* A body without an end, followed on a handle and a connection of its own in the caller's thread;
 * nothing here is shared. */
#include "docker/follow.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define ERROR_BODY_MAX 65536u
#define FOLLOW_TICK_MS 1000

struct follow {
	CURL *easy;
	const struct follow_sink *sink;
	struct buf error_body;
	bool begun;
	int rc; /* what the sink said */
};

static long follow_status(const struct follow *f)
{
	long status = 0;

	curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* The head is over at its empty line. */
static size_t on_follow_head(char *p, size_t size, size_t n, void *arg)
{
	struct follow *f = arg;

	if (size * n <= 2 && follow_status(f) == 200 && !f->begun) {
		f->begun = true;
		if (f->sink->head)
			f->sink->head(f->sink->arg);
	}
	return size * n;
}

static size_t on_follow_data(char *p, size_t size, size_t n, void *arg)
{
	struct follow *f = arg;

	if (!f->begun)
		buf_append(&f->error_body, p, size * n); /* beyond its cap: dropped */
	else
		f->rc = f->sink->data(f->sink->arg, p, size * n);
	return f->rc ? CURL_WRITEFUNC_ERROR : size * n;
}

/* True when it was the stop_fd. */
static bool follow_wait(CURLM *multi, struct follow *f)
{
	struct curl_waitfd stop = {.fd = f->sink->stop_fd, .events = CURL_WAIT_POLLIN};
	int ready = 0;

	curl_multi_poll(multi, &stop, stop.fd >= 0, FOLLOW_TICK_MS, &ready);
	if (stop.fd >= 0 && stop.revents)
		return true;
	if (!ready && f->sink->tick)
		f->rc = f->sink->tick(f->sink->arg);
	return false;
}

static int follow_run(struct http *h, CURLM *multi, struct follow *f, struct err *err)
{
	int running = 1, left;
	CURLMsg *msg;

	for (;;) {
		if (curl_multi_perform(multi, &running))
			return err_set(err, EIO, "libcurl failed");
		if (f->rc || !running)
			break;
		if (follow_wait(multi, f))
			return 0;
		if (f->rc)
			break;
	}
	if (f->rc)
		return f->rc;
	while ((msg = curl_multi_info_read(multi, &left))) {
		if (msg->msg != CURLMSG_DONE)
			continue;
		if (msg->data.result)
			return http_curl_err(h, f->easy, msg->data.result, err);
	}
	return http_status_err(follow_status(f), f->error_body.data, f->error_body.len, err);
}

int follow(struct http *h, const char *method, const char *path, const struct follow_sink *sink,
	struct err *err)
{
	struct follow f = {.sink = sink};
	CURLM *multi;
	int rc;

	f.easy = http_handle(h, path, err);
	if (!f.easy)
		return -ENOMEM;
	buf_init(&f.error_body, ERROR_BODY_MAX);
	curl_easy_setopt(f.easy, CURLOPT_CUSTOMREQUEST, method);
	if (!strcmp(method, "POST")) {
		curl_easy_setopt(f.easy, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(f.easy, CURLOPT_POSTFIELDS, "");
	}
	curl_easy_setopt(f.easy, CURLOPT_HEADERFUNCTION, on_follow_head);
	curl_easy_setopt(f.easy, CURLOPT_HEADERDATA, &f);
	curl_easy_setopt(f.easy, CURLOPT_WRITEFUNCTION, on_follow_data);
	curl_easy_setopt(f.easy, CURLOPT_WRITEDATA, &f);
	multi = curl_multi_init();
	if (!multi || curl_multi_add_handle(multi, f.easy)) {
		rc = err_set(err, ENOMEM, "out of memory");
	} else {
		rc = follow_run(h, multi, &f, err);
		curl_multi_remove_handle(multi, f.easy);
	}
	curl_multi_cleanup(multi);
	curl_easy_cleanup(f.easy);
	buf_fini(&f.error_body);
	return rc;
}
