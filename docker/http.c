/* SPDX-License-Identifier: MIT */
/*
 * HTTP to one engine with libcurl. Any thread may call: each call takes an idle handle (with its
 * kept-alive connection) from the pool or makes one, and is its only user until it gives it back.
 * h->lock guards the pool and nothing else; it is never held during I/O.
 */
#include "docker/http.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "docker/json.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDLE_MAX      8u
#define TRIES	      6u /* with waits of 50, 100, 200, 400, 800 ms between them */
#define FIRST_WAIT_MS 50u
#define TIMEOUT_S     60u
#define CONNECT_MS    5000L
#define BODY_MAX      (4u << 20)

struct http {
	char *host;   /* as given, for words */
	char *socket; /* path, or NULL for TCP */
	char *base;   /* "http://localhost", "https://name:2376" */
	bool tls, unverified;
	char *ca, *cert, *key; /* files; NULL: not used */
	char prefix[24];
	pthread_mutex_t lock;
	CURL *idle[IDLE_MAX]; /* protected by lock */
	unsigned n_idle;      /* protected by lock */
};

static void global_init(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int parse_host(struct http *h, struct err *err)
{
	if (!strncmp(h->host, "unix://", 7) && h->host[7] == '/') {
		h->socket = strdup(h->host + 7);
		h->base = strdup("http://localhost");
		return h->socket && h->base ? 0 : -ENOMEM;
	}
	if (!strncmp(h->host, "tcp://", 6) && h->host[6] && !strpbrk(h->host + 6, "/?#@ ")) {
		return asprintf(&h->base, "http://%s", h->host + 6) < 0 ? -ENOMEM : 0;
	}
	return err_set(err, EINVAL, "engine address %s is neither unix:///PATH nor tcp://HOST:PORT",
		h->host);
}

int http_new(const char *host, struct http **out, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct http *h = calloc(1, sizeof(*h));
	int rc = -ENOMEM;

	pthread_once(&once, global_init);
	if (!h)
		return err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&h->lock, NULL);
	h->host = strdup(host);
	if (h->host)
		rc = parse_host(h, err);
	if (rc) {
		http_free(h);
		return rc == -ENOMEM ? err_set(err, ENOMEM, "out of memory") : rc;
	}
	*out = h;
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	for (unsigned i = 0; i < h->n_idle; i++)
		curl_easy_cleanup(h->idle[i]);
	pthread_mutex_destroy(&h->lock);
	free(h->host);
	free(h->socket);
	free(h->base);
	free(h->ca);
	free(h->cert);
	free(h->key);
	free(h);
}

int http_set_tls(struct http *h, const struct engine_place *place, struct err *err)
{
	const char *const from[] = {place->ca, place->cert, place->key};
	char **const to[] = {&h->ca, &h->cert, &h->key};
	char *base;

	if (h->socket || !place->tls)
		return 0;
	for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++)
		if (from[i] && !(*to[i] = strdup(from[i])))
			return err_set(err, ENOMEM, "out of memory");
	if (asprintf(&base, "https://%s", h->host + 6) < 0)
		return err_set(err, ENOMEM, "out of memory");
	free(h->base);
	h->base = base;
	h->tls = true;
	h->unverified = place->unverified;
	return 0;
}

const char *http_host(const struct http *h)
{
	return h->host;
}

bool http_is_tls(const struct http *h)
{
	return h->tls;
}

const char *http_prefix(const struct http *h)
{
	return h->prefix;
}

int http_set_version(struct http *h, const char *version, struct err *err)
{
	size_t a = strspn(version, "0123456789"), b;

	b = version[a] == '.' ? strspn(version + a + 1, "0123456789") : 0;
	if (!a || !b || version[a + 1 + b] || a + b > 8)
		return err_set(err, EPROTO, "the engine at %s gives no API version", h->host);
	snprintf(h->prefix, sizeof(h->prefix), "/v%s", version);
	return 0;
}

static CURL *take(struct http *h)
{
	CURL *easy = NULL;

	pthread_mutex_lock(&h->lock);
	if (h->n_idle)
		easy = h->idle[--h->n_idle];
	pthread_mutex_unlock(&h->lock);
	return easy ? easy : curl_easy_init();
}

static void give_back(struct http *h, CURL *easy)
{
	curl_easy_reset(easy); /* keeps the connection */
	pthread_mutex_lock(&h->lock);
	if (h->n_idle < IDLE_MAX)
		h->idle[h->n_idle++] = steal_ptr(&easy);
	pthread_mutex_unlock(&h->lock);
	if (easy)
		curl_easy_cleanup(easy);
}

static int set_tls(const struct http *h, CURL *easy)
{
	const struct {
		CURLoption option;
		const char *file;
	} files[] = {{CURLOPT_CAINFO, h->ca}, {CURLOPT_SSLCERT, h->cert}, {CURLOPT_SSLKEY, h->key}};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i].file && curl_easy_setopt(easy, files[i].option, files[i].file))
			return -ENOMEM;
	if (h->unverified) {
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	return 0;
}

/* What every request has in common. */
static int prepare(const struct http *h, CURL *easy, const char *path)
{
	cleanup_free char *url = NULL;

	if (asprintf(&url, "%s%s%s", h->base, h->prefix, path) < 0)
		return -ENOMEM;
	if (curl_easy_setopt(easy, CURLOPT_URL, url))
		return -ENOMEM;
	if (h->socket && curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, h->socket))
		return -ENOMEM;
	if (h->tls && set_tls(h, easy))
		return -ENOMEM;
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L); /* a half-open stream is noticed */
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	return 0;
}

CURL *http_handle(const struct http *h, const char *path, struct err *err)
{
	CURL *easy = curl_easy_init();

	if (easy && !prepare(h, easy, path))
		return easy;
	curl_easy_cleanup(easy);
	err_set(err, ENOMEM, "out of memory");
	return NULL;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_reply *r = arg;

	return buf_append(&r->body, p, size * n) ? CURL_WRITEFUNC_ERROR : size * n;
}

static int64_t engine_date(CURL *easy)
{
	struct curl_header *date;
	time_t t;

	if (curl_easy_header(easy, "Date", 0, CURLH_HEADER, -1, &date))
		return 0;
	t = curl_getdate(date->value, NULL);
	return t > 0 ? t : 0;
}

static CURLcode perform(struct http *h, CURL *easy, const struct http_call *c, const char *json,
	struct http_reply *r)
{
	unsigned timeout_s = c->timeout_s ? c->timeout_s : TIMEOUT_S;
	const void *body = json ? json : c->body;
	size_t len = json ? strlen(json) : c->len;
	struct curl_slist *list = NULL, *more;
	char type[96];
	CURLcode code = CURLE_OUT_OF_MEMORY;

	r->status = 0;
	buf_reset(&r->body);
	snprintf(type, sizeof(type), "Content-Type: %s", json ? "application/json" : c->type);
	list = curl_slist_append(NULL, "Expect:");
	more = body && list ? curl_slist_append(list, type) : list;
	if (!more || prepare(h, easy, c->path))
		goto out;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->method);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)timeout_s);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
	if (body || !strcmp(c->method, "POST")) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body ? body : "");
	}
	code = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &r->status);
	r->date = engine_date(easy);
out:
	curl_slist_free_all(list);
	return code;
}

/* May this try be followed by another? A call that never left may, whatever it is, and so may one
 * that was refused because the engine is not ready (503). */
static bool transient(const struct http_call *c, CURLcode code, long status)
{
	bool again = c->repeatable || !strcmp(c->method, "GET");

	switch (code) {
	case CURLE_OK:
		return status == 503 || (again && (status == 502 || status == 504));
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return true;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return again;
	default:
		return false;
	}
}

static void sleep_ms(unsigned ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

int http_curl_err(const struct http *h, CURL *easy, CURLcode code, struct err *err)
{
	const char *why = curl_easy_strerror(code);
	char text[128];
	long os = 0;

	switch (code) {
	case CURLE_OUT_OF_MEMORY:
		return err_set(err, ENOMEM, "out of memory");
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_set(err, EACCES, "TLS with the engine at %s: %s", h->host, why);
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: what came was no head at all */
	case CURLE_BAD_CONTENT_ENCODING:
		return err_set(err, EPROTO, "what answers at %s is no engine: %s", h->host, why);
	case CURLE_URL_MALFORMAT:
		return err_set(err, EINVAL, "engine address %s: %s", h->host, why);
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os);
		if (os)
			why = strerror_r((int)os, text, sizeof(text));
		break;
	case CURLE_OPERATION_TIMEDOUT:
		why = "it does not answer";
		break;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		why = "it broke the connection";
		break;
	default:
		break;
	}
	return err_set(err, EHOSTDOWN, "cannot reach the engine at %s: %s", h->host, why);
}

int http_status_err(long status, const void *body, size_t n, struct err *err)
{
	cleanup_json cJSON *j = n ? cJSON_ParseWithLength(body, n) : NULL;
	const char *message = json_string(j, "message");
	int code = EPROTO, len;

	if ((status >= 200 && status < 300) || status == 304)
		return 0;
	if (status == 404)
		code = ENOENT;
	else if (status == 409)
		code = EBUSY;
	else if (status == 401 || status == 403)
		code = EACCES;
	else if (status >= 400 && status < 500)
		code = EINVAL;
	else if (status >= 500)
		code = EIO;
	if (message && strcasestr(message, "no space left on device"))
		code = ENOSPC;
	if (message && *message)
		return err_set(err, code, "%s", message);
	len = n > 200 ? 200 : (int)n;
	return err_set(err, code, "the engine answered with status %ld%s%.*s", status,
		len ? ": " : "", len, len ? (const char *)body : "");
}

static int verdict(
	struct http *h, CURL *easy, CURLcode code, const struct http_reply *r, struct err *err)
{
	if (r->body.error == -E2BIG)
		return err_set(err, EPROTO, "the engine at %s sent more than %zu bytes", h->host,
			r->body.max);
	if (r->body.error)
		return err_set(err, ENOMEM, "out of memory");
	if (code)
		return http_curl_err(h, easy, code, err);
	if (r->status >= 502 && r->status <= 504)
		return err_set(err, EHOSTDOWN, "the engine at %s is not ready (status %ld)",
			h->host, r->status);
	return http_status_err(r->status, r->body.data, r->body.len, err);
}

int http_call(struct http *h, const struct http_call *c, struct http_reply *r, struct err *err)
{
	unsigned tries = c->tries ? c->tries : TRIES, wait_ms = FIRST_WAIT_MS;
	cleanup_free char *json = NULL;
	CURLcode code;
	CURL *easy;
	int rc;

	*r = (struct http_reply){0};
	buf_init(&r->body, c->max ? c->max : BODY_MAX);
	if (c->json && !(json = cJSON_PrintUnformatted(c->json)))
		return err_set(err, ENOMEM, "out of memory");
	easy = take(h);
	if (!easy)
		return err_set(err, ENOMEM, "out of memory");
	for (;;) {
		code = perform(h, easy, c, json, r);
		log_trace("engine: %s %s: %ld%s%s", c->method, c->path, r->status, code ? " " : "",
			code ? curl_easy_strerror(code) : "");
		if (!--tries || !transient(c, code, r->status))
			break;
		sleep_ms(wait_ms);
		wait_ms *= 2;
	}
	rc = verdict(h, easy, code, r, err);
	if (code) /* its connection is of unknown state */
		curl_easy_cleanup(easy);
	else
		give_back(h, easy);
	return rc;
}

void http_reply_fini(struct http_reply *r)
{
	buf_fini(&r->body);
}

int http_json(struct http *h, const struct http_call *c, cJSON **out, struct err *err)
{
	struct http_reply r;
	cJSON *j = NULL;
	int rc = http_call(h, c, &r, err);

	if (!rc) {
		j = r.body.len ? cJSON_ParseWithLength((char *)r.body.data, r.body.len) : NULL;
		if (cJSON_IsObject(j) || cJSON_IsArray(j))
			*out = steal_ptr(&j);
		else
			rc = err_set(err, EPROTO, "the engine's answer to %s %s is not JSON",
				c->method, c->path);
	}
	cJSON_Delete(j);
	http_reply_fini(&r);
	return rc;
}

void http_escape(struct buf *b, const char *s, bool path)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("-._~", c) ||
			     (path && strchr("/:@", c));

		if (plain)
			buf_append(b, s, 1);
		else
			buf_printf(b, "%%%02X", c);
	}
}
