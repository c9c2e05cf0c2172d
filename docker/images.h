/* SPDX-License-Identifier: MIT */
/* Images: what the other files of this folder ask of docker/images.c. */
#pragma once

#include "docker/docker.h"
#include "docker/objects.h"

/* The user that the image names, a new string in *user; "0" if it names none. -ENOENT: no image. */
int image_user(struct docker *d, const char *image, char **user, struct err *err);

/* A reference in the two parts of a pull: "host:5000/a/b:tag" to name and tag ("latest" if none);
 * a digest stays with the name, and the tag is "" then. New strings. */
int image_split(const char *image, char **name, char **tag);

/* For streams that tell of an image: pulls and builds. The code that an engine's words stand for.
 */
int image_failure(const char *words, struct err *err);
/* Feeds o; `what` ("pull") is for words. */
int image_feed(struct objects *o, const void *data, size_t n, const char *what, struct err *err);
/* What the end of a stream, of which follow() said rc, comes to. */
int image_end(const struct objects *o, int rc, int stop_fd, const char *what, struct err *err);
/* Adds to the words of a failure why credentials could not be had, if so. */
void image_told(const struct err *why, struct err *err);
