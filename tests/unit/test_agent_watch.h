/* SPDX-License-Identifier: MIT */
/* A daemon that hears what the agent says of changes, for tests of its watches. */
#pragma once

#include "tests/unit/test_agent_files.h"
#include "tests/unit/test_agent_jobs.h"

#include <stdarg.h>

static struct agent a;
static struct client c;
static uint64_t next_node = 1000, next_fh = 1;
static uint64_t told;	 /* the changes that we have dealt with */
static uint64_t dummy;	 /* a file to open: the agent looks at its events first */
static char heard[8192]; /* the last changes, as words: "data 1000", "name 2 x" */

UNUSED static char *path(const char *name)
{
	return ws_path(&a, name);
}

UNUSED static void put_file(const char *name, const char *text)
{
	put_text(path(name), text);
}

UNUSED static void append_text(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_APPEND);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* What may be kept until we hear otherwise. */
UNUSED static uint32_t keeps(const struct proto_attr *attr)
{
	return attr->cache & PROTO_CACHE_ALL;
}

UNUSED static void ask(struct client *d, uint64_t seq)
{
	struct buf b;
	size_t at = client_begin(d, &b, PROTO_CHANGES);

	wire_u64(&b, seq);
	client_send(d, &b, at);
}

UNUSED static void read_changes(struct client *d)
{
	static const char *const words[] = {"", "attr", "data", "name", "all", "size"};
	size_t n = strlen(heard);

	while (d->in.p < d->in.end) {
		struct proto_change p;

		proto_get_change(&d->in, &p);
		CHECK(!d->in.bad);
		if (p.kind == PROTO_CHANGE_ALL)
			heard[n = 0] = 0; /* it is more than all before it */
		if (n < sizeof(heard) - 300)
			n += (size_t)snprintf(heard + n, sizeof(heard) - n, "%s%s %llu%s%.*s",
				n ? ", " : "", words[p.kind], (unsigned long long)p.node,
				p.name ? " " : "", (int)p.name_len,
				p.name ? (const char *)p.name : "");
	}
	told = proto_seq(&d->head);
}

/* Everything that has happened up to now, in `heard`; "" if nothing that concerns us. */
UNUSED static const char *hear(void)
{
	uint64_t fh = next_fh++, asked, opened, want = 0;
	struct buf b;
	size_t at;

	heard[0] = 0;
	ask(&c, told);
	asked = c.next_id;
	at = client_begin(&c, &b, PROTO_OPEN);
	wire_u64(&b, dummy);
	wire_u64(&b, fh);
	wire_u32(&b, PROTO_O_READ);
	client_send(&c, &b, at);
	opened = c.next_id;
	for (bool done = false; !done || told < want;) {
		CHECK(client_recv(&c));
		CHECK(c.head.error == 0);
		if (c.head.id == opened) {
			want = proto_seq(&c.head);
			done = true;
			continue;
		}
		CHECK(c.head.id == asked);
		read_changes(&c);
		ask(&c, told);
		asked = c.next_id;
	}
	do_close(&c, fh);
	buf_init(&b, 64);
	at = proto_begin(&b, PROTO_CANCEL, 0, 0, 0, 0);
	wire_u64(&b, asked);
	client_send(&c, &b, at);
	CHECK(client_recv(&c) && c.head.id == asked);
	if (c.head.error)
		CHECK(c.head.error == EINTR);
	else
		read_changes(&c); /* something came just then */
	return heard;
}

UNUSED static bool __attribute__((format(printf, 1, 2))) did(const char *fmt, ...)
{
	char want[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (strcmp(heard, want) == 0)
		return true;
	printf("# heard \"%s\", want \"%s\"\n", heard, want);
	return false;
}

UNUSED static bool __attribute__((format(printf, 1, 2))) has(const char *fmt, ...)
{
	char want[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (strstr(heard, want))
		return true;
	printf("# heard \"%s\", no \"%s\"\n", heard, want);
	return false;
}

/* Late news of what another test has removed does not count. */
UNUSED static bool hears_nothing_of(uint64_t node)
{
	char number[32];

	snprintf(number, sizeof(number), " %llu", (unsigned long long)node);
	if (!strstr(hear(), number))
		return true;
	printf("# heard %s\n", heard);
	return false;
}

UNUSED static uint64_t look(const char *name, struct proto_attr *attr)
{
	uint64_t node = next_node++;

	CHECK(do_lookup(&c, 2, name, node, attr) == 0);
	return node;
}

/* Gives a file of the workspace another name in a directory that nobody has looked at, and writes
 * through that. */
UNUSED static void write_out_of_sight(const char *name)
{
	char other[64];

	mkdir(path("unseen"), 0755);
	snprintf(other, sizeof(other), "unseen/%s", name);
	CHECK(link(path(name), ws_path(&a, other)) == 0);
	append_text(ws_path(&a, other), "more");
	CHECK(unlink(ws_path(&a, other)) == 0);
}

UNUSED static void forget(uint64_t node)
{
	struct buf b;
	size_t at;

	buf_init(&b, 64);
	at = proto_begin(&b, PROTO_FORGET, 0, 0, 0, 0);
	wire_u32(&b, 1);
	wire_u64(&b, node);
	client_send(&c, &b, at);
}

UNUSED static void start(void)
{
	struct proto_attr attr;

	agent_start(&a, "1234:4321");
	client_open(&c, &a, "watch");
	c.uid = 1234;
	c.gid = 4321;
	told = 0;
	put_file("dummy", "");
	dummy = look("dummy", &attr);
}
