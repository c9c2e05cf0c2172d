/* SPDX-License-Identifier: MIT */
/*
 * A spec as a plan (plan.h), after check.c has found that it can be one. Any thread.
 */
#include "bwrap/bwrap.h"

#include "bwrap/ids.h"
#include "bwrap/plan.h"
#include "common/cleanup.h"
#include "sandbox/caps.h"
#include "sandbox/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WORDS_MAX  (16u << 20)
#define PATH_USUAL "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LISTEN_FD  "3" /* launch.c's */

static void word(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s) + 1);
}

static void words(struct buf *b, const char *const *list)
{
	for (; *list; list++)
		word(b, *list);
}

/* Which root inside has; as a number, for the agent: bwrap leaves the bounding set alone. */
static uint64_t put_caps(struct buf *b, const struct spec *spec)
{
	uint64_t caps = 0;
	char name[48];

	for (const char *const *c = caps_all; *c; c++) {
		if (!caps_has(spec->cap_add, spec->cap_drop, *c))
			continue;
		snprintf(name, sizeof(name), "CAP_%s", *c);
		words(b, (const char *const[]){"cap", name, NULL});
		caps |= UINT64_C(1) << (c - caps_all);
	}
	return caps;
}

static void put_environment(struct buf *b, const struct spec *spec, const char *hostname)
{
	words(b, (const char *const[]){
			 "env", "PATH", PATH_USUAL, "env", "HOSTNAME", hostname, NULL});
	for (char *const *e = spec->environment; e && *e; e++) {
		const char *eq = strchrnul(*e, '=');

		word(b, "env");
		buf_append(b, *e, (size_t)(eq - *e));
		buf_append(b, "", 1);
		word(b, *eq ? eq + 1 : "");
	}
}

static void put_agent(struct buf *b, const struct spec *spec, uint64_t caps)
{
	char caps_text[24];
	const char *const argv[] = {ENGINE_AGENT_PATH, "init", "--listen", LISTEN_FD, "--state",
		ENGINE_STATE_DIR, "--workspace", spec->working_dir, "--user",
		spec->user ? spec->user : "0", "--caps", caps_text, NULL};

	snprintf(caps_text, sizeof(caps_text), "%" PRIx64, caps);
	for (const char *const *a = argv; *a; a++)
		words(b, (const char *const[]){"exec", *a, NULL});
	if (spec->group_add && *spec->group_add) {
		words(b, (const char *const[]){"exec", "--groups", "exec", NULL});
		for (char *const *g = spec->group_add; *g; g++)
			buf_printf(b, "%s%s", g == spec->group_add ? "" : ",", *g);
		buf_append(b, "", 1);
	}
	if (setup_needed(spec))
		words(b, (const char *const[]){"exec", "--setup", "exec", "1", NULL});
	if (spec->command)
		words(b, (const char *const[]){"exec", "--", NULL});
	for (char *const *c = spec->command; c && *c; c++)
		words(b, (const char *const[]){"exec", *c, NULL});
}

static void put_tmpfs_word(
	struct buf *b, const char *name, const char *dest, size_t n, uint64_t size, unsigned mode)
{
	word(b, name);
	buf_append(b, dest, n);
	buf_append(b, "", 1);
	buf_printf(b, "%" PRIu64 "%c%o%c", size, 0, mode, 0);
}

static int own_dir(int fd, const char *name, struct err *err)
{
	if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
		return err_set(err, errno, "the volume %s: %s", name, strerror(errno));
	/* Empty, it is nobody's yet: root's inside. */
	if (!geteuid() && fchownat(fd, name, IDS_BASE, IDS_BASE, 0) < 0)
		return err_set(err, errno, "the volume %s: %s", name, strerror(errno));
	return 0;
}

static int named_volume(
	const struct bwrap *b, const char *name, char *path, size_t size, struct err *err)
{
	cleanup_close int fd = -1;

	snprintf(path, size, "%s/volumes/%s", b->data, name);
	if (access(path, F_OK) == 0)
		return 0;
	snprintf(path, size, "%s/volumes", b->data);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, size, "%s/volumes/%s", b->data, name);
	return fd < 0 ? err_set(err, errno, "%s: %s", path, strerror(errno))
		      : own_dir(fd, name, err);
}

/* A volume of the sandbox's own: volumes/N in its directory. */
static int own_volume(int fd, size_t n, char *path, size_t size, struct err *err)
{
	int r = own_dir(fd, "volumes", err);

	snprintf(path, size, "volumes/%zu", n);
	return r < 0 ? r : own_dir(fd, path, err);
}

static int put_volumes(const struct bwrap *b, const struct spec *spec, int fd, struct buf *out,
	bool *covered, struct err *err)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_volumes; i++) {
		const struct spec_volume *v = &spec->volumes[i];
		const char *source = path;

		*covered |= spec_beneath(spec->working_dir, v->target, strlen(v->target));
		if (v->type == SPEC_TMPFS) {
			put_tmpfs_word(out, v->read_only ? "rotmpfs" : "tmpfs", v->target,
				strlen(v->target), v->tmpfs_size,
				v->tmpfs_mode ? v->tmpfs_mode : 01777);
			continue;
		}
		if (v->type == SPEC_BIND)
			source = v->source;
		else if (v->source && !v->ours)
			r = named_volume(b, v->source, path, sizeof(path), err);
		else
			r = own_volume(fd, i, path, sizeof(path), err);
		words(out, (const char *const[]){
				   v->read_only ? "robind" : "bind", source, v->target, NULL});
	}
	return r;
}

/* inside: the sandbox's own, and everybody's to read there. */
static int put_text(int fd, const char *name, const struct buf *b, bool inside, struct err *err)
{
	cleanup_close int to =
		openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, inside ? 0644 : 0600);

	if (b->error)
		return err_set(err, ENOMEM, "out of memory");
	errno = to < 0 ? errno : ENOSPC; /* a write that is cut short says nothing else */
	if (to < 0 || write(to, b->data, b->len) != (ssize_t)b->len ||
		(inside && (fchmod(to, 0644) < 0 ||
				   (!geteuid() && fchown(to, IDS_BASE, IDS_BASE) < 0))))
		return err_set(err, errno, "the sandbox's %s: %s", name, strerror(errno));
	return 0;
}

/* With the host's network and no `dns`, the host's own: as it is now. */
static void put_resolv(const struct spec *spec, struct buf *b)
{
	bool host = strcmp(spec->network_mode, "host") == 0 && !(spec->dns && *spec->dns);
	cleanup_close int fd = host ? open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC) : -1;
	char part[4096];
	ssize_t n;

	buf_puts(b, "# by sandboxfs\n");
	for (char *const *d = spec->dns; d && *d; d++)
		buf_printf(b, "nameserver %s\n", *d);
	while (fd >= 0 && (n = read(fd, part, sizeof(part))) > 0)
		buf_append(b, part, (size_t)n);
}

/* The three files of /etc that an engine makes. dir: where /etc is in the sandbox's directory, or
 * NULL: an image's may be anything, so they are bound over it. */
static int put_names(const struct spec *spec, const char *hostname, int fd, const char *dir,
	struct buf *out, struct err *err)
{
	static const char *const names[] = {"hosts", "hostname", "resolv.conf"};
	struct buf b;
	int r = 0;

	buf_init(&b, 1u << 20);
	for (int i = 0; r == 0 && i < 3; i++) {
		char dest[32], path[64];

		buf_reset(&b);
		if (i == 0) {
			buf_printf(&b, "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost\n",
				hostname);
			for (char *const *h = spec->extra_hosts; h && *h; h++) {
				const char *colon = strchr(*h, ':');

				if (colon)
					buf_printf(
						&b, "%s\t%.*s\n", colon + 1, (int)(colon - *h), *h);
			}
		} else if (i == 1) {
			buf_printf(&b, "%s\n", hostname);
		} else {
			put_resolv(spec, &b);
		}
		snprintf(path, sizeof(path), "%s%s%s", dir ? dir : "", dir ? "/" : "", names[i]);
		r = put_text(fd, path, &b, true, err);
		snprintf(dest, sizeof(dest), "/etc/%s", names[i]);
		if (!dir)
			words(out, (const char *const[]){"bind", path, dest, NULL});
	}
	buf_fini(&b);
	return r;
}

static void put_limits(const struct bwrap *b, const struct spec *spec, struct buf *out)
{
	char soft[32], hard[32];

	for (size_t i = 0; i < spec->n_ulimits; i++) {
		snprintf(soft, sizeof(soft), "%" PRId64, spec->ulimits[i].soft);
		snprintf(hard, sizeof(hard), "%" PRId64, spec->ulimits[i].hard);
		words(out,
			(const char *const[]){"rlimit", spec->ulimits[i].name, soft, hard, NULL});
	}
	if (spec->pids_limit && !(cgroups_can(b->cgroups) & ENGINE_LIMIT_PIDS)) {
		snprintf(soft, sizeof(soft), "%u", spec->pids_limit);
		words(out, (const char *const[]){"pids", soft, NULL});
	}
	if (spec->shm_size) {
		snprintf(soft, sizeof(soft), "%" PRIu64, spec->shm_size);
		words(out, (const char *const[]){"shm", soft, NULL});
	}
}

static int put_mounts(const struct bwrap *b, const struct spec *spec, const char *lower, int fd,
	const char *hostname, struct buf *out, struct err *err)
{
	bool covered = false, host = strcmp(spec->image, BWRAP_HOST_IMAGE) == 0;
	const char *names = !host ? NULL : lower ? "upper/etc" : "root/etc";
	char path[PATH_MAX];
	int r = 0;

	if (lower) {
		snprintf(path, sizeof(path), "../../../roots/%s", lower);
		words(out, (const char *const[]){"lower", path, NULL});
	}
	if (host)
		r = bwrap_make_root(fd, lower, out, err);
	if (r == 0 && host && lower)
		r = own_dir(fd, names, err);
	r = r < 0 ? r : put_names(spec, hostname, fd, names, out, err);
	r = r < 0 ? r : put_volumes(b, spec, fd, out, &covered, err);
	for (char *const *t = spec->tmpfs; r == 0 && t && *t; t++) {
		struct bwrap_tmpfs fs;

		r = bwrap_parse_tmpfs(*t, &fs, err);
		if (r < 0)
			break;
		covered |= spec_beneath(spec->working_dir, *t, fs.len);
		put_tmpfs_word(out, "tmpfs", *t, fs.len, fs.size, fs.mode);
	}
	if (r == 0 && spec->read_only) {
		word(out, "readonly");
		if (!covered) {
			r = own_volume(fd, spec->n_volumes, path, sizeof(path), err);
			words(out, (const char *const[]){"bind", path, spec->working_dir, NULL});
		}
	}
	return r;
}

int bwrap_make_plan(const struct bwrap *b, const struct spec *spec, const char *id,
	const char *lower, int fd, struct err *err)
{
	char hostname[HOST_NAME_MAX + 1];
	struct buf out;
	uint64_t caps;
	int r;

	snprintf(hostname, sizeof(hostname), "%.*s", spec->hostname ? HOST_NAME_MAX : 12,
		spec->hostname ? spec->hostname : id);
	buf_init(&out, WORDS_MAX);
	words(&out, (const char *const[]){"hostname", hostname, NULL});
	if (strcmp(spec->network_mode, "host") == 0)
		word(&out, "share-net");
	r = put_mounts(b, spec, lower, fd, hostname, &out, err);
	put_limits(b, spec, &out);
	caps = put_caps(&out, spec);
	put_environment(&out, spec, hostname);
	put_agent(&out, spec, caps);
	r = r < 0 ? r : put_text(fd, PLAN_FILE, &out, false, err);
	buf_fini(&out);
	return r;
}
