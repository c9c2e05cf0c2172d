/* SPDX-License-Identifier: MIT */
/*
 * What a sandbox's agent is still owed: files to close and nodes to forget, which nobody answers. A
 * connection may be lost with them while the session goes on, so they are kept until it is known
 * that they have come: by the channel, or in sb->owed (sb->lock) while there is none. To say one
 * twice does no harm, since no number is used twice. Any thread.
 */
#include "sandbox/internal.h"

#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define OWED_MAX (4u << 20) /* bytes, while there is no connection */

static size_t weight(const struct call *c)
{
	return sizeof(*c) + c->frame.cap;
}

/* With the lock held: keeps it for the next connection; false: it is the caller's to free. */
static bool keep(struct sandbox *sb, struct call *c)
{
	if (sb->owed_bytes + weight(c) > OWED_MAX) {
		if (!sb->owed_full)
			log_warn("%s: too much was closed and forgotten without a connection: "
				 "what is left open in it stays so until it is started anew",
				sb->name);
		sb->owed_full = true;
		return false;
	}
	sb->owed_bytes += weight(c);
	DL_APPEND(sb->owed, c);
	return true;
}

void owed_give(struct sandbox *sb, struct call *c)
{
	for (bool again = true; again;) {
		struct channel *ch = NULL;
		bool kept = false;

		pthread_mutex_lock(&sb->lock);
		if (c->epoch != sb->epoch || sb->removed || sb->removing) {
			; /* nobody has that open any more */
		} else if (sb->ready) {
			ch = link_channel(sb->link);
			channel_get(ch);
		} else {
			kept = keep(sb, c);
		}
		pthread_mutex_unlock(&sb->lock);
		if (!ch && !kept)
			oneway_free(c);
		again = ch && channel_give(ch, c) < 0; /* lost just now: then it is not ready */
		if (ch)
			channel_put(ch);
	}
}

void owed_send(struct sandbox *sb)
{
	struct call *list = sb->owed, *c, *tmp;

	sb->owed = NULL;
	sb->owed_bytes = 0;
	sb->owed_full = false;
	DL_FOREACH_SAFE (list, c, tmp) {
		DL_DELETE(list, c);
		if (c->epoch != sb->epoch)
			oneway_free(c);
		else if (channel_give(link_channel(sb->link), c) < 0 && !keep(sb, c))
			oneway_free(c);
	}
}

void owed_fini(struct sandbox *sb)
{
	struct call *c, *tmp;

	DL_FOREACH_SAFE (sb->owed, c, tmp) {
		DL_DELETE(sb->owed, c);
		oneway_free(c);
	}
}

void sandbox_post(struct sandbox *sb, uint32_t epoch, const struct buf *frame)
{
	struct channel *ch = NULL;
	struct proto_head h;
	struct call *c;

	if (frame->error || proto_head(frame->data, &h) < 0)
		return;
	if (h.type == PROTO_CLOSE || h.type == PROTO_FORGET) {
		c = epoch ? oneway_new(frame) : NULL;
		if (c) {
			c->epoch = epoch;
			owed_give(sb, c);
		}
		return;
	}
	pthread_mutex_lock(&sb->lock);
	if (sb->ready && sb->epoch == epoch) {
		ch = link_channel(sb->link);
		channel_get(ch);
	}
	pthread_mutex_unlock(&sb->lock);
	if (ch) {
		channel_post(ch, frame);
		channel_put(ch);
	}
}

static void post_close(struct sandbox *sb, uint32_t epoch, uint64_t fh)
{
	struct buf b;

	buf_init(&b, PROTO_HEAD + 8);
	proto_begin(&b, PROTO_CLOSE, 0, 0, 0, 0);
	wire_u64(&b, fh);
	sandbox_post(sb, epoch, &b);
	buf_fini(&b);
}

static void post_forget(struct sandbox *sb, uint32_t epoch, uint64_t first, uint32_t n)
{
	struct buf b;

	if (!n)
		return;
	buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
	proto_begin(&b, PROTO_FORGET, 0, 0, 0, 0);
	wire_u32(&b, n);
	for (uint32_t k = 0; k < n && !b.error; k++)
		wire_u64(&b, first + k);
	sandbox_post(sb, epoch, &b);
	buf_fini(&b);
}

/* Numbers stand in each message as common/proto.h says. */
void owed_outcome(struct sandbox *sb, const struct call *c)
{
	struct wire_in in = wire_in(c->frame.data + PROTO_HEAD, c->frame.len - PROTO_HEAD);
	uint32_t epoch = sandbox_epoch(sb), n;
	struct proto_head h;
	uint64_t new;
	size_t len;

	if (proto_head(c->frame.data, &h) < 0)
		return;
	for (unsigned i = 0; i < h.error; i++) /* the caller's groups */
		wire_get_u32(&in);
	wire_get_u64(&in); /* the node or handle that it acts on */
	switch (c->type) {
	case PROTO_OPEN:
	case PROTO_OPENDIR:
		post_close(sb, epoch, wire_get_u64(&in));
		break;
	case PROTO_LOOKUP:
	case PROTO_MKNOD:
	case PROTO_MKDIR:
	case PROTO_SYMLINK:
	case PROTO_CREATE:
		wire_get_bytes(&in, PROTO_NAME_MAX, &len);
		post_forget(sb, epoch, wire_get_u64(&in), 1);
		if (c->type == PROTO_CREATE)
			post_close(sb, epoch, wire_get_u64(&in));
		break;
	case PROTO_READDIR:
		wire_get_u64(&in);
		wire_get_u32(&in);
		new = wire_get_u64(&in);
		n = wire_get_u32(&in);
		post_forget(sb, epoch, new, n);
		break;
	default:
		break;
	}
}
