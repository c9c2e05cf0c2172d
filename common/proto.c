/* SPDX-License-Identifier: MIT */
/* Encoding and decoding of the structs in proto.h: each pair stands together. Pure functions. */
#include "common/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t proto_begin(
	struct buf *b, uint16_t type, uint16_t error, uint64_t id, uint32_t uid, uint32_t gid)
{
	size_t at = b->len;

	wire_u32(b, 0);
	wire_u16(b, type);
	wire_u16(b, error);
	wire_u64(b, id);
	wire_u32(b, uid);
	wire_u32(b, gid);
	return at;
}

int proto_end(struct buf *b, size_t begun)
{
	size_t body;

	if (b->error)
		return b->error;
	body = b->len - begun - PROTO_HEAD;
	if (body > PROTO_MAX_BODY)
		return -E2BIG;
	for (int i = 0; i < 4; i++)
		b->data[begun + (size_t)i] = (uint8_t)(body >> (8 * i));
	return 0;
}

int proto_head(const uint8_t *p, struct proto_head *h)
{
	struct wire_in in = wire_in(p, PROTO_HEAD);

	h->len = wire_get_u32(&in);
	h->type = wire_get_u16(&in);
	h->error = wire_get_u16(&in);
	h->id = wire_get_u64(&in);
	h->uid = wire_get_u32(&in);
	h->gid = wire_get_u32(&in);
	return h->len > PROTO_MAX_BODY ? -EMSGSIZE : 0;
}

uint64_t proto_seq(const struct proto_head *h)
{
	return (uint64_t)h->gid << 32 | h->uid;
}

void proto_set_seq(struct buf *b, size_t begun, uint64_t seq)
{
	if (b->error || b->len < begun + PROTO_HEAD)
		return;
	for (int i = 0; i < 8; i++)
		b->data[begun + 16 + (size_t)i] = (uint8_t)(seq >> (8 * i));
}

bool proto_name_ok(const uint8_t *p, size_t n)
{
	if (n < 1 || n > PROTO_NAME_MAX || memchr(p, '/', n) || memchr(p, 0, n))
		return false;
	return !(n == 1 && p[0] == '.') && !(n == 2 && p[0] == '.' && p[1] == '.');
}

bool proto_path_ok(const char *path)
{
	if (strcmp(path, "/") == 0)
		return true;
	if (strlen(path) >= PROTO_PATH_MAX)
		return false;
	while (*path == '/') {
		size_t n = strcspn(++path, "/");

		if (!proto_name_ok((const uint8_t *)path, n))
			return false;
		path += n;
		if (!*path)
			return true;
	}
	return false;
}

char *proto_get_name(struct wire_in *in)
{
	char *s = wire_get_str(in, PROTO_NAME_MAX);

	if (s && !proto_name_ok((const uint8_t *)s, strlen(s))) {
		in->bad = true;
		free(s);
		return NULL;
	}
	return s;
}

static void put_time(struct buf *b, const struct proto_time *t)
{
	wire_u64(b, (uint64_t)t->sec);
	wire_u32(b, t->nsec);
}

static void get_time(struct wire_in *in, struct proto_time *t)
{
	t->sec = (int64_t)wire_get_u64(in);
	t->nsec = wire_get_u32(in);
	if (t->nsec > 999999999)
		in->bad = true;
}

void proto_put_attr(struct buf *b, const struct proto_attr *a)
{
	wire_u64(b, a->dev);
	wire_u64(b, a->ino);
	wire_u32(b, a->mode);
	wire_u32(b, a->nlink);
	wire_u32(b, a->uid);
	wire_u32(b, a->gid);
	wire_u64(b, a->size);
	wire_u64(b, a->blocks);
	wire_u32(b, a->blksize);
	wire_u32(b, a->rdev_major);
	wire_u32(b, a->rdev_minor);
	put_time(b, &a->atime);
	put_time(b, &a->mtime);
	put_time(b, &a->ctime);
	put_time(b, &a->btime);
	wire_u32(b, a->cache);
}

void proto_get_attr(struct wire_in *in, struct proto_attr *a)
{
	a->dev = wire_get_u64(in);
	a->ino = wire_get_u64(in);
	a->mode = wire_get_u32(in);
	a->nlink = wire_get_u32(in);
	a->uid = wire_get_u32(in);
	a->gid = wire_get_u32(in);
	a->size = wire_get_u64(in);
	a->blocks = wire_get_u64(in);
	a->blksize = wire_get_u32(in);
	a->rdev_major = wire_get_u32(in);
	a->rdev_minor = wire_get_u32(in);
	get_time(in, &a->atime);
	get_time(in, &a->mtime);
	get_time(in, &a->ctime);
	get_time(in, &a->btime);
	a->cache = wire_get_u32(in);
	if (a->cache & ~(uint32_t)PROTO_CACHE_BITS)
		in->bad = true;
}

void proto_put_setattr(struct buf *b, const struct proto_setattr *s)
{
	wire_u32(b, s->mask);
	wire_u32(b, s->mode);
	wire_u32(b, s->uid);
	wire_u32(b, s->gid);
	wire_u64(b, s->size);
	put_time(b, &s->atime);
	put_time(b, &s->mtime);
}

void proto_get_setattr(struct wire_in *in, struct proto_setattr *s)
{
	s->mask = wire_get_u32(in);
	s->mode = wire_get_u32(in);
	s->uid = wire_get_u32(in);
	s->gid = wire_get_u32(in);
	s->size = wire_get_u64(in);
	get_time(in, &s->atime);
	get_time(in, &s->mtime);
}

void proto_put_lock(struct buf *b, const struct proto_lock *l)
{
	wire_u32(b, l->type);
	wire_u64(b, l->start);
	wire_u64(b, l->end);
	wire_u32(b, l->pid);
}

void proto_get_lock(struct wire_in *in, struct proto_lock *l)
{
	l->type = wire_get_u32(in);
	l->start = wire_get_u64(in);
	l->end = wire_get_u64(in);
	l->pid = wire_get_u32(in);
	if (l->type > PROTO_LOCK_NONE || l->start > l->end || l->end > INT64_MAX)
		in->bad = true;
}

bool proto_change_named(uint8_t kind)
{
	return kind == PROTO_CHANGE_NAME || kind == PROTO_CHANGE_SIZE;
}

void proto_put_change(struct buf *b, const struct proto_change *c)
{
	wire_u8(b, c->kind);
	wire_u64(b, c->node);
	if (proto_change_named(c->kind))
		wire_bytes(b, c->name, c->name_len);
}

void proto_get_change(struct wire_in *in, struct proto_change *c)
{
	memset(c, 0, sizeof(*c));
	c->kind = wire_get_u8(in);
	c->node = wire_get_u64(in);
	if (proto_change_named(c->kind)) {
		c->name = wire_get_bytes(in, PROTO_NAME_MAX, &c->name_len);
		if (!in->bad && !proto_name_ok(c->name, c->name_len))
			in->bad = true;
	}
	if (c->kind < PROTO_CHANGE_ATTR || c->kind > PROTO_CHANGE_SIZE)
		in->bad = true;
}

void proto_put_statfs(struct buf *b, const struct proto_statfs *s)
{
	wire_u64(b, s->blocks);
	wire_u64(b, s->bfree);
	wire_u64(b, s->bavail);
	wire_u64(b, s->files);
	wire_u64(b, s->ffree);
	wire_u32(b, s->bsize);
	wire_u32(b, s->frsize);
	wire_u32(b, s->namelen);
}

void proto_get_statfs(struct wire_in *in, struct proto_statfs *s)
{
	s->blocks = wire_get_u64(in);
	s->bfree = wire_get_u64(in);
	s->bavail = wire_get_u64(in);
	s->files = wire_get_u64(in);
	s->ffree = wire_get_u64(in);
	s->bsize = wire_get_u32(in);
	s->frsize = wire_get_u32(in);
	s->namelen = wire_get_u32(in);
}

void proto_put_dirent(struct buf *b, const struct proto_dirent *d)
{
	wire_u64(b, d->ino);
	wire_u64(b, d->next);
	wire_u32(b, d->type);
	wire_bytes(b, d->name, d->name_len);
	wire_u8(b, d->has_attr);
	if (d->has_attr)
		proto_put_attr(b, &d->attr);
}

void proto_get_dirent(struct wire_in *in, struct proto_dirent *d)
{
	uint8_t has;

	memset(d, 0, sizeof(*d));
	d->ino = wire_get_u64(in);
	d->next = wire_get_u64(in);
	d->type = wire_get_u32(in);
	d->name = wire_get_bytes(in, PROTO_NAME_MAX, &d->name_len);
	has = wire_get_u8(in);
	d->has_attr = has != 0;
	if (d->has_attr)
		proto_get_attr(in, &d->attr);
	if (has > 1 || (!in->bad && !proto_name_ok(d->name, d->name_len)))
		in->bad = true;
}

void proto_put_hello(struct buf *b, const struct proto_hello *h)
{
	wire_u32(b, h->version);
	wire_u8(b, h->resumed);
	wire_u32(b, h->uid);
	wire_u32(b, h->gid);
	wire_str(b, h->agent);
	wire_str(b, h->workspace);
	wire_str(b, h->trouble);
}

void proto_get_hello(struct wire_in *in, struct proto_hello *h)
{
	uint8_t resumed;

	h->version = wire_get_u32(in);
	resumed = wire_get_u8(in);
	h->resumed = resumed != 0;
	h->uid = wire_get_u32(in);
	h->gid = wire_get_u32(in);
	h->agent = wire_get_str(in, PROTO_TEXT_MAX);
	h->workspace = wire_get_str(in, PROTO_PATH_MAX);
	h->trouble = wire_get_str(in, PROTO_TEXT_MAX);
	if (resumed > 1)
		in->bad = true;
}

void proto_hello_fini(struct proto_hello *h)
{
	free(h->agent);
	free(h->workspace);
	free(h->trouble);
	memset(h, 0, sizeof(*h));
}

void proto_put_job(struct buf *b, const struct proto_job *j)
{
	wire_u64(b, j->job);
	wire_u8(b, j->result);
	wire_u32(b, (uint32_t)j->exit_code);
	wire_u32(b, j->pid);
	wire_u64(b, j->wall_us);
	wire_u64(b, j->user_us);
	wire_u64(b, j->system_us);
	wire_u64(b, j->peak_kib);
	for (int i = 0; i < PROTO_STREAMS; i++) {
		wire_u64(b, j->size[i]);
		wire_u64(b, j->hole_from[i]);
		wire_u64(b, j->hole_to[i]);
	}
	wire_u64(b, j->command_size);
	wire_u64(b, j->stdin_size);
	wire_str(b, j->name);
	wire_str(b, j->command);
	wire_str(b, j->words);
}

void proto_get_job(struct wire_in *in, struct proto_job *j)
{
	memset(j, 0, sizeof(*j));
	j->job = wire_get_u64(in);
	j->result = wire_get_u8(in);
	j->exit_code = (int32_t)wire_get_u32(in);
	j->pid = wire_get_u32(in);
	j->wall_us = wire_get_u64(in);
	j->user_us = wire_get_u64(in);
	j->system_us = wire_get_u64(in);
	j->peak_kib = wire_get_u64(in);
	for (int i = 0; i < PROTO_STREAMS; i++) {
		j->size[i] = wire_get_u64(in);
		j->hole_from[i] = wire_get_u64(in);
		j->hole_to[i] = wire_get_u64(in);
		if (j->size[i] > INT64_MAX || j->hole_from[i] > j->hole_to[i] ||
			j->hole_to[i] > j->size[i])
			in->bad = true;
	}
	j->command_size = wire_get_u64(in);
	j->stdin_size = wire_get_u64(in);
	j->name = proto_get_name(in);
	j->command = wire_get_str(in, PROTO_TEXT_MAX);
	j->words = wire_get_str(in, PROTO_TEXT_MAX);
	if (j->result >= PROTO_RESULTS || j->exit_code < -1 || j->exit_code > 255 ||
		j->command_size > INT64_MAX || j->stdin_size > INT64_MAX)
		in->bad = true;
}

void proto_job_fini(struct proto_job *j)
{
	free(j->name);
	free(j->command);
	free(j->words);
	memset(j, 0, sizeof(*j));
}

void proto_put_setup(struct buf *b, const struct proto_setup *s)
{
	wire_u8(b, s->result);
	wire_u32(b, s->hooks);
	wire_u32(b, (uint32_t)s->exit_code);
	wire_str(b, s->words);
	wire_str(b, s->output);
}

void proto_get_setup(struct wire_in *in, struct proto_setup *s)
{
	memset(s, 0, sizeof(*s));
	s->result = wire_get_u8(in);
	s->hooks = wire_get_u32(in);
	s->exit_code = (int32_t)wire_get_u32(in);
	s->words = wire_get_str(in, PROTO_TEXT_MAX);
	s->output = wire_get_str(in, PROTO_TEXT_MAX);
	if (s->result > PROTO_SETUP_HOOK_FAILED || s->exit_code < -1 || s->exit_code > 255)
		in->bad = true;
}

void proto_setup_fini(struct proto_setup *s)
{
	free(s->words);
	free(s->output);
	memset(s, 0, sizeof(*s));
}

const char *proto_result_name(uint8_t result)
{
	static const char *const names[PROTO_RESULTS] = {"new", "running", "success", "exit-code",
		"signal", "timeout", "oom-kill", "start-failed", "lost"};

	return result < PROTO_RESULTS ? names[result] : "lost";
}
