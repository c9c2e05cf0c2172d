/* SPDX-License-Identifier: MIT */
/* A body without an end, followed on a handle and a connection of its own in the caller's thread;
 * nothing here is shared. */
#include "docker/follow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BODY_MAX 65536u
#define FOLLOW_TICK_MS 1000
#define TRIES	       6u /* as an ordinary call: waits of 50, 100, 200, 400, 800 ms */
#define FIRST_WAIT_MS  50

struct follow {
	CURL *easy;
	const struct follow_request *req;
	const struct follow_sink *sink;
	struct buf error_body;
	bool begun;
	bool transient; /* nothing has come, and asking again may help */
	int rc;		/* what the sink or the body said */
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

static size_t on_follow_body(char *p, size_t size, size_t n, void *arg)
{
	struct follow *f = arg;
	ssize_t got = f->req->body(f->sink->arg, p, size * n);

	if (got >= 0)
		return (size_t)got;
	f->rc = (int)got;
	return CURL_READFUNC_ABORT;
}

bool follow_stopped(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* True when it was the stop_fd. */
static bool follow_wait(CURLM *multi, struct follow *f)
{
	struct curl_waitfd stop = {.fd = f->sink->stop_fd, .events = CURL_WAIT_POLLIN};
	int ready = 0;

	curl_multi_poll(multi, &stop, stop.fd >= 0, FOLLOW_TICK_MS, &ready);
	return stop.fd >= 0 && stop.revents;
}

static int follow_verdict(struct http *h, struct follow *f, CURLcode code, struct err *err)
{
	long status = follow_status(f);

	if (code) {
		f->transient = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
		return http_curl_err(h, f->easy, code, err);
	}
	if (status >= 502 && status <= 504) {
		f->transient = true;
		return err_set(err, EHOSTDOWN, "the engine at %s is not ready (status %ld)",
			http_host(h), status);
	}
	return http_status_err(status, f->error_body.data, f->error_body.len, err);
}

static int follow_run(struct http *h, CURLM *multi, struct follow *f, struct err *err)
{
	CURLcode code = CURLE_OK;
	int running = 1, left;
	CURLMsg *msg;

	for (;;) {
		if (curl_multi_perform(multi, &running))
			return err_set(err, EIO, "libcurl failed");
		if (f->rc || !running)
			break;
		if (follow_wait(multi, f))
			return 0;
	}
	if (f->rc)
		return f->rc;
	while ((msg = curl_multi_info_read(multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			code = msg->data.result;
	/* An engine that has answered badly may have stopped to listen: its words count. */
	if (code == CURLE_SEND_ERROR && follow_status(f) >= 400)
		code = CURLE_OK;
	return follow_verdict(h, f, code, err);
}

static int follow_headers(
	const struct follow_request *req, struct curl_slist **list, struct err *err)
{
	char type[96] = "";
	const char *lines[] = {"Expect:", req->header, type};

	if (req->body)
		snprintf(type, sizeof(type), "Content-Type: %s", req->type);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct curl_slist *more;

		if (!lines[i] || !*lines[i])
			continue;
		more = curl_slist_append(*list, lines[i]);
		if (!more)
			return err_set(err, ENOMEM, "out of memory");
		*list = more;
	}
	return 0;
}

static void follow_options(struct follow *f, struct curl_slist *list)
{
	curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(f->easy, CURLOPT_CUSTOMREQUEST, f->req->method);
	curl_easy_setopt(f->easy, CURLOPT_TIMEOUT, (long)f->req->timeout_s);
	if (f->req->body) { /* of unknown length: sent in chunks */
		curl_easy_setopt(f->easy, CURLOPT_POST, 1L);
		curl_easy_setopt(f->easy, CURLOPT_READFUNCTION, on_follow_body);
		curl_easy_setopt(f->easy, CURLOPT_READDATA, f);
	} else if (!strcmp(f->req->method, "POST")) {
		curl_easy_setopt(f->easy, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(f->easy, CURLOPT_POSTFIELDS, "");
	}
	curl_easy_setopt(f->easy, CURLOPT_HEADERFUNCTION, on_follow_head);
	curl_easy_setopt(f->easy, CURLOPT_HEADERDATA, f);
	curl_easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, on_follow_data);
	curl_easy_setopt(f->easy, CURLOPT_WRITEDATA, f);
}

/* Credentials may be among them. */
static void headers_free(struct curl_slist *list)
{
	for (struct curl_slist *l = list; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(list);
}

static int follow_once(struct http *h, struct follow *f, struct err *err)
{
	struct curl_slist *list = NULL;
	CURLM *multi;
	int rc;

	f->easy = http_handle(h, f->req->path, err);
	if (!f->easy)
		return -ENOMEM;
	buf_init(&f->error_body, ERROR_BODY_MAX);
	multi = curl_multi_init();
	rc = follow_headers(f->req, &list, err);
	follow_options(f, list);
	if (!rc && (!multi || curl_multi_add_handle(multi, f->easy)))
		rc = err_set(err, ENOMEM, "out of memory");
	if (!rc) {
		rc = follow_run(h, multi, f, err);
		curl_multi_remove_handle(multi, f->easy);
	}
	curl_multi_cleanup(multi);
	curl_easy_cleanup(f->easy);
	headers_free(list);
	buf_fini(&f->error_body);
	return rc;
}

int follow(struct http *h, const struct follow_request *req, const struct follow_sink *sink,
	struct err *err)
{
	struct pollfd stop = {.fd = sink->stop_fd, .events = POLLIN};
	unsigned tries = req->retry ? TRIES : 1;
	int wait_ms = FIRST_WAIT_MS, rc;

	for (;;) {
		struct follow f = {.req = req, .sink = sink};

		rc = follow_once(h, &f, err);
		if (!rc || !f.transient || !--tries)
			return rc;
		if (poll(&stop, 1, wait_ms) > 0)
			return 0;
		wait_ms *= 2;
		rc = req->again ? req->again(sink->arg) : 0;
		if (rc)
			return rc;
	}
}
