/* SPDX-License-Identifier: MIT */
/* Requests about files, for tests of the agent: one at a time. */
#pragma once

#include "tests/unit/test_agent_client.h"

UNUSED static int do_lookup(
	struct client *c, uint64_t parent, const char *name, uint64_t new, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_LOOKUP);
	int ret;

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
		if (!attr->mode) /* none, and that may be remembered */
			ret = attr->cache == PROTO_CACHE_NAME ? ENOENT : EIO;
	}
	return ret;
}

UNUSED static int do_getattr(struct client *c, uint64_t node, uint64_t fh, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_GETATTR);
	int ret;

	wire_u64(&b, node);
	wire_u64(&b, fh);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_setattr(struct client *c, uint64_t node, uint64_t fh,
	const struct proto_setattr *set, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_SETATTR);
	int ret;

	wire_u64(&b, node);
	wire_u64(&b, fh);
	proto_put_setattr(&b, set);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_create(struct client *c, uint64_t parent, const char *name, uint64_t new,
	uint64_t fh, uint32_t flags, uint32_t mode, struct proto_attr *attr)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_CREATE);
	int ret;

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	wire_u64(&b, fh);
	wire_u32(&b, flags);
	wire_u32(&b, mode);
	ret = client_call(c, &b, at);
	if (!ret) {
		proto_get_attr(&c->in, attr);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static int do_open(struct client *c, uint64_t node, uint64_t fh, uint32_t flags)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_OPEN);

	wire_u64(&b, node);
	wire_u64(&b, fh);
	wire_u32(&b, flags);
	return client_call(c, &b, at);
}

/* MKDIR, MKNOD: the same fields. */
UNUSED static int do_make(struct client *c, uint16_t type, uint64_t parent, const char *name,
	uint64_t new, uint32_t mode)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, new);
	wire_u32(&b, mode);
	return client_call(c, &b, at);
}

/* UNLINK, RMDIR. */
UNUSED static int do_remove(struct client *c, uint16_t type, uint64_t parent, const char *name)
{
	struct buf b;
	size_t at = client_begin(c, &b, type);

	wire_u64(&b, parent);
	wire_str(&b, name);
	return client_call(c, &b, at);
}

UNUSED static int do_rename(struct client *c, uint64_t parent, const char *name, uint64_t to,
	const char *newname, uint32_t flags)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_RENAME);

	wire_u64(&b, parent);
	wire_str(&b, name);
	wire_u64(&b, to);
	wire_str(&b, newname);
	wire_u32(&b, flags);
	return client_call(c, &b, at);
}

UNUSED static int do_write(
	struct client *c, uint64_t fh, uint64_t offset, const void *p, size_t n, uint32_t *written)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_WRITE);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_bytes(&b, p, n);
	ret = client_call(c, &b, at);
	if (!ret)
		*written = wire_get_u32(&c->in);
	return ret;
}

/* *p points into the reply. */
UNUSED static int do_read(
	struct client *c, uint64_t fh, uint64_t offset, uint32_t size, const uint8_t **p, size_t *n)
{
	struct buf b;
	size_t at = client_begin(c, &b, PROTO_READ);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_u32(&b, size);
	ret = client_call(c, &b, at);
	if (!ret) {
		*p = wire_get_bytes(&c->in, PROTO_MAX_DATA, n);
		CHECK(wire_end(&c->in));
	}
	return ret;
}

UNUSED static void do_close(struct client *c, uint64_t fh)
{
	struct buf b;
	size_t at;

	buf_init(&b, PROTO_HEAD + 64);
	at = proto_begin(&b, PROTO_CLOSE, 0, 0, c->uid, c->gid);
	wire_u64(&b, fh);
	client_send(c, &b, at);
}

/* Sends a LOCK and does not wait for the answer; its id. */
UNUSED static uint64_t send_lock(struct client *who, uint64_t fh, uint64_t owner, uint32_t type,
	uint64_t start, uint64_t end, uint8_t wait)
{
	struct buf b;
	size_t at = client_begin(who, &b, PROTO_LOCK);

	wire_u64(&b, fh);
	wire_u64(&b, owner);
	proto_put_lock(&b, &(struct proto_lock){.type = type, .start = start, .end = end});
	wire_u8(&b, wait);
	client_send(who, &b, at);
	return who->next_id;
}

UNUSED static uint64_t send_flock(struct client *who, uint64_t fh, uint32_t type, uint8_t wait)
{
	struct buf b;
	size_t at = client_begin(who, &b, PROTO_FLOCK);

	wire_u64(&b, fh);
	wire_u32(&b, type);
	wire_u8(&b, wait);
	client_send(who, &b, at);
	return who->next_id;
}
