/* SPDX-License-Identifier: MIT */
/*
 * The docker command's current context: its name from DOCKER_CONTEXT or config.json, its address
 * from contexts/meta/HASH/meta.json, its TLS files in contexts/tls/HASH/docker; HASH is the name's
 * SHA-256. Called once, at the mount.
 */
#include "common/cleanup.h"
#include "docker/config.h"
#include "docker/json.h"
#include "docker/places.h"
#include "docker/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static inline void cleanup_placep(struct engine_place *p)
{
	engine_place_fini(p);
}

/* As docker has it: it goes into words that are one line. */
static bool good_name(const char *s)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	static const char more[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-";

	return strspn(s, letters) && strlen(s) <= 255 && !s[strspn(s, more)];
}

/* currentContext, a new string; NULL: none. */
static int configured(char **name, struct err *err)
{
	cleanup_free char *path = config_path("config.json");
	cJSON *config = NULL;
	const cJSON *item;
	int rc = path ? config_load(path, &config, err) : err_set(err, ENOMEM, "out of memory");

	if (rc)
		return rc;
	item = cJSON_GetObjectItemCaseSensitive(config, "currentContext");
	if (item && !cJSON_IsString(item))
		rc = err_set(err, EINVAL, "%s: \"currentContext\" is no text", path);
	else if (item && !(*name = strdup(item->valuestring)))
		rc = err_set(err, ENOMEM, "out of memory");
	config_wipe(config);
	cJSON_Delete(config);
	return rc;
}

/* -ENOENT: none but the default, which is no context of anybody's. */
static int current(char **name, struct err *err)
{
	const char *env = getenv("DOCKER_CONTEXT");
	cleanup_free char *found = NULL;
	int rc = 0;

	if (env && *env) {
		found = strdup(env);
		rc = found ? 0 : err_set(err, ENOMEM, "out of memory");
	} else {
		rc = configured(&found, err);
	}
	if (rc)
		return rc;
	if (!found || !*found || !strcmp(found, "default")) {
		err_set(err, ENOENT, "none is chosen");
		return -ENOENT;
	}
	*name = steal_ptr(&found);
	return 0;
}

/* contexts/KIND/HASH/FILE */
static char *context_file(const char *kind, const char *name, const char *file)
{
	char hash[SHA256_HEX + 1];
	cleanup_free char *below = NULL;

	sha256_hex(name, strlen(name), hash);
	if (asprintf(&below, "contexts/%s/%s/%s", kind, hash, file) < 0)
		return NULL;
	return config_path(below);
}

/* Each of the files may be missing; with none of them there is no TLS. */
static int context_tls(const char *name, struct engine_place *p, struct err *err)
{
	static const char *const files[] = {"docker/ca.pem", "docker/cert.pem", "docker/key.pem"};
	char **const to[] = {&p->ca, &p->cert, &p->key};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		cleanup_free char *path = context_file("tls", name, files[i]);

		if (!path)
			return err_set(err, ENOMEM, "out of memory");
		if (access(path, R_OK) == 0) {
			*to[i] = steal_ptr(&path);
			p->tls = true;
		} else if (errno != ENOENT && errno != ENOTDIR) {
			return err_set(err, errno, "%s: %m", path);
		}
	}
	return 0;
}

static int read_meta(const char *name, struct engine_place *p, struct err *err)
{
	cleanup_free char *path = context_file("meta", name, "meta.json");
	cleanup_json cJSON *meta = NULL;
	const cJSON *docker;
	const char *host;
	int rc = path ? config_load(path, &meta, err) : err_set(err, ENOMEM, "out of memory");

	if (rc)
		return rc;
	if (!meta)
		return err_set(err, EINVAL, "there is no %s", path);
	docker = json_object(json_object(meta, "Endpoints"), "docker");
	host = json_string(docker, "Host");
	if (!host || !*host)
		return err_set(err, EINVAL, "%s names no Endpoints.docker.Host", path);
	p->tls = p->unverified = json_true(docker, "SkipTLSVerify");
	p->host = strdup(host);
	return p->host ? context_tls(name, p, err) : err_set(err, ENOMEM, "out of memory");
}

int docker_place_context(const char *host, struct engine_place *place, struct err *err)
{
	__attribute__((cleanup(cleanup_placep))) struct engine_place p = {0};
	cleanup_free char *name = NULL;
	int rc = current(&name, err);

	(void)host;
	if (rc)
		return rc;
	if (!good_name(name))
		return err_set(err, EINVAL, "%.64s is no name of a context", name);
	if (read_meta(name, &p, err))
		return err_prefix(err, "context %s", name);
	if (place_add_port(&p))
		return err_set(err, ENOMEM, "out of memory");
	if (asprintf(&p.why, "the current docker context, %s, names it", name) < 0)
		return err_set(err, ENOMEM, "out of memory");
	*place = p;
	p = (struct engine_place){0};
	return 0;
}
