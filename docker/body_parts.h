/* SPDX-License-Identifier: MIT */
/* The parts of the body of "create container", by file: only for body*.c. Pure. */
#pragma once

#include "common/err.h"
#include "docker/body.h"
#include "sandbox/engine.h"

/* body_mounts.c */
int body_add_mounts(struct json_builder *b, cJSON *host, const struct spec *spec,
	const char *agent_volume, struct err *err);

/* body_host.c: ports, names, limits, devices. */
void body_add_ports(struct json_builder *b, cJSON *body, cJSON *host, const struct spec *spec);
void body_add_limits(struct json_builder *b, cJSON *host, const struct spec *spec);
void body_add_devices(struct json_builder *b, cJSON *host, const struct spec *spec);
void body_add_security(struct json_builder *b, cJSON *host, const struct spec *spec);
