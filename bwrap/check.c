/* SPDX-License-Identifier: MIT */
/*
 * What this engine cannot do is refused here, by the name of the key: a sandbox never comes up with
 * less isolation, or with less, than its template says. Any thread.
 */
#include "bwrap/bwrap.h"

#include "bwrap/ulimit.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static int cannot(struct err *err, const char *key, const char *why)
{
	return err_set(
		err, EOPNOTSUPP, "%s: the embedded engine (bwrap) cannot do this: %s", key, why);
}

static int check_security(const struct spec *spec, struct err *err)
{
	for (char *const *s = spec->security_opt; s && *s; s++)
		if (strcmp(*s, "no-new-privileges") != 0 &&
			strcmp(*s, "no-new-privileges:true") != 0 &&
			strcmp(*s, "no-new-privileges=true") != 0)
			return cannot(err, "security_opt", *s);
	return 0;
}

static int check_limits(const struct bwrap *b, const struct spec *spec, struct err *err)
{
	static const char why[] = "no cgroup can be made here; 0 is no limit";
	unsigned can = cgroups_can(b->cgroups);

	if (spec->mem_limit && !(can & ENGINE_LIMIT_MEMORY))
		return cannot(err, "mem_limit", why);
	return spec->cpus_milli && !(can & ENGINE_LIMIT_CPU) ? cannot(err, "cpus", why) : 0;
}

/* Root may raise its limits; where it may not (in some containers), the start fails, and says why.
 */
static int check_ulimits(const struct spec *spec, struct err *err)
{
	for (size_t i = 0; i < spec->n_ulimits && geteuid() != 0; i++) {
		const struct spec_ulimit *u = &spec->ulimits[i];
		int resource = ulimit_named(u->name);
		struct rlimit own;
		char key[64];

		snprintf(key, sizeof(key), "ulimits.%s", u->name);
		if (resource >= 0 && resource != RLIMIT_NPROC &&
			getrlimit((__rlimit_resource_t)resource, &own) == 0 &&
			!ulimit_within(ulimit_value(u->hard), own.rlim_max))
			return cannot(
				err, key, "it is above the hard limit of the user who mounted");
	}
	return 0;
}

static int check_platform(const struct spec *spec, struct err *err)
{
	const char *arch = NULL;
	struct utsname u;

	if (!spec->platform)
		return 0;
	if (uname(&u) == 0)
		arch = strcmp(u.machine, "x86_64") == 0	   ? "linux/amd64"
		       : strcmp(u.machine, "aarch64") == 0 ? "linux/arm64"
							   : u.machine;
	return arch && strcmp(arch, spec->platform) == 0
		       ? 0
		       : cannot(err, "platform", "only this machine's own");
}

static int check_volume(const struct spec_volume *v, struct err *err)
{
	if (!spec_usable(v->target, strlen(v->target)))
		return err_set(err, EINVAL, "nothing can be mounted at %s", v->target);
	if (v->driver && strcmp(v->driver, "local") != 0)
		return cannot(err, "volumes.driver", v->driver);
	if (v->driver_opts && *v->driver_opts)
		return cannot(err, "volumes.driver_opts", *v->driver_opts);
	if (v->labels && *v->labels)
		return cannot(err, "volumes.labels", *v->labels);
	if (v->propagation && strcmp(v->propagation, "private") != 0 &&
		strcmp(v->propagation, "rprivate") != 0)
		return cannot(err, "volumes.bind.propagation", v->propagation);
	if (v->subpath)
		return cannot(err, "volumes.volume.subpath", v->subpath);
	if (v->type == SPEC_VOLUME && v->source && !v->ours &&
		(v->source[0] == '.' || strchr(v->source, '/')))
		return err_set(err, EINVAL, "%s is no name of a volume", v->source);
	return 0;
}

static int check_hosts(const struct spec *spec, struct err *err)
{
	for (char *const *h = spec->extra_hosts; h && *h; h++)
		if (strcmp(strchrnul(*h, ':'), ":host-gateway") == 0)
			return cannot(err, "extra_hosts",
				"a sandbox has no gateway to the host; name an address");
	return 0;
}

/* UID, NAME, UID:GID and so on. A name is looked up inside, later; the one id is root's. */
static bool fits(const struct bwrap *b, const char *user)
{
	while (user && *user) {
		size_t n = strcspn(user, ":");

		if (n && strspn(user, "0123456789") >= n) {
			if (strtoull(user, NULL, 10) >= b->ids)
				return false;
		} else if (n && b->ids == 1 && (n != 4 || strncmp(user, "root", n) != 0)) {
			return false;
		}
		user += n + (user[n] == ':');
	}
	return true;
}

static bool all_fit(const struct bwrap *b, char *const *list)
{
	bool fit = true;

	for (; fit && list && *list; list++)
		fit = fits(b, *list);
	return fit;
}

static bool id_fits(const struct bwrap *b, uint32_t id)
{
	return id == SPEC_ID_NONE || id < b->ids;
}

/* The key of x-sandboxfs that names an id which there is not; NULL: none does. */
static const char *unfit_setup(const struct bwrap *b, const struct spec_x *x)
{
	bool one = b->ids == 1;

	for (size_t i = 0; i < x->n_users; i++)
		if (one || !id_fits(b, x->users[i].uid) || !id_fits(b, x->users[i].gid) ||
			!all_fit(b, x->users[i].groups))
			return "x-sandboxfs.users";
	for (size_t i = 0; i < x->n_groups; i++)
		if (one || !id_fits(b, x->groups[i].gid))
			return "x-sandboxfs.groups";
	for (size_t i = 0; i < x->n_files; i++)
		if (!fits(b, x->files[i].owner))
			return "x-sandboxfs.files";
	for (size_t i = 0; i < x->n_post_start; i++)
		if (!fits(b, x->post_start[i].user))
			return "x-sandboxfs.post_start";
	for (size_t i = 0; i < x->n_pre_stop; i++)
		if (!fits(b, x->pre_stop[i].user))
			return "x-sandboxfs.pre_stop";
	return NULL;
}

static int check_ids(const struct bwrap *b, const struct spec *spec, struct err *err)
{
	const char *key = NULL;
	char why[192] = "this machine grants one user id only; a line in /etc/subuid and "
			"/etc/subgid, and newuidmap (apt-get install uidmap), give a sandbox more";

	if (b->ids > 1)
		snprintf(why, sizeof(why), "a sandbox has the ids 0 to %u", b->ids - 1);
	if (!fits(b, spec->user))
		key = "user";
	else if ((b->ids == 1 && spec->group_add && *spec->group_add) ||
		 !all_fit(b, spec->group_add))
		key = "group_add";
	else
		key = unfit_setup(b, &spec->x);
	return key ? cannot(err, key, why) : 0;
}

static int check_never(const struct spec *spec, struct err *err)
{
	const char *device = spec->n_devices ? spec->devices[0].source : NULL;
	const char *quota = spec->storage_opt ? *spec->storage_opt : NULL;
	const char *net = spec->network_mode;
	const struct {
		const char *value; /* NULL: the template does not say it */
		const char *key, *why;
	} never[] = {{spec->build.context, "build", "it needs an engine that builds images"},
		{spec->n_ports ? "" : NULL, "ports",
			"it publishes none; ctl/ports/N reaches every port"},
		{spec->n_gpus ? "" : NULL, "gpus", "a sandbox gets no devices"},
		{device, "devices", "a sandbox gets no devices, and none by cdi"},
		{spec->runtime, "runtime", "it is its own"},
		{quota, "storage_opt", "it has no quotas"},
		{strcmp(net, "none") != 0 && strcmp(net, "host") != 0 ? net : NULL, "network_mode",
			"only none and host"}};

	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		if (never[i].value)
			return err_set(err, EOPNOTSUPP,
				"%s: the embedded engine (bwrap) cannot do this: %s%s%.200s",
				never[i].key, never[i].why, *never[i].value ? ": " : "",
				never[i].value);
	return 0;
}

/* As the kernel reads it for a tmpfs, but for a part of the memory in per cent. */
static bool is_size(const char *s, uint64_t *n)
{
	static const char units[] = "kmgtpe";
	const char *unit;
	unsigned bits;
	char *end;

	errno = 0;
	*n = strtoull(s, &end, 0);
	if (errno || !isdigit((unsigned char)*s))
		return false;
	if (!*end)
		return true;
	unit = strchr(units, tolower((unsigned char)*end));
	if (!unit || end[1])
		return false;
	bits = 10 * (unsigned)(unit - units + 1);
	if (*n > UINT64_MAX >> bits)
		return false;
	*n <<= bits;
	return true;
}

static bool is_mode(const char *s, unsigned *mode)
{
	*mode = (unsigned)strtoul(s, NULL, 8);
	return *s && strlen(s) <= 5 && strspn(s, "01234567") == strlen(s) && *mode <= 07777;
}

/* "/path" or "/path:size=64m,mode=1777": the others of mount's words are so anyway, or refused. */
int bwrap_parse_tmpfs(const char *text, struct bwrap_tmpfs *t, struct err *err)
{
	static const char *const so[] = {"rw", "nosuid", "nodev", "exec", "relatime", NULL};
	const char *options = strchrnul(text, ':');
	size_t n = (size_t)(options - text);
	cleanup_free char *copy = strdup(*options ? options + 1 : "");
	char *save = NULL;

	*t = (struct bwrap_tmpfs){.len = n, .mode = 01777};

	if (!copy)
		return err_set(err, ENOMEM, "out of memory");
	if (!spec_usable(text, n))
		return err_set(err, EINVAL, "nothing can be mounted at %.*s", (int)n, text);
	for (char *o = strtok_r(copy, ",", &save); o; o = strtok_r(NULL, ",", &save)) {
		bool known = false;

		for (const char *const *s = so; *s; s++)
			known |= strcmp(*s, o) == 0;
		if (strncmp(o, "size=", 5) == 0 && o[strlen(o) - 1] != '%') {
			if (!is_size(o + 5, &t->size))
				return err_set(err, EINVAL,
					"tmpfs: %s is no size: a number of bytes, or one with k, m "
					"or g",
					o);
		} else if (strncmp(o, "mode=", 5) == 0) {
			if (!is_mode(o + 5, &t->mode))
				return err_set(err, EINVAL,
					"tmpfs: %s is no mode: an octal number up to 7777", o);
		} else if (!known) {
			return cannot(err, "tmpfs", o);
		}
	}
	return 0;
}

int bwrap_check_spec(struct engine *e, const struct spec *spec, struct err *err)
{
	const struct bwrap *b = bwrap_of(e);
	struct bwrap_tmpfs ignored;
	int r = check_never(spec, err);

	if (r < 0)
		return r;
	if (!spec->working_dir ||
		(strcmp(spec->working_dir, "/") != 0 &&
			!spec_usable(spec->working_dir, strlen(spec->working_dir))))
		return err_set(err, EINVAL, "%s cannot be a working directory",
			spec->working_dir ? spec->working_dir : "nothing");
	r = check_security(spec, err);
	r = r < 0 ? r : check_limits(b, spec, err);
	r = r < 0 ? r : check_ulimits(spec, err);
	r = r < 0 ? r : check_platform(spec, err);
	r = r < 0 ? r : check_hosts(spec, err);
	r = r < 0 ? r : check_ids(b, spec, err);
	for (size_t i = 0; r == 0 && i < spec->n_volumes; i++)
		r = check_volume(&spec->volumes[i], err);
	for (char *const *t = spec->tmpfs; r == 0 && t && *t; t++)
		r = bwrap_parse_tmpfs(*t, &ignored, err);
	return r;
}
