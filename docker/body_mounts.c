/* SPDX-License-Identifier: MIT */
/* What a container has mounted: our own, the template's volumes, tmpfs. Any thread. */
#include "docker/body_parts.h"

#include "docker/docker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_VOLUME "sandboxfs.volume"

static int check_target(const char *target, size_t len, struct err *err)
{
	if (!spec_usable(target, len))
		return err_set(err, EINVAL, "nothing can be mounted at %.*s", (int)len, target);
	return 0;
}

/* source NULL: anonymous, and gone with the container. */
static cJSON *add_mount(struct json_builder *b, cJSON *mounts, const char *type, const char *source,
	const char *target, bool read_only)
{
	cJSON *m = json_add_object(b, mounts, NULL);

	json_add_string(b, m, "Type", type);
	if (source)
		json_add_string(b, m, "Source", source);
	json_add_string(b, m, "Target", target);
	json_add_bool(b, m, "ReadOnly", read_only);
	return m;
}

static void add_own(struct json_builder *b, cJSON *mounts, const char *source, const char *target,
	bool read_only)
{
	cJSON *m = add_mount(b, mounts, "volume", source, target, read_only);

	json_add_bool(b, json_add_object(b, m, "VolumeOptions"), "NoCopy", true);
}

/* One of ours has no name: the engine makes it with the container, and removes it with that. */
static void add_volume(struct json_builder *b, cJSON *mounts, const struct spec_volume *v)
{
	cJSON *m =
		add_mount(b, mounts, "volume", v->ours ? NULL : v->source, v->target, v->read_only);
	cJSON *o;

	if (!v->nocopy && !v->subpath && !v->ours)
		return;
	o = json_add_object(b, m, "VolumeOptions");
	if (v->nocopy)
		json_add_bool(b, o, "NoCopy", true);
	if (v->subpath)
		json_add_string(b, o, "Subpath", v->subpath);
	if (v->ours) {
		cJSON *labels = json_add_object(b, o, "Labels"),
		      *driver = json_add_object(b, o, "DriverConfig");

		body_add_pairs(b, labels, v->labels);
		json_add_string(b, labels, LABEL_VOLUME, v->source ? v->source : "");
		json_add_string(b, driver, "Name", v->driver ? v->driver : "local");
		body_add_pairs(b, json_add_object(b, driver, "Options"), v->driver_opts);
	}
}

static void add_tmpfs_mount(struct json_builder *b, cJSON *mounts, const struct spec_volume *v)
{
	cJSON *m = add_mount(b, mounts, "tmpfs", NULL, v->target, v->read_only), *o;

	if (!v->tmpfs_size && !v->tmpfs_mode)
		return;
	o = json_add_object(b, m, "TmpfsOptions");
	if (v->tmpfs_size)
		json_add_uint(b, o, "SizeBytes", v->tmpfs_size);
	if (v->tmpfs_mode)
		json_add_uint(b, o, "Mode", v->tmpfs_mode);
}

static int check_volume(const struct spec_volume *v, struct err *err)
{
	int rc = check_target(v->target, strlen(v->target), err);

	if (rc)
		return rc;
	if (v->type == SPEC_BIND)
		return v->source && *v->source == '/'
			       ? 0
			       : err_set(err, EINVAL, "the bind at %s has no source", v->target);
	/* The template has been asked already; this is what the engine gets. */
	if (v->source && !strncmp(v->source, SPEC_OUR_VOLUMES, strlen(SPEC_OUR_VOLUMES)))
		return err_set(err, EINVAL, "volume %s belongs to sandboxfs", v->source);
	if (v->source && (!*v->source || strchr(v->source, '/')))
		return err_set(err, EINVAL, "%s is no name of a volume", v->source);
	return 0;
}

static int add_volumes(struct json_builder *b, cJSON *mounts, const struct spec *spec,
	bool *covered, struct err *err)
{
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const struct spec_volume *v = &spec->volumes[i];
		int rc = check_volume(v, err);

		if (rc)
			return rc;
		if (v->type == SPEC_VOLUME) {
			add_volume(b, mounts, v);
		} else if (v->type == SPEC_TMPFS) {
			add_tmpfs_mount(b, mounts, v);
		} else {
			cJSON *m = add_mount(b, mounts, "bind", v->source, v->target, v->read_only);

			if (v->propagation)
				json_add_string(b, json_add_object(b, m, "BindOptions"),
					"Propagation", v->propagation);
		}
		if (spec_beneath(spec->working_dir, v->target, strlen(v->target)))
			*covered = true;
	}
	return 0;
}

static int add_tmpfs(struct json_builder *b, cJSON *host, const struct spec *spec, bool *covered,
	struct err *err)
{
	cJSON *map = json_add_object(b, host, "Tmpfs");

	for (char *const *p = spec->tmpfs; p && *p; p++) {
		const char *options = strchrnul(*p, ':');
		size_t len = (size_t)(options - *p);
		char *path;
		int rc = check_target(*p, len, err);

		if (rc)
			return rc;
		path = strndup(*p, len);
		if (!path)
			return err_set(err, ENOMEM, "out of memory");
		json_add_string(b, map, path, *options ? options + 1 : "");
		free(path);
		if (spec_beneath(spec->working_dir, *p, len))
			*covered = true;
	}
	return 0;
}

int body_add_mounts(struct json_builder *b, cJSON *host, const struct spec *spec,
	const char *agent_volume, struct err *err)
{
	cJSON *mounts = json_add_array(b, host, "Mounts");
	bool covered = false;
	int rc;

	add_own(b, mounts, agent_volume, SPEC_OURS "/bin", true);
	add_own(b, mounts, NULL, ENGINE_STATE_DIR, false);
	rc = add_volumes(b, mounts, spec, &covered, err);
	rc = rc ? rc : add_tmpfs(b, host, spec, &covered, err);
	if (!rc && spec->read_only && !covered)
		add_mount(b, mounts, "volume", NULL, spec->working_dir, false);
	return rc;
}
