/* SPDX-License-Identifier: MIT */
/* The engine's JSON about one container, checked field by field. Any thread. */
#include "docker/box.h"

#include "common/log.h"
#include "docker/docker.h"
#include "docker/json.h"
#include "docker/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t box_time(const char *s)
{
	struct tm tm = {0};
	const char *p = s ? strptime(s, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	int hours, minutes, used = 0, offset = 0;

	if (!p)
		return -1;
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	if (*p == '+' || *p == '-') {
		if (sscanf(p + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || p[1 + used])
			return -1;
		offset = (hours * 60 + minutes) * (*p == '-' ? -60 : 60);
	} else if (strcmp(p, "Z") != 0) {
		return -1;
	}
	return (int64_t)timegm(&tm) - offset;
}

/* Docker's words, then Podman's. One that is new must not spoil the whole list. */
static int state_of(const char *s, enum engine_state *state)
{
	static const struct {
		const char *word;
		enum engine_state state;
	} words[] = {{"created", ENGINE_CREATED}, {"running", ENGINE_RUNNING},
		{"paused", ENGINE_PAUSED}, {"restarting", ENGINE_RUNNING},
		{"exited", ENGINE_EXITED}, {"removing", ENGINE_GONE}, {"dead", ENGINE_GONE},
		{"configured", ENGINE_CREATED}, {"initialized", ENGINE_CREATED},
		{"stopping", ENGINE_RUNNING}, {"stopped", ENGINE_EXITED}};

	if (!s || !*s)
		return -EPROTO;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strcmp(s, words[i].word) != 0)
			continue;
		*state = words[i].state;
		return 0;
	}
	log_info("engine: a container is \"%.32s\", whatever that is: as if it had ended", s);
	*state = ENGINE_EXITED;
	return 0;
}

static bool owner_of(const cJSON *labels, uint32_t *owner)
{
	const char *s = json_string(labels, LABEL_OWNER);
	unsigned long v;
	char *end;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || v > UINT32_MAX)
		return false;
	*owner = (uint32_t)v;
	return true;
}

static char *text(const char *s)
{
	return strdup(s ? s : "");
}

/* What both answers have, each in its own place. */
static int fill(struct engine_box *box, const char *namespace, const char *id, const char *name,
	const cJSON *labels, const char *image_id, const char *state, struct err *err)
{
	const char *ns = json_string(labels, LABEL_NAMESPACE);
	int rc;

	if (!name_is_id(id) || !name)
		return err_set(err, EPROTO, "the engine describes a container without id or name");
	if (!ns || strcmp(ns, namespace) != 0 || !owner_of(labels, &box->owner))
		return err_set(err, ENOENT, "container %.12s is no sandbox of this namespace", id);
	rc = name_decode(name + (*name == '/'), namespace, &box->name, &box->mark);
	if (rc == -ENOMEM)
		return err_set(err, ENOMEM, "out of memory");
	if (rc)
		return err_set(err, ENOENT, "container %.12s has no sandbox's name", id);
	if (state_of(state, &box->state))
		return err_set(err, EPROTO, "container %.12s is in no state", id);
	box->id = strdup(id);
	box->template = text(json_string(labels, LABEL_TEMPLATE));
	box->config = text(json_string(labels, LABEL_CONFIG));
	box->image_id = text(image_id);
	if (!box->id || !box->template || !box->config || !box->image_id)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

/* One published port, where it is a sound one; a later one for the same port inside only if it is
 * on 127.0.0.1. ip and the numbers are the engine's words. */
static int add_port(struct engine_box *box, int64_t inside, const char *ip, int64_t outside)
{
	struct engine_port *p = box->ports, *more;
	const struct engine_port *end = p + box->n_ports;

	if (inside < 1 || inside > 65535 || outside < 1 || outside > 65535 || !ip ||
		strlen(ip) > 45 || strspn(ip, "0123456789abcdefABCDEF:.") != strlen(ip))
		return 0;
	while (p < end && p->port != inside)
		p++;
	if (p < end && strcmp(ip, "127.0.0.1") != 0)
		return 0;
	if (p == end) {
		more = realloc(box->ports, (box->n_ports + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		box->ports = more;
		p = &more[box->n_ports++];
	}
	p->port = (uint16_t)inside;
	snprintf(p->address, sizeof(p->address), strchr(ip, ':') ? "[%s]:%d" : "%s:%d",
		*ip ? ip : "0.0.0.0", (int)outside);
	return 0;
}

/* {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "49153"}], "53/udp": null} */
static int inspect_ports(struct engine_box *box, const cJSON *ports)
{
	int rc = 0;

	for (const cJSON *p = ports ? ports->child : NULL; p && !rc; p = p->next) {
		char *end = NULL;
		long inside = p->string ? strtol(p->string, &end, 10) : 0;

		if (!end || strcmp(end, "/tcp") != 0 || !cJSON_IsArray(p))
			continue;
		for (const cJSON *b = p->child; b && !rc; b = b->next) {
			const char *number = json_string(b, "HostPort");

			rc = add_port(box, inside, json_string(b, "HostIp"),
				number ? strtol(number, NULL, 10) : 0);
		}
	}
	return rc;
}

/* [{"IP": "127.0.0.1", "PrivatePort": 8080, "PublicPort": 49153, "Type": "tcp"}] */
static int list_ports(struct engine_box *box, const cJSON *ports)
{
	int rc = 0;

	for (const cJSON *p = ports ? ports->child : NULL; p && !rc; p = p->next) {
		const char *type = json_string(p, "Type");
		int64_t inside = 0, outside = 0;

		if (!type || strcmp(type, "tcp") != 0 || !json_int(p, "PrivatePort", &inside) ||
			!json_int(p, "PublicPort", &outside))
			continue;
		rc = add_port(box, inside, json_string(p, "IP"), outside);
	}
	return rc;
}

static int finish(int rc, struct engine_box *b, struct engine_box *box, struct err *err)
{
	if (!rc && !b->error)
		rc = err_set(err, ENOMEM, "out of memory");
	if (rc)
		engine_box_fini(b);
	else
		*box = *b;
	return rc;
}

int box_from_inspect(const cJSON *j, const char *namespace, struct engine_box *box, struct err *err)
{
	const cJSON *state = json_object(j, "State");
	struct engine_box b = {.detailed = true};
	int64_t code = 0;
	int rc;

	rc = fill(&b, namespace, json_string(j, "Id"), json_string(j, "Name"),
		json_object(json_object(j, "Config"), "Labels"), json_string(j, "Image"),
		json_string(state, "Status"), err);
	if (!rc) {
		b.created = box_time(json_string(j, "Created"));
		json_int(state, "ExitCode", &code);
		b.exit_code = code >= 0 && code <= 255 ? (int)code : 255;
		b.oom = json_true(state, "OOMKilled");
		b.error = text(json_string(state, "Error"));
		box_limits(json_object(j, "HostConfig"), &b.limits);
		if (inspect_ports(&b, json_object(json_object(j, "NetworkSettings"), "Ports")) < 0)
			rc = err_set(err, ENOMEM, "out of memory");
		if (b.created < 0)
			rc = err_set(err, EPROTO, "container %.12s has no time of creation", b.id);
	}
	return finish(rc, &b, box, err);
}

int box_from_list(const cJSON *j, const char *namespace, struct engine_box *box, struct err *err)
{
	const cJSON *names = json_array(j, "Names");
	const char *name = NULL;
	struct engine_box b = {0};
	int rc;

	/* Links between containers add names with a second '/'; ours is the one without. */
	for (const cJSON *n = names ? names->child : NULL; n && !name; n = n->next)
		if (cJSON_IsString(n) && *n->valuestring && !strchr(n->valuestring + 1, '/'))
			name = n->valuestring;
	/* One under removal may have lost its name already. */
	if (!name)
		return err_set(err, ENOENT, "the engine lists a container without a name");
	rc = fill(&b, namespace, json_string(j, "Id"), name, json_object(j, "Labels"),
		json_string(j, "ImageID"), json_string(j, "State"), err);
	if (!rc && !json_int(j, "Created", &b.created))
		rc = err_set(err, EPROTO, "container %.12s has no time of creation", b.id);
	b.error = text("");
	if (!rc && list_ports(&b, json_array(j, "Ports")) < 0)
		rc = err_set(err, ENOMEM, "out of memory");
	return finish(rc, &b, box, err);
}
