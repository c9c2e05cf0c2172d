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

/* What a mount says of its templates. Borrowed; NULL: none. */
struct template_rules {
	const char *const *dirs;	/* where NAME.json is looked for, in this order */
	const char *image;		/* of templates that name none; NULL: the built-in */
	const char *const *allow_binds; /* paths below which a template may use this machine */
	unsigned no_limits;		/* ENGINE_LIMIT_*: not even by default */
};

/* Finds template `name` in the rules' directories, else the built-in `default`, and resolves it.
 * -ENOENT: no such template. -EINVAL: a bad one, -EPERM: one that asks for what the mount does
 * not allow; err names the key. Fills everything in spec but namespace, name and owner. */
int template_resolve(
	const char *name, const struct template_rules *rules, struct spec *spec, struct err *err);

/* The same from text. */
int template_parse(const char *name, const char *text, size_t len,
	const struct template_rules *rules, struct spec *spec, struct err *err);
