/* SPDX-License-Identifier: MIT */
/* Extended attributes, with the caller's rights: names and values are the sandbox's kernel's to
 * judge. Any thread. */
#include "agent/object.h"

#include "common/cleanup.h"

#include <string.h>
#include <sys/xattr.h>

/* Without /proc a file that nobody has open cannot be asked. */
static int failure(const struct object *o)
{
	return *o->path && (errno == ENOENT || errno == ENOTDIR) ? -EOPNOTSUPP : -errno;
}

/* Opens the node for a message whose fields have been read. */
static int begin(struct request *r, uint64_t node, struct object *o)
{
	return wire_end(&r->in) ? object_open(r, node, o) : bad_request(r);
}

/* The value, or the list where there is no name, as the reply. */
static int reply(struct request *r, const struct object *o, const char *name)
{
	size_t at = r->out.len;
	uint8_t *p;
	ssize_t n;

	wire_u32(&r->out, 0);
	p = buf_reserve(&r->out, PROTO_XATTR_MAX);
	if (!p)
		return -ENOMEM;
	if (name)
		n = *o->path ? getxattr(o->path, name, p, PROTO_XATTR_MAX)
			     : fgetxattr(o->fd, name, p, PROTO_XATTR_MAX);
	else
		n = *o->path ? listxattr(o->path, (char *)p, PROTO_XATTR_MAX)
			     : flistxattr(o->fd, (char *)p, PROTO_XATTR_MAX);
	if (n < 0)
		return failure(o);
	r->out.len += (size_t)n;
	for (int i = 0; i < 4; i++)
		r->out.data[at + (size_t)i] = (uint8_t)((size_t)n >> (8 * i));
	return 0;
}

int xattr_get(struct request *r)
{
	uint64_t node = wire_get_u64(&r->in);
	cleanup_free char *name = wire_get_str(&r->in, PROTO_NAME_MAX);
	auto_object struct object o = OBJECT_NONE;
	int ret = begin(r, node, &o);

	return ret < 0 ? ret : reply(r, &o, name);
}

int xattr_list(struct request *r)
{
	uint64_t node = wire_get_u64(&r->in);
	auto_object struct object o = OBJECT_NONE;
	int ret = begin(r, node, &o);

	return ret < 0 ? ret : reply(r, &o, NULL);
}

int xattr_set(struct request *r)
{
	uint64_t node = wire_get_u64(&r->in);
	cleanup_free char *name = wire_get_str(&r->in, PROTO_NAME_MAX);
	size_t size;
	const uint8_t *value = wire_get_bytes(&r->in, PROTO_XATTR_MAX, &size);
	uint32_t flags = wire_get_u32(&r->in); /* 1 and 2 are Linux's XATTR_CREATE and _REPLACE */
	auto_object struct object o = OBJECT_NONE;
	int ret;

	if (flags > 3)
		return bad_request(r);
	ret = begin(r, node, &o);
	if (ret < 0)
		return ret;
	ret = *o.path ? setxattr(o.path, name, value, size, (int)flags)
		      : fsetxattr(o.fd, name, value, size, (int)flags);
	return ret < 0 ? failure(&o) : 0;
}

int xattr_remove(struct request *r)
{
	uint64_t node = wire_get_u64(&r->in);
	cleanup_free char *name = wire_get_str(&r->in, PROTO_NAME_MAX);
	auto_object struct object o = OBJECT_NONE;
	int ret = begin(r, node, &o);

	if (ret < 0)
		return ret;
	ret = *o.path ? removexattr(o.path, name) : fremovexattr(o.fd, name);
	return ret < 0 ? failure(&o) : 0;
}
