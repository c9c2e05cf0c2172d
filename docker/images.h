/* SPDX-License-Identifier: MIT */
/* Images: what the other files of this folder ask of docker/images.c. */
#pragma once

#include "docker/docker.h"

/* The user that the image names, a new string in *user; "0" if it names none. -ENOENT: no image. */
int image_user(struct docker *d, const char *image, char **user, struct err *err);

/* A reference in the two parts of a pull: "host:5000/a/b:tag" to name and tag ("latest" if none);
 * a digest stays with the name, and the tag is "" then. New strings. */
int image_split(const char *image, char **name, char **tag);
