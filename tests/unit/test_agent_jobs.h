/* SPDX-License-Identifier: MIT */
/* Requests about jobs, for tests of the agent: one at a time. */
#pragma once

#include "tests/unit/test_agent_client.h"

/* A message of numbers only, as most job messages are. */
UNUSED static int do_u64(struct client *c, uint16_t type, uint64_t value)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, value);
	return client_call(c, &b, at);
}

UNUSED static int do_job_open(struct client *c, uint64_t *job)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_OPEN);
	int ret;

	wire_u64(&b, 0);
	ret = client_call(c, &b, at);
	if (!ret)
		*job = wire_get_u64(&c->in);
	return ret;
}

UNUSED static int do_job_write(
	struct client *c, uint64_t job, uint64_t offset, const void *p, size_t n)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_WRITE);

	wire_u64(&b, job);
	wire_u64(&b, offset);
	wire_bytes(&b, p, n);
	return client_call(c, &b, at);
}

UNUSED static int do_job_set(struct client *c, uint64_t job, uint8_t what, const char *value)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_SET);

	wire_u64(&b, job);
	wire_u8(&b, what);
	wire_str(&b, value);
	return client_call(c, &b, at);
}

/* sets: pairs of tag and text, ended by a tag 0; SET_ARGV is the start's own. */
struct set {
	uint8_t tag;
	const char *value;
};

#define SET_ARGV 255

UNUSED static int do_job_start(
	struct client *c, uint64_t job, const struct set *sets, uint32_t *pid)
{
	uint8_t flags = PROTO_START_SCRIPT;
	struct buf b;
	size_t at;
	int ret;

	for (; sets && sets->tag; sets++) {
		if (sets->tag == SET_ARGV)
			flags = PROTO_START_ARGV;
		else if ((ret = do_job_set(c, job, sets->tag, sets->value)))
			return ret;
	}
	at = client_begin(c, &b, PROTO_JOB_START);
	wire_u64(&b, job);
	wire_u8(&b, flags);
	ret = client_call(c, &b, at);
	if (!ret)
		*pid = wire_get_u32(&c->in);
	return ret;
}

UNUSED static int do_job_wait(struct client *c, uint64_t job, bool patience, struct proto_job *j)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_WAIT);
	int ret;

	wire_u64(&b, job);
	wire_u8(&b, patience);
	ret = client_call(c, &b, at);
	if (!ret)
		proto_get_job(&c->in, j);
	return ret;
}

UNUSED static int do_job(struct client *c, uint16_t type, uint64_t job, struct proto_job *j)
{
	int ret = do_u64(c, type, job);

	if (!ret) {
		proto_get_job(&c->in, j);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_job_kill(struct client *c, uint64_t job, uint32_t sig)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_KILL);

	wire_u64(&b, job);
	wire_u32(&b, sig);
	return client_call(c, &b, at);
}

/* A named job. */
UNUSED static int do_job_make(struct client *c, const char *name, uint64_t *job)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_MAKE);
	int ret;

	wire_str(&b, name);
	ret = client_call(c, &b, at);
	if (!ret) {
		*job = wire_get_u64(&c->in);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

/* By its name; 0: there is none. */
UNUSED static uint64_t do_job_find(struct client *c, const char *name)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_FIND);
	struct proto_job j;
	uint64_t num;

	wire_str(&b, name);
	if (client_call(c, &b, at) == ENOENT)
		return 0;
	CHECK(c->head.error == 0);
	proto_get_job(&c->in, &j);
	CHECK(wire_end(&c->in));
	num = j.job;
	proto_job_fini(&j);
	return num;
}

/* A setting's text; free() it. NULL: c->head.error says why. */
UNUSED static char *do_job_get(struct client *c, uint64_t job, uint8_t what)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_GET);
	char *s;

	wire_u64(&b, job);
	wire_u8(&b, what);
	if (client_call(c, &b, at))
		return NULL;
	s = wire_get_str(&c->in, PROTO_CONFIG_MAX);
	CHECK(s && wire_end(&c->in));
	return s;
}

UNUSED static void send_stdin(
	struct client *c, uint64_t job, uint64_t offset, uint8_t flags, const void *p, size_t n)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_JOB_STDIN);

	wire_u64(&b, job);
	wire_u64(&b, offset);
	wire_u8(&b, flags);
	wire_bytes(&b, p, n);
	client_send(c, &b, at);
}

/* How many bytes were taken, or -errno. */
UNUSED static int do_job_stdin(
	struct client *c, uint64_t job, uint64_t offset, uint8_t flags, const char *text)
{
	send_stdin(c, job, offset, flags, text, strlen(text));
	CHECK(client_recv(c) && c->head.id == c->next_id);
	return c->head.error ? -c->head.error : (int)wire_get_u32(&c->in);
}

/* A one-way CANCEL. */
UNUSED static void do_cancel(struct client *c, uint64_t id)
{
	struct buf b;
	size_t at;

	buf_init(&b, 100);
	at = proto_begin(&b, PROTO_CANCEL, 0, 0, 0, 0);
	wire_u64(&b, id);
	client_send(c, &b, at);
}

/* All of a stream; free() it. */
UNUSED static char *do_job_read(struct client *c, uint64_t job, uint8_t stream, size_t *len)
{
	struct buf all;
	size_t n;

	buf_init(&all, 1u << 30);
	do {
		struct buf b;
		size_t at = client_begin(c, &b, PROTO_JOB_READ);
		const uint8_t *p;

		wire_u64(&b, job);
		wire_u8(&b, stream);
		wire_u64(&b, all.len);
		wire_u32(&b, PROTO_MAX_DATA);
		CHECK(client_call(c, &b, at) == 0);
		p = wire_get_bytes(&c->in, PROTO_MAX_DATA, &n);
		CHECK(wire_end(&c->in));
		CHECK(buf_append(&all, p, n) == 0);
	} while (n);
	if (len)
		*len = all.len;
	return buf_steal(&all);
}

/* Runs a text to its end; the job is left to be read. */
UNUSED static uint64_t run_job(
	struct client *c, const void *text, size_t n, const struct set *sets, struct proto_job *j)
{
	uint64_t job = 0;
	uint32_t pid;

	CHECK(do_job_open(c, &job) == 0);
	for (size_t at = 0; at < n; at += PROTO_MAX_DATA)
		CHECK(do_job_write(c, job, at, (const char *)text + at,
			      n - at < PROTO_MAX_DATA ? n - at : PROTO_MAX_DATA) == 0);
	CHECK(do_job_start(c, job, sets, &pid) == 0);
	CHECK(do_job_wait(c, job, false, j) == 0);
	return job;
}

UNUSED static uint64_t run_text(struct client *c, const char *text, struct proto_job *j)
{
	return run_job(c, text, strlen(text), NULL, j);
}

/* Starts a text as the named job; settings as do_job_start() has them. */
UNUSED static uint64_t start_named(
	struct client *c, const char *name, const char *text, const struct set *sets)
{
	uint64_t job = 0;
	uint32_t pid;

	CHECK(do_job_make(c, name, &job) == 0);
	CHECK(do_u64(c, PROTO_JOB_OPEN, job) == 0);
	CHECK(do_job_write(c, job, 0, text, strlen(text)) == 0);
	CHECK(do_job_start(c, job, sets, &pid) == 0);
	return job;
}

/* Waits until the stream has that text in it. */
UNUSED static bool await_text(struct client *c, uint64_t job, uint8_t stream, const char *want)
{
	for (int i = 0; i < 2000; i++) {
		char *s = do_job_read(c, job, stream, NULL);
		bool there = strstr(s, want);

		free(s);
		if (there)
			return true;
		usleep(10000);
	}
	return false;
}
