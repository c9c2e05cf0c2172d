/* SPDX-License-Identifier: MIT */
/* Users and groups of the setup, in the sandbox's own passwd, group and shadow files. */
#pragma once

#include "agent/setup_record.h"
#include "common/err.h"

struct accounts;

/* The files as they are. NULL: err says why. */
struct accounts *accounts_open(int root_fd, struct err *err);
/* A GROUP or USER record. */
int accounts_add(struct accounts *a, const struct setup_record *r, struct err *err);
/* Writes what has changed, and makes the homes. */
int accounts_save(struct accounts *a, struct err *err);
void accounts_free(struct accounts *a);
