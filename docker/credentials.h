/* SPDX-License-Identifier: MIT */
/* Who we are to a registry, as the docker command's config.json says. Read anew each time: a login
 * made meanwhile counts. Any thread. */
#pragma once

#include "common/buf.h"
#include "common/err.h"

/* Host and port of the registry that an image's name leads to; "docker.io" where it names none. A
 * new string, or NULL. */
char *credentials_registry(const char *image);

/* Appends the value of X-Registry-Auth for a registry, or nothing where none are kept; config is
 * the path of config.json. May run a
 * helper program, for some seconds at most; stop_fd ends that (-EINTR). On failure nothing is
 * appended, and err says why: a pull can be tried without. */
int credentials_header(
	const char *config, const char *registry, int stop_fd, struct buf *out, struct err *err);

/* The same of several for X-Registry-Config: of a list that ends in NULL. Those that can be had are
 * appended also where it fails; err tells of the first that cannot. */
int credentials_config(
	const char *config, char *const *registries, int stop_fd, struct buf *out, struct err *err);
