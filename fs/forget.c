/* SPDX-License-Identifier: MIT */
/* Runs on whatever thread puts the last reference; a struct forget is that thread's alone. */
#include "fs/forget.h"

#include "common/proto.h"
#include "sandbox/sandbox.h"

void forget_send(struct forget *f)
{
	struct buf frame;

	if (!f->n)
		return;
	buf_init(&frame, PROTO_HEAD + 4 + 8 * FORGET_MAX);
	proto_begin(&frame, PROTO_FORGET, 0, 0, 0, 0);
	wire_u32(&frame, f->n);
	for (uint32_t k = 0; k < f->n; k++)
		wire_u64(&frame, f->nodes[k]);
	sandbox_post(f->sb, f->epoch, &frame);
	buf_fini(&frame);
	sandbox_put(f->sb);
	f->n = 0;
}

void forget_add(struct forget *f, struct sandbox *sb, uint32_t epoch, uint64_t node)
{
	if (f->n == FORGET_MAX || (f->n && (f->sb != sb || f->epoch != epoch)))
		forget_send(f);
	if (!f->n) {
		sandbox_get(sb);
		f->sb = sb;
		f->epoch = epoch;
	}
	f->nodes[f->n++] = node;
}

void forget_now(struct sandbox *sb, uint32_t epoch, uint64_t first, uint32_t n)
{
	struct forget f;

	f.n = 0;
	for (uint32_t k = 0; k < n; k++)
		forget_add(&f, sb, epoch, first + k);
	forget_send(&f);
}
