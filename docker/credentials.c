/* SPDX-License-Identifier: MIT */
/*
 * config.json of the docker command: `credHelpers` and `credsStore` name helper programs, `auths`
 * has the secrets themselves. Nothing is kept; what was secret is wiped from what we allocated.
 */
#include "docker/credentials.h"

#include "common/cleanup.h"
#include "docker/config.h"
#include "docker/helper.h"
#include "docker/json.h"

#include <errno.h>
#include <string.h>

#define SECRET_MAX (256u << 10)
#define HUB	   "docker.io"
#define HUB_OLD	   "index.docker.io"
#define HUB_KEY	   "https://" HUB_OLD "/v1/"

/* The part before the first slash is a host where it could be no part of the Hub's names, which
 * have small letters only. */
char *credentials_registry(const char *image)
{
	size_t len = strcspn(image, "/"), plain = strcspn(image, ".:ABCDEFGHIJKLMNOPQRSTUVWXYZ/");

	if (!image[len] || (plain == len && strncmp(image, "localhost/", 10) != 0) ||
		!strncmp(image, HUB_OLD "/", sizeof(HUB_OLD)))
		return strdup(HUB);
	return strndup(image, len);
}

/* A key of `auths` is a host, or an address of which the host is a part. */
static bool same_host(const char *key, const char *registry)
{
	size_t len;

	if (!strcmp(registry, HUB))
		return !strcmp(key, HUB_KEY) || !strcmp(key, HUB) || !strcmp(key, HUB_OLD);
	if (!strncmp(key, "https://", 8))
		key += 8;
	else if (!strncmp(key, "http://", 7))
		key += 7;
	len = strcspn(key, "/");
	return len == strlen(registry) && !memcmp(key, registry, len);
}

/* The registry's own name goes before an address that leads there. */
static const cJSON *entry(const cJSON *map, const char *registry)
{
	const cJSON *e =
		cJSON_GetObjectItemCaseSensitive(map, strcmp(registry, HUB) ? registry : HUB_KEY);

	if (e)
		return e;
	cJSON_ArrayForEach (e, map)
		if (e->string && same_host(e->string, registry))
			return e;
	return NULL;
}

static int digit(char c)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(set, c) : NULL;

	return at ? (int)(at - set) : -1;
}

/* False where it is no base64. */
static bool decode(const char *s, struct buf *out)
{
	unsigned bits = 0, n = 0;

	for (; *s && *s != '='; s++) {
		int d = digit(*s);
		uint8_t byte;

		if (d < 0)
			return false;
		bits = (bits << 6 | (unsigned)d) & 0xffff;
		n += 6;
		if (n < 8)
			continue;
		n -= 8;
		byte = (uint8_t)(bits >> n);
		if (!byte || buf_append(out, &byte, 1))
			return false;
	}
	return s[strspn(s, "=")] == 0;
}

/* For a head: the alphabet of URLs, padded. */
static void encode(const char *s, size_t len, struct buf *out)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const uint8_t *p = (const uint8_t *)s;

	for (size_t i = 0; i < len; i += 3) {
		unsigned v = (unsigned)p[i] << 16 | (i + 1 < len ? (unsigned)p[i + 1] << 8 : 0) |
			     (i + 2 < len ? p[i + 2] : 0);
		char four[4] = {set[v >> 18], set[v >> 12 & 63],
			i + 1 < len ? set[v >> 6 & 63] : '=', i + 2 < len ? set[v & 63] : '='};

		buf_append(out, four, sizeof(four));
	}
}

/* What `auths` says: "auth" is base64 of USER:PASSWORD, and tokens stand by themselves. */
static int from_file(const cJSON *e, const char *registry, cJSON *to, struct err *err)
{
	static const char *const plain[] = {
		"username", "password", "identitytoken", "registrytoken"};
	const char *auth = json_string(e, "auth");
	struct json_builder b = {0};
	struct buf text;
	char *colon;
	int rc = 0;

	buf_init(&text, SECRET_MAX);
	if (auth && *auth) {
		colon = decode(auth, &text) && text.len ? strchr((char *)text.data, ':') : NULL;
		if (colon) {
			*colon = 0;
			json_add_string(&b, to, "username", (char *)text.data);
			json_add_string(&b, to, "password", colon + 1);
		} else {
			rc = err_set(err, EINVAL, "the \"auth\" kept for %s is no USER:PASSWORD",
				registry);
		}
	}
	buf_wipe(&text);
	for (size_t i = auth && *auth ? 2 : 0; i < sizeof(plain) / sizeof(*plain); i++) {
		const char *s = json_string(e, plain[i]);

		if (s && *s)
			json_add_string(&b, to, plain[i], s);
	}
	return b.bad ? err_set(err, ENOMEM, "out of memory") : rc;
}

static int from_helper(
	const char *name, const char *registry, cJSON *to, int stop_fd, struct err *err)
{
	const char *server = strcmp(registry, HUB) ? registry : HUB_KEY, *user, *secret;
	struct json_builder b = {0};
	cJSON *j = NULL;
	struct buf out;
	int rc;

	buf_init(&out, SECRET_MAX);
	rc = helper_get(name, server, stop_fd, &out, err);
	if (rc == 0)
		j = out.len ? cJSON_ParseWithLength((char *)out.data, out.len) : NULL;
	buf_wipe(&out);
	user = json_string(j, "Username");
	secret = json_string(j, "Secret");
	if (rc == 0 && (!user || !secret)) {
		rc = err_set(
			err, EPROTO, "docker-credential-%s gives no Username and Secret", name);
	} else if (rc == 0 && !strcmp(user, "<token>")) {
		json_add_string(&b, to, "identitytoken", secret);
	} else if (rc == 0) {
		json_add_string(&b, to, "username", user);
		json_add_string(&b, to, "password", secret);
	}
	config_wipe(j);
	cJSON_Delete(j);
	if (rc == -ENOENT)
		return 0;
	return b.bad ? err_set(err, ENOMEM, "out of memory") : rc;
}

/* What is kept for a registry, added to `to`; nothing where there is nothing. */
static int look_up(
	const cJSON *config, const char *registry, cJSON *to, int stop_fd, struct err *err)
{
	const cJSON *e = entry(json_object(config, "credHelpers"), registry);
	const char *helper = cJSON_IsString(e) ? e->valuestring : json_string(config, "credsStore");
	struct json_builder b = {0};
	int rc = 0;

	if (helper && *helper)
		rc = from_helper(helper, registry, to, stop_fd, err);
	else if ((e = entry(json_object(config, "auths"), registry)))
		rc = from_file(e, registry, to, err);
	if (rc == 0 && to->child)
		json_add_string(
			&b, to, "serveraddress", strcmp(registry, HUB) ? registry : HUB_KEY);
	return b.bad ? err_set(err, ENOMEM, "out of memory") : rc;
}

/* Encodes an object and wipes it. */
static int finish(cJSON *o, struct buf *out, struct err *err)
{
	char *text = o->child ? cJSON_PrintUnformatted(o) : NULL;
	bool some = o->child;

	config_wipe(o);
	if (text) {
		encode(text, strlen(text), out);
		explicit_bzero(text, strlen(text));
		cJSON_free(text);
	}
	if ((some && !text) || out->error)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

int credentials_header(
	const char *path, const char *registry, int stop_fd, struct buf *out, struct err *err)
{
	cleanup_json cJSON *config = NULL, *auth = cJSON_CreateObject();
	int rc;

	if (!auth)
		return err_set(err, ENOMEM, "out of memory");
	rc = config_load(path, &config, err);
	if (rc == 0 && config)
		rc = look_up(config, registry, auth, stop_fd, err);
	config_wipe(config);
	if (rc == 0)
		rc = finish(auth, out, err);
	config_wipe(auth);
	return rc;
}

int credentials_config(
	const char *path, char *const *registries, int stop_fd, struct buf *out, struct err *err)
{
	cleanup_json cJSON *config = NULL, *all = cJSON_CreateObject();
	struct json_builder b = {0};
	struct err later;
	int rc;

	if (!all)
		return err_set(err, ENOMEM, "out of memory");
	rc = config_load(path, &config, err);
	for (; config && *registries; registries++) {
		const char *key = strcmp(*registries, HUB) ? *registries : HUB_KEY;
		cJSON *auth = json_add_object(&b, all, key);
		int one = auth ? look_up(config, *registries, auth, stop_fd, rc ? &later : err)
			       : -ENOMEM;

		rc = rc ? rc : one;
		if (one)
			config_wipe(auth);
		if (auth && (one || !auth->child))
			cJSON_DeleteItemFromObjectCaseSensitive(all, key);
		if (one == -EINTR)
			break;
	}
	config_wipe(config);
	if (b.bad || finish(all, out, &later))
		rc = err_set(err, ENOMEM, "out of memory");
	config_wipe(all);
	return rc;
}
