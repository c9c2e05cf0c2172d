/* SPDX-License-Identifier: MIT */
/* The keys of a template, by topic: only for template*.c. */
#pragma once

#include "sandbox/template_value.h"

/* Puts each key of root, an object, into p->spec. The first that is unknown, double or of the wrong
 * form ends it, and err names it. Then what must fit together. */
int template_set_keys(struct template_parse *p, const cJSON *root);

/* template_ports.c; to is the spec */
int key_ports(struct template_parse *p, const cJSON *j, void *to);
int key_dns(struct template_parse *p, const cJSON *j, void *to);
int key_extra_hosts(struct template_parse *p, const cJSON *j, void *to);
int key_network_mode(struct template_parse *p, const cJSON *j, void *to);
/* template_volumes.c */
int key_volumes(struct template_parse *p, const cJSON *j, void *to);
int key_tmpfs(struct template_parse *p, const cJSON *j, void *to);
int key_build(struct template_parse *p, const cJSON *j, void *to);
int key_declared(struct template_parse *p, const cJSON *j, void *to); /* x-sandboxfs.volumes */
/* Joins the volumes with what x-sandboxfs says of them. */
int volumes_settle(struct template_parse *p);
/* template_devices.c */
int key_ulimits(struct template_parse *p, const cJSON *j, void *to);
int key_devices(struct template_parse *p, const cJSON *j, void *to);
int key_gpus(struct template_parse *p, const cJSON *j, void *to);
/* template_x.c */
int key_x(struct template_parse *p, const cJSON *j, void *to);
/* template_setup.c; to is the spec's x */
int key_files(struct template_parse *p, const cJSON *j, void *to);
int key_users(struct template_parse *p, const cJSON *j, void *to);
int key_groups(struct template_parse *p, const cJSON *j, void *to);
int key_post_start(struct template_parse *p, const cJSON *j, void *to);
int key_pre_stop(struct template_parse *p, const cJSON *j, void *to);

/* template_show.c: the spec as JSON, for spec->config. NULL: out of memory. */
cJSON *template_show(const struct spec *spec);

/* [A-Za-z0-9][A-Za-z0-9_.-]* of n bytes. */
bool template_is_name(const char *s, size_t n);
