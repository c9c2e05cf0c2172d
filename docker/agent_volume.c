/* SPDX-License-Identifier: MIT */
/*
 * The agent's volume. Its content is written through a container that is made and never started
 * (the filler); the filler's fixed name is the mutex between daemons. What a daemon killed half way
 * leaves is told from a full volume by looking, once a run: through the filler, by hash. A filler
 * that is older than any filling takes is a dead daemon's and is removed; should its owner be alive
 * after all, it finds its filler gone and starts again, and both would write the same bytes.
 *
 * a->lock is held while it is filled: whoever else needs the volume has to wait anyway.
 */
#include "docker/agent_volume.h"

#include "common/cleanup.h"
#include "docker/box.h"
#include "docker/json.h"
#include "docker/name.h"
#include "docker/sha256.h"
#include "docker/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define AGENT_MAX    (64u << 20)
#define HASH_IN_NAME 16
/* No sandbox's container is called so: "_f" is no escape of docker/name.h. */
#define FILLER	   NAME_PREFIX "_fill-"
#define FILLER_DIR "/sandboxfs-agent"
#define AGENT_MODE 0555
#define STALE_S	   10
#define WAIT_MS	   100
#define ROUNDS	   200
#define AT_MAX	   64u

struct agent_volume {
	struct buf program;
	char hash[SHA256_HEX + 1];
	char name[sizeof(SPEC_OUR_VOLUMES) + HASH_IN_NAME];
	char filler[sizeof(FILLER) + HASH_IN_NAME];
	pthread_mutex_t lock;
	/* protected by lock: when the volume that was looked into was made; "": none was */
	char verified[AT_MAX];
};

static int load(struct buf *b, const char *path, struct err *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return err_set(err, errno, "agent program %s: %m", path);
	rc = buf_read_fd(b, fd);
	if (rc)
		return err_set(err, -rc, "agent program %s: %s", path,
			rc == -E2BIG ? "too large" : strerror(-rc));
	return b->len ? 0 : err_set(err, ENOEXEC, "agent program %s is empty", path);
}

int agent_volume_new(const char *agent_path, struct agent_volume **out, struct err *err)
{
	struct agent_volume *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&a->lock, NULL);
	buf_init(&a->program, AGENT_MAX);
	rc = load(&a->program, agent_path, err);
	if (rc) {
		agent_volume_free(a);
		return rc;
	}
	sha256_hex(a->program.data, a->program.len, a->hash);
	snprintf(a->name, sizeof(a->name), "%s%.*s", SPEC_OUR_VOLUMES, HASH_IN_NAME, a->hash);
	snprintf(a->filler, sizeof(a->filler), "%s%.*s", FILLER, HASH_IN_NAME, a->hash);
	*out = a;
	return 0;
}

void agent_volume_free(struct agent_volume *a)
{
	if (!a)
		return;
	buf_fini(&a->program);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

const char *agent_volume_name(const struct agent_volume *a)
{
	return a->name;
}

/* When it was made, as the engine writes it. */
static int find_volume(struct agent_volume *a, struct http *h, char at[AT_MAX], struct err *err)
{
	cleanup_json cJSON *volume = NULL;
	char path[96];
	struct http_call c = {.method = "GET", .path = path};
	const char *s;
	int rc;

	snprintf(path, sizeof(path), "/volumes/%s", a->name);
	rc = http_json(h, &c, &volume, err);
	if (rc)
		return rc;
	s = json_string(volume, "CreatedAt");
	memset(at, 0, AT_MAX);
	snprintf(at, AT_MAX, "%s", s && *s ? s : "?");
	return 0;
}

/* Makes the volume, or finds it: the engine does not mind. */
static int make_volume(struct agent_volume *a, struct http *h, struct err *err)
{
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b);
	struct http_call c = {
		.method = "POST", .path = "/volumes/create", .json = body, .repeatable = true};
	struct http_reply r;
	int rc;

	json_add_string(&b, body, "Name", a->name);
	json_add_string(&b, body, "Driver", "local");
	json_add_string(&b, json_add_object(&b, body, "Labels"), "sandboxfs.agent", "1");
	if (b.bad)
		return err_set(err, ENOMEM, "out of memory");
	rc = http_call(h, &c, &r, err);
	http_reply_fini(&r);
	return rc;
}

static int make_filler(
	struct agent_volume *a, struct http *h, const char *image, char id[65], struct err *err)
{
	struct json_builder b = {0};
	cleanup_json cJSON *body = json_new(&b), *answer = NULL;
	char path[128];
	struct http_call c = {.method = "POST", .path = path, .json = body};
	cJSON *host, *mount;
	const char *got;
	int rc;

	snprintf(path, sizeof(path), "/containers/create?name=%s", a->filler);
	json_add_string(&b, body, "Image", image);
	json_add_string(&b, json_add_array(&b, body, "Entrypoint"), NULL, "/never-started");
	json_add_string(&b, json_add_object(&b, body, "Labels"), "sandboxfs.fill", "1");
	host = json_add_object(&b, body, "HostConfig");
	json_add_string(&b, host, "NetworkMode", "none");
	mount = json_add_object(&b, json_add_array(&b, host, "Mounts"), NULL);
	json_add_string(&b, mount, "Type", "volume");
	json_add_string(&b, mount, "Source", a->name);
	json_add_string(&b, mount, "Target", FILLER_DIR);
	json_add_bool(&b, json_add_object(&b, mount, "VolumeOptions"), "NoCopy", true);
	if (b.bad)
		return err_set(err, ENOMEM, "out of memory");
	rc = http_json(h, &c, &answer, err);
	if (rc)
		return rc;
	got = json_string(answer, "Id");
	if (!name_is_id(got))
		return err_set(err, EPROTO, "the engine made a container without an id");
	snprintf(id, 65, "%s", got);
	return 0;
}

/* v=1: an image may declare volumes of its own; the named one stays. */
static int drop(struct http *h, const char *filler, struct err *err)
{
	char path[160];
	struct http_call c = {.method = "DELETE", .path = path, .repeatable = true};
	struct http_reply r;
	int rc;

	snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", filler);
	rc = http_call(h, &c, &r, err);
	http_reply_fini(&r);
	return r.status == 404 || r.status == 409 ? 0 : rc;
}

/* Someone else fills. Clears away what a dead daemon left. */
static int clear_stale(struct agent_volume *a, struct http *h, struct err *err)
{
	cleanup_json cJSON *j = NULL;
	struct http_reply r;
	char path[160];
	struct http_call c = {.method = "GET", .path = path};
	const char *id;
	int64_t made;
	int rc;

	snprintf(path, sizeof(path), "/containers/%s/json", a->filler);
	rc = http_call(h, &c, &r, err);
	if (!rc && r.body.len)
		j = cJSON_ParseWithLength((char *)r.body.data, r.body.len);
	http_reply_fini(&r);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	made = box_time(json_string(j, "Created"));
	id = json_string(j, "Id");
	/* Both times are the engine's. By id: the name may be another's by now. */
	if (name_is_id(id) && made >= 0 && r.date && r.date - made > STALE_S)
		return drop(h, id, err);
	return 0;
}

static int put_agent(struct agent_volume *a, struct http *h, const char *id, struct err *err)
{
	struct http_call c = {.method = "PUT", .type = "application/x-tar", .repeatable = true};
	struct http_reply r;
	char path[160];
	struct buf tar;
	int rc;

	snprintf(path, sizeof(path), "/containers/%s/archive?path=%s", id, FILLER_DIR);
	buf_init(&tar, AGENT_MAX + 65536);
	rc = tar_make("agent", AGENT_MODE, a->program.data, a->program.len, &tar, err);
	if (!rc) {
		c.path = path;
		c.body = tar.data;
		c.len = tar.len;
		rc = http_call(h, &c, &r, err);
		http_reply_fini(&r);
	}
	buf_fini(&tar);
	return rc;
}

/* 1: it holds the agent; 0: it does not. -ENOENT: there is no such container (any more). */
static int look(struct agent_volume *a, struct http *h, const char *id, struct err *err)
{
	char path[160], hash[SHA256_HEX + 1];
	struct http_call c = {.method = "GET", .path = path, .max = AGENT_MAX + 65536};
	struct http_reply r;
	struct buf file;
	mode_t mode = 0;
	int rc;

	snprintf(path, sizeof(path), "/containers/%s/archive?path=%s/agent", id, FILLER_DIR);
	rc = http_call(h, &c, &r, err);
	if (rc == -ENOENT && r.body.len && !strcasestr((char *)r.body.data, "no such container")) {
		http_reply_fini(&r);
		return 0;
	}
	buf_init(&file, AGENT_MAX + 65536);
	if (!rc)
		rc = tar_read(r.body.data, r.body.len, &file, &mode, NULL) == 0;
	if (rc > 0) {
		sha256_hex(file.data, file.len, hash);
		rc = mode == AGENT_MODE && !strcmp(hash, a->hash);
	}
	buf_fini(&file);
	http_reply_fini(&r);
	return rc;
}

static int fill(struct agent_volume *a, struct http *h, const char *id, struct err *err)
{
	int rc = look(a, h, id, err);

	if (rc)
		return rc < 0 ? rc : 0;
	rc = put_agent(a, h, id, err);
	if (rc)
		return rc;
	rc = look(a, h, id, err);
	if (rc)
		return rc < 0 ? rc : 0;
	return err_set(err, EIO, "the agent does not arrive whole in volume %s", a->name);
}

/* One round; *again: another daemon was in the way. */
static int fill_once(
	struct agent_volume *a, struct http *h, const char *image, bool *again, struct err *err)
{
	char id[65], at[AT_MAX];
	int rc;

	*again = false;
	rc = make_volume(a, h, err);
	if (rc)
		return rc;
	rc = make_filler(a, h, image, id, err);
	if (rc == -EBUSY) {
		*again = true;
		return clear_stale(a, h, err);
	}
	if (rc)
		return rc;
	rc = fill(a, h, id, err);
	/* Read only now: it moves when a file is made in the volume. The filler keeps it from being
	 * removed until then. */
	rc = rc ? rc : find_volume(a, h, at, err);
	*again = rc == -ENOENT; /* the filler was taken away */
	drop(h, id, NULL);
	if (!rc)
		memcpy(a->verified, at, sizeof(at));
	return *again ? 0 : rc;
}

/* 1: it is still the volume that was looked into; one that was removed and made anew is empty. */
static int unchanged(struct agent_volume *a, struct http *h, const char *verified, struct err *err)
{
	char at[AT_MAX];
	int rc;

	if (!verified[0])
		return 0;
	rc = find_volume(a, h, at, err);
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	return !strcmp(at, verified);
}

int agent_volume_ensure(struct agent_volume *a, struct http *h, const char *image, struct err *err)
{
	struct timespec moment = {.tv_nsec = WAIT_MS * 1000000L};
	char verified[AT_MAX];
	bool again = true;
	int rc;

	pthread_mutex_lock(&a->lock);
	memcpy(verified, a->verified, sizeof(verified));
	pthread_mutex_unlock(&a->lock);
	rc = unchanged(a, h, verified, err);
	if (rc)
		return rc < 0 ? rc : 0;
	pthread_mutex_lock(&a->lock);
	if (!strcmp(verified, a->verified)) /* else another thread has just done it */
		a->verified[0] = 0;
	for (int i = 0; !rc && !a->verified[0] && again && i < ROUNDS; i++) {
		if (i) /* whatever was in the way needs its time */
			nanosleep(&moment, NULL);
		rc = fill_once(a, h, image, &again, err);
	}
	if (!rc && !a->verified[0])
		rc = err_set(
			err, EBUSY, "container %s is in the way of the agent's volume", a->filler);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

void agent_volume_doubt(struct agent_volume *a)
{
	pthread_mutex_lock(&a->lock);
	a->verified[0] = 0;
	pthread_mutex_unlock(&a->lock);
}
