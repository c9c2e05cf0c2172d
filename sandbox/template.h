/* SPDX-License-Identifier: MIT */
/* Templates: JSON with the keys of a Compose service, resolved into a struct spec. No I/O but the
 * reading of template files; no engine. Any thread. */
#pragma once

#include "common/err.h"
#include "sandbox/engine.h"

/* The parts of a sandbox's directory name: NAME, TEMPLATE@NAME or NAME:TAG@NAME. -EINVAL with words
 * if it is none of these. *template is a new string ("default" if none is named), or the
 * snapshot "NAME:TAG" with *snapshot set. */
int template_split(const char *dirname, char **template, bool *snapshot, struct err *err);

/* Finds template `name` in dirs (a NULL-terminated list of directories; `name`.json in the first
 * that has it, else the built-in `default`) and resolves it. default_image (may be NULL) stands in
 * where `default` names no image. -ENOENT: no such template. -EINVAL: a bad one; err names
 * the key. Fills everything in spec but namespace, name and owner. */
int template_resolve(const char *name, const char *const *dirs, const char *default_image,
	struct spec *spec, struct err *err);

/* The same from text, for tests and the fuzzer. */
int template_parse(const char *name, const char *text, size_t len, const char *default_image,
	struct spec *spec, struct err *err);
