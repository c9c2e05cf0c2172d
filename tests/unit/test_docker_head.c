/* SPDX-License-Identifier: MIT */
#include "docker/head.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

static ssize_t parse(const char *s, size_t n, struct head *h)
{
	uint8_t *p = malloc(n ? n : 1);
	ssize_t rc;

	memcpy(p, s, n);
	rc = head_parse(p, n, h);
	free(p);
	return rc;
}

static void upgraded_at_every_length(void)
{
	static const char s[] = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/x\r\n"
				"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n\1\0\0\0\0\0\0\1x";
	size_t whole = sizeof(s) - 1 - 9;
	struct head h;

	for (size_t n = 0; n < sizeof(s); n++)
		CHECK(parse(s, n, &h) == (n < whole ? 0 : (ssize_t)whole));
	CHECK(h.status == 101 && h.length == -1 && !h.chunked);
}

static void lengths(void)
{
	static const char s[] = "HTTP/1.1 409 Conflict\r\ncontent-LENGTH:  17 \r\n\r\n";
	static const char c[] = "HTTP/1.0 500\nTransfer-Encoding: chunked\n\n";
	struct head h;

	CHECK(parse(s, sizeof(s) - 1, &h) == sizeof(s) - 1);
	CHECK(h.status == 409 && h.length == 17 && !h.chunked);
	CHECK(parse(c, sizeof(c) - 1, &h) == sizeof(c) - 1);
	CHECK(h.status == 500 && h.length == -1 && h.chunked);
}

static void nonsense(void)
{
	static const char *const bad[] = {"\r\n", "SSH-2.0-x\r\n", "HTTP/2 200\r\n\r\n",
		"HTTP/1.1 20\r\n", "HTTP/1.1 2000\r\n", "HTTP/1.1 abc\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\n: x\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n"};
	struct head h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(parse(bad[i], strlen(bad[i]), &h) == -EPROTO);
}

static void never_longer_than_the_cap(void)
{
	char *s = malloc(HEAD_MAX + 10);
	struct head h;

	memset(s, 'a', HEAD_MAX + 10);
	CHECK(parse(s, HEAD_MAX - 1, &h) == 0);
	CHECK(parse(s, HEAD_MAX, &h) == -EPROTO);
	memcpy(s, "HTTP/1.1 200 OK\r\na:", 19);
	memcpy(s + HEAD_MAX + 6, "\r\n\r\n", 4);
	CHECK(parse(s, HEAD_MAX + 10, &h) == -EPROTO);
	free(s);
}

int main(void)
{
	TEST(upgraded_at_every_length);
	TEST(lengths);
	TEST(nonsense);
	TEST(never_longer_than_the_cap);
	return check_done();
}
