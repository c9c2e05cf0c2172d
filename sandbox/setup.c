/* SPDX-License-Identifier: MIT */
/* The setup file's records, from a spec. Owns the file while it grows; any thread. */
#include "sandbox/setup.h"

#include "common/cleanup.h"
#include "common/proto.h"
#include "common/setup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_AT 65536u

bool setup_needed(const struct spec *spec)
{
	const struct spec_x *x = &spec->x;

	return x->n_files || x->n_users || x->n_groups || x->n_post_start || x->n_pre_stop ||
	       x->timeout_ms || x->max_wait_ms || x->output_limit;
}

int setup_flush(struct setup_pack *p)
{
	size_t done = 0;

	if (p->b.error)
		return err_set(p->err, -p->b.error, "the setup of the sandbox: %s",
			p->b.error == -E2BIG ? "a part of it is too large" : "out of memory");
	if (p->written + p->b.len > SETUP_MAX)
		return err_set(p->err, EFBIG,
			"files, users and hooks together have more than %u MiB", SETUP_MAX >> 20);
	while (done < p->b.len) {
		ssize_t n = write(p->fd, p->b.data + done, p->b.len - done);

		if (n < 0 && errno != EINTR)
			return err_set(
				p->err, errno, "the setup of the sandbox, in a temporary file: %m");
		done += n > 0 ? (size_t)n : 0;
	}
	p->written += p->b.len;
	buf_reset(&p->b);
	return 0;
}

static int gathered(struct setup_pack *p)
{
	return p->b.len >= FLUSH_AT || p->b.error ? setup_flush(p) : 0;
}

static void put_text(struct setup_pack *p, const char *s)
{
	wire_str(&p->b, s ? s : "");
}

static void put_list(struct setup_pack *p, char *const *list)
{
	uint32_t n = 0;

	while (list && list[n])
		n++;
	wire_u32(&p->b, n);
	for (uint32_t i = 0; i < n; i++)
		wire_str(&p->b, list[i]);
}

static void put_user(struct setup_pack *p, const struct spec_user *u)
{
	wire_u8(&p->b, SETUP_USER);
	put_text(p, u->name);
	wire_u32(&p->b, u->uid);
	wire_u32(&p->b, u->gid);
	put_text(p, u->home);
	put_text(p, u->shell);
	put_list(p, u->groups);
}

static void put_hooks(struct setup_pack *p, uint8_t kind, const struct spec_hook *hooks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		wire_u8(&p->b, kind);
		put_text(p, hooks[i].user);
		put_text(p, hooks[i].working_dir);
		put_list(p, hooks[i].command);
		put_list(p, hooks[i].environment);
	}
}

static void put_seconds(struct setup_pack *p, uint8_t set, uint64_t ms)
{
	char text[40];

	if (!ms)
		return;
	if (ms % 1000)
		snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)(ms / 1000),
			(unsigned)(ms % 1000));
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)(ms / 1000));
	wire_u8(&p->b, SETUP_SET);
	wire_u8(&p->b, set);
	put_text(p, text);
}

static int put_file(struct setup_pack *p, const struct spec_file *f)
{
	if (!f->content)
		return setup_put_source(p, f);
	wire_u8(&p->b, SETUP_FILE);
	put_text(p, f->path);
	put_text(p, f->owner);
	wire_u32(&p->b, f->has_mode ? f->mode & 07777 : 0644);
	put_text(p, f->content);
	return gathered(p);
}

static int put_all(struct setup_pack *p, const struct spec_x *x)
{
	int r = 0;

	wire_u32(&p->b, SETUP_MAGIC);
	wire_u32(&p->b, SETUP_VERSION);
	for (size_t i = 0; i < x->n_groups; i++) {
		wire_u8(&p->b, SETUP_GROUP);
		put_text(p, x->groups[i].name);
		wire_u32(&p->b, x->groups[i].gid);
	}
	for (size_t i = 0; i < x->n_users; i++)
		put_user(p, &x->users[i]);
	for (size_t i = 0; r == 0 && i < x->n_files; i++)
		r = put_file(p, &x->files[i]);
	if (r < 0)
		return r;
	put_seconds(p, PROTO_SET_TIMEOUT, x->timeout_ms);
	put_seconds(p, PROTO_SET_MAX_WAIT, x->max_wait_ms);
	if (x->output_limit) {
		wire_u8(&p->b, SETUP_LIMIT);
		wire_u64(&p->b, x->output_limit);
	}
	put_hooks(p, SETUP_POST_START, x->post_start, x->n_post_start);
	put_hooks(p, SETUP_PRE_STOP, x->pre_stop, x->n_pre_stop);
	wire_u8(&p->b, SETUP_END);
	return setup_flush(p);
}

int setup_temporary(struct err *err)
{
	const char *dir = getenv("TMPDIR");
	cleanup_free char *path = NULL;
	int fd;

	dir = dir && *dir == '/' ? dir : P_tmpdir;
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if (asprintf(&path, "%s/sandboxfs-XXXXXX", dir) < 0) {
		path = NULL;
		return err_set(err, ENOMEM, "out of memory");
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "a temporary file in %s: %m", dir);
	unlink(path);
	return fd;
}

int setup_pack(const struct spec *spec, struct err *err)
{
	struct setup_pack p = {.err = err, .fd = setup_temporary(err)};
	int r;

	if (p.fd < 0)
		return p.fd;
	buf_init(&p.b, SETUP_MAX);
	r = put_all(&p, &spec->x);
	buf_fini(&p.b);
	if (r < 0)
		close(p.fd);
	return r < 0 ? r : p.fd;
}
