/* SPDX-License-Identifier: MIT */
/* Reading the setup file, a record at a time. Pure; any thread. */
#include "agent/setup_record.h"

#include "common/proto.h"
#include "common/setup_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *text(struct wire_in *in, size_t max)
{
	return wire_get_str(in, max);
}

static char **list(struct wire_in *in)
{
	uint32_t n = wire_get_u32(in);
	char **l = n <= SETUP_ITEMS && !in->bad ? calloc(n + 1, sizeof(*l)) : NULL;

	if (!l)
		in->bad = true;
	for (uint32_t i = 0; l && i < n; i++) {
		l[i] = text(in, SETUP_ARG_MAX);
		if (!l[i])
			break;
	}
	return l;
}

static void read_path(struct wire_in *in, struct setup_record *r)
{
	r->name = text(in, PROTO_PATH_MAX - 1);
	r->owner = text(in, PROTO_TEXT_MAX);
	if (r->kind == SETUP_LINK)
		r->home = text(in, PROTO_PATH_MAX);
	else
		r->id = wire_get_u32(in);
	if (r->kind == SETUP_FILE)
		r->bytes = wire_get_bytes(in, SETUP_MAX, &r->n_bytes);
	if (!in->bad && !proto_path_ok(r->name))
		in->bad = true;
}

static void read_fields(struct wire_in *in, struct setup_record *r)
{
	switch (r->kind) {
	case SETUP_END:
		break;
	case SETUP_GROUP:
		r->name = text(in, PROTO_NAME_MAX);
		r->gid = wire_get_u32(in);
		break;
	case SETUP_USER:
		r->name = text(in, PROTO_NAME_MAX);
		r->id = wire_get_u32(in);
		r->gid = wire_get_u32(in);
		r->home = text(in, PROTO_PATH_MAX - 1);
		r->shell = text(in, PROTO_PATH_MAX - 1);
		r->list = list(in);
		break;
	case SETUP_DIR:
	case SETUP_FILE:
	case SETUP_LINK:
		read_path(in, r);
		break;
	case SETUP_SET:
		r->id = wire_get_u8(in);
		r->name = text(in, PROTO_CONFIG_MAX);
		break;
	case SETUP_LIMIT:
		r->limit = wire_get_u64(in);
		break;
	case SETUP_POST_START:
	case SETUP_PRE_STOP:
		r->owner = text(in, PROTO_TEXT_MAX);
		r->home = text(in, PROTO_PATH_MAX);
		r->list = list(in);
		r->env = list(in);
		if (!in->bad && !*r->list)
			in->bad = true;
		break;
	default:
		in->bad = true;
	}
}

int setup_record_next(struct wire_in *in, struct setup_record *r)
{
	const uint8_t *begin = in->p;

	memset(r, 0, sizeof(*r));
	r->kind = wire_get_u8(in);
	if (!in->bad)
		read_fields(in, r);
	if (in->bad) {
		setup_record_fini(r);
		return -EINVAL;
	}
	r->raw = begin;
	r->n_raw = (size_t)(in->p - begin);
	return 0;
}

static void free_list(char **l)
{
	for (char **p = l; p && *p; p++)
		free(*p);
	free(l);
}

void setup_record_fini(struct setup_record *r)
{
	free(r->name);
	free(r->owner);
	free(r->home);
	free(r->shell);
	free_list(r->list);
	free_list(r->env);
	memset(r, 0, sizeof(*r));
}
