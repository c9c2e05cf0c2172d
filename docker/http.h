/* SPDX-License-Identifier: MIT */
/* HTTP to one engine, over a Unix or TCP socket. All functions may be called from any thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"
#include "sandbox/engine.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct http;

struct http_call {
	const char *method;
	const char *path;  /* with its query, without the version */
	const cJSON *json; /* the body, or */
	const void *body;  /* len bytes of type `type` */
	size_t len;
	const char *type;
	bool repeatable;    /* doing it twice is as doing it once; a GET always is */
	unsigned tries;	    /* 0: as many as usual */
	unsigned timeout_s; /* 0: as usual */
	size_t max;	    /* bytes of the answer's body; 0: as usual */
};

struct http_reply {
	long status;	 /* 0: none came */
	int64_t date;	 /* the engine's clock, seconds since the epoch; 0: not said */
	struct buf body; /* ends in NUL */
};

/* host: unix:///path or tcp://name:port. Does not connect. */
int http_new(const char *host, struct http **h, struct err *err);
void http_free(struct http *h);
/* As the place says, for TCP; not while other threads call. */
int http_set_tls(struct http *h, const struct engine_place *place, struct err *err);
const char *http_host(const struct http *h);
bool http_is_tls(const struct http *h);
/* "1.41"; before, calls go without a version. Not while other threads call. */
int http_set_version(struct http *h, const char *version, struct err *err);
const char *http_prefix(const struct http *h); /* "" or "/v1.41" */

/* 0 for 2xx and 304; else -errno, with the engine's words. -EHOSTDOWN: it does not answer. The
 * reply is valid either way and must be ended with http_reply_fini. */
int http_call(struct http *h, const struct http_call *c, struct http_reply *r, struct err *err);
void http_reply_fini(struct http_reply *r);
/* The same for an answer in JSON (an object or array; cJSON_Delete it). */
int http_json(struct http *h, const struct http_call *c, cJSON **out, struct err *err);

/* A handle of one's own, with address and TLS set; for upgraded streams. curl_easy_cleanup it. */
CURL *http_handle(const struct http *h, const char *path, struct err *err);

/* Words and code for an answer that is not good; the body may be anything. */
int http_status_err(long status, const void *body, size_t n, struct err *err);
/* The same for a connection that failed. */
int http_curl_err(const struct http *h, CURL *easy, CURLcode code, struct err *err);

/* Appends s, percent-encoded for a query, or for a path ('/', ':' and '@' stay). */
void http_escape(struct buf *b, const char *s, bool path);
