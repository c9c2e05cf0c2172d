/* SPDX-License-Identifier: MIT */
/*
 * The stream to an agent: an exec of `agent relay` whose HTTP connection was upgraded to a plain
 * two-way one. What we write is the relay's standard input as it is; what comes is in frames
 * (docker/demux.h).
 *
 * One thread may read while another writes. A plain socket needs no lock for that and is used
 * directly; under TLS both go through libcurl's handle, one at a time, by s->lock.
 */
#include "docker/demux.h"
#include "docker/docker.h"
#include "docker/exec.h"
#include "docker/head.h"

#include "common/cleanup.h"
#include "sandbox/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define UPGRADE_MS 30000
#define EARLY_MAX  65536u

struct docker_stream {
	struct stream stream;
	CURL *easy; /* protected by lock once open */
	bool tls;
	bool spoken;	    /* reader's: some output has come */
	bool refused;	    /* reader's: that was the engine's own words, not the agent's */
	size_t early_from;  /* reader's */
	struct buf early;   /* reader's: bytes that came along behind the head */
	struct demux demux; /* reader's */
	pthread_mutex_t lock;
};

static struct docker_stream *of(struct stream *s)
{
	return (struct docker_stream *)(void *)s;
}

static ssize_t curl_result(CURLcode code, size_t n)
{
	if (!code)
		return (ssize_t)n;
	return code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

static ssize_t raw_read(struct docker_stream *s, void *p, size_t n)
{
	size_t got = 0;
	CURLcode code;
	ssize_t r;

	if (!s->tls) {
		do {
			r = recv(s->stream.fd, p, n, MSG_DONTWAIT);
		} while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	pthread_mutex_lock(&s->lock);
	code = curl_easy_recv(s->easy, p, n, &got);
	pthread_mutex_unlock(&s->lock);
	return curl_result(code, got);
}

static ssize_t raw_write(struct docker_stream *s, const void *p, size_t n)
{
	size_t sent = 0;
	CURLcode code;
	ssize_t r;

	if (!s->tls) {
		do {
			r = send(s->stream.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		} while (r < 0 && errno == EINTR);
		return r < 0 ? -errno : r;
	}
	pthread_mutex_lock(&s->lock);
	code = curl_easy_send(s->easy, p, n, &sent);
	pthread_mutex_unlock(&s->lock);
	return curl_result(code, sent);
}

static ssize_t stream_write(struct stream *stream, const void *p, size_t n)
{
	return raw_write(of(stream), p, n);
}

static ssize_t take_early(struct docker_stream *s, void *p, size_t n)
{
	size_t left = s->early.len - s->early_from;

	if (n > left)
		n = left;
	memcpy(p, s->early.data + s->early_from, n);
	s->early_from += n;
	if (s->early_from == s->early.len) {
		buf_fini(&s->early);
		s->early_from = 0;
	}
	return (ssize_t)n;
}

/* Where the relay cannot be started the engine says so in words, as output, behind a good head. A
 * frame of ours begins with a length below 2 MiB: its fourth byte is no letter. */
static bool is_text(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < 4; i++)
		if (i >= n || p[i] < 0x20 || p[i] > 0x7e)
			return false;
	return true;
}

static ssize_t stream_read(struct stream *stream, void *p, size_t n)
{
	struct docker_stream *s = of(stream);
	ssize_t got;

	if (!n)
		return 0;
	for (;;) {
		got = s->early.len ? take_early(s, p, n) : raw_read(s, p, n);
		if (got <= 0)
			return got;
		got = demux_feed(&s->demux, p, (size_t)got);
		if (got < 0)
			return got;
		if (got > 0 && !s->spoken) {
			s->spoken = true;
			s->refused = is_text(p, (size_t)got);
		}
		if (got > 0 && !s->refused)
			return got;
		if (got > 0 && demux_say(&s->demux, p, (size_t)got))
			return s->demux.error;
	}
}

static const char *stream_words(struct stream *stream)
{
	return of(stream)->demux.words;
}

static void stream_close(struct stream *stream)
{
	struct docker_stream *s = of(stream);

	if (!s)
		return;
	curl_easy_cleanup(s->easy); /* closes the descriptor */
	buf_fini(&s->early);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* 0 when ready; -EHOSTDOWN at the deadline. */
static int wait_fd(struct docker_stream *s, short events, int64_t deadline)
{
	struct pollfd p = {.fd = s->stream.fd, .events = events};
	int64_t left = deadline - loop_now_ms();
	int n = left > 0 ? poll(&p, 1, (int)left) : 0;

	return n > 0 || (n < 0 && errno == EINTR) ? 0 : -EHOSTDOWN;
}

static int send_all(struct docker_stream *s, const char *p, size_t n, int64_t deadline)
{
	ssize_t sent;

	while (n) {
		sent = raw_write(s, p, n);
		if (sent == -EAGAIN) {
			if (wait_fd(s, POLLOUT, deadline))
				return -EHOSTDOWN;
			continue;
		}
		if (sent <= 0)
			return -EHOSTDOWN;
		p += sent;
		n -= (size_t)sent;
	}
	return 0;
}

/* Adds what comes to s->early; 0 at the end of the connection. */
static ssize_t more(struct docker_stream *s, int64_t deadline)
{
	uint8_t *to = buf_reserve(&s->early, 4096);
	ssize_t got;

	if (!to)
		return -EPROTO;
	while ((got = raw_read(s, to, 4096)) == -EAGAIN)
		if (wait_fd(s, POLLIN, deadline))
			return -EHOSTDOWN;
	if (got < 0)
		return -EHOSTDOWN;
	buf_commit(&s->early, (size_t)got);
	return got;
}

/* The engine's refusal, as far as it comes. */
static int refusal(struct docker_stream *s, const struct head *h, int64_t deadline, struct err *err)
{
	const char *json, *end;

	if (h->status < 400)
		return err_set(err, EPROTO, "the engine answered with status %d, not with a stream",
			h->status);
	while (h->length < 0 || (int64_t)s->early.len < h->length)
		if (more(s, deadline) <= 0 || (h->chunked && strchr((char *)s->early.data, '}')))
			break;
	/* A chunked body has lengths around it. */
	json = s->early.len ? memchr(s->early.data, '{', s->early.len) : NULL;
	end = json ? memrchr(s->early.data, '}', s->early.len) : NULL;
	if (end && end > json)
		return http_status_err(h->status, json, (size_t)(end + 1 - json), err);
	return http_status_err(h->status, NULL, 0, err);
}

static int read_head(struct docker_stream *s, int64_t deadline, struct err *err)
{
	struct head h;
	ssize_t len, got;

	for (;;) {
		len = s->early.len ? head_parse(s->early.data, s->early.len, &h) : 0;
		if (len < 0)
			return err_set(err, EPROTO, "the engine's answer is no HTTP");
		if (len > 0)
			break;
		got = more(s, deadline);
		if (got <= 0)
			return err_set(err, got == -EPROTO ? EPROTO : EHOSTDOWN,
				"the engine ended the connection to the agent");
	}
	buf_consume(&s->early, (size_t)len);
	if (h.status == 101 || h.status == 200)
		return 0;
	return refusal(s, &h, deadline, err);
}

static int upgrade(struct docker_stream *s, struct docker *d, const char *exec, struct err *err)
{
	static const char body[] = "{\"Detach\":false,\"Tty\":false}";
	int64_t deadline = loop_now_ms() + UPGRADE_MS;
	char request[512];
	int n;

	n = snprintf(request, sizeof(request),
		"POST %s/exec/%s/start HTTP/1.1\r\n"
		"Host: localhost\r\n"
		"Content-Type: application/json\r\n"
		"Connection: Upgrade\r\n"
		"Upgrade: tcp\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		http_prefix(d->http), exec, sizeof(body) - 1, body);
	if (send_all(s, request, (size_t)n, deadline))
		return err_set(
			err, EHOSTDOWN, "the engine at %s takes no request", http_host(d->http));
	return read_head(s, deadline, err);
}

static int open_socket(struct docker_stream *s, struct docker *d, struct err *err)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	CURLcode code;

	s->easy = http_handle(d->http, "/", err);
	if (!s->easy)
		return -ENOMEM;
	curl_easy_setopt(s->easy, CURLOPT_CONNECT_ONLY, 1L);
	code = curl_easy_perform(s->easy);
	if (!code)
		code = curl_easy_getinfo(s->easy, CURLINFO_ACTIVESOCKET, &fd);
	if (code || fd == CURL_SOCKET_BAD)
		return http_curl_err(d->http, s->easy, code, err);
	s->stream.fd = fd;
	return 0;
}

int docker_connect(struct engine *e, const char *id, struct stream **out, struct err *err)
{
	struct docker *d = docker_of(e);
	struct docker_stream *s = calloc(1, sizeof(*s));
	char exec[EXEC_ID_MAX];
	int rc;

	if (!s)
		return err_set(err, ENOMEM, "out of memory");
	s->stream = (struct stream){.fd = -1,
		.read = stream_read,
		.write = stream_write,
		.words = stream_words,
		.close = stream_close};
	s->tls = http_is_tls(d->http);
	pthread_mutex_init(&s->lock, NULL);
	buf_init(&s->early, EARLY_MAX);
	demux_init(&s->demux);
	/* The connection first: the engine keeps an exec that is never started. */
	rc = open_socket(s, d, err);
	rc = rc ? rc : exec_create(d, id, exec, err);
	rc = rc ? rc : upgrade(s, d, exec, err);
	if (rc) {
		stream_close(&s->stream);
		return rc;
	}
	*out = &s->stream;
	return 0;
}
