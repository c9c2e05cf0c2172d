/* SPDX-License-Identifier: MIT */
/*
 * The protocol's decoders. The first byte chooses one, the rest is the body. What is accepted must
 * be written again as the same bytes.
 */
#include "common/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CASE(x, fini)                          \
	do {                                   \
		struct proto_##x v = {0};      \
		proto_get_##x(&in, &v);        \
		if (wire_end(&in))             \
			proto_put_##x(&b, &v); \
		else                           \
			skip = true;           \
		fini;                          \
	} while (0)

static void decode(unsigned which, const uint8_t *data, size_t size)
{
	struct wire_in in = wire_in(data, size);
	bool skip = false;
	struct buf b;

	buf_init(&b, PROTO_MAX_BODY);
	switch (which) {
	case 0:
		CASE(attr, (void)0);
		break;
	case 1:
		CASE(setattr, (void)0);
		break;
	case 2:
		CASE(statfs, (void)0);
		break;
	case 3:
		CASE(hello, proto_hello_fini(&v));
		break;
	case 4:
		CASE(job, proto_job_fini(&v));
		break;
	case 7:
		CASE(lock, (void)0);
		break;
	case 8:
		CASE(change, (void)0);
		break;
	default: /* as READDIR's reply: entries until the end */
		while (!in.bad && in.p < in.end) {
			struct proto_dirent d;

			proto_get_dirent(&in, &d);
			if (!in.bad)
				proto_put_dirent(&b, &d);
		}
		skip = in.bad;
	}
	if (!skip && (b.error || b.len != size || (size && memcmp(b.data, data, size) != 0)))
		abort();
	buf_fini(&b);
}

static void decode_frame(const uint8_t *data, size_t size)
{
	struct proto_head h;
	struct wire_in in;
	char *name;

	if (size < PROTO_HEAD || proto_head(data, &h) < 0)
		return;
	if (h.len > PROTO_MAX_BODY)
		abort();
	in = wire_in(data + PROTO_HEAD, size - PROTO_HEAD);
	name = proto_get_name(&in);
	if ((name == NULL) != in.bad || (name && strchr(name, '/')))
		abort();
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 9 == 6)
		decode_frame(data + 1, size - 1);
	else
		decode(data[0] % 9, data + 1, size - 1);
	return 0;
}
