/* SPDX-License-Identifier: MIT */
/* The messages that open files and directories, and move bytes. */
#pragma once

#include "agent/request.h"

int io_open(struct request *r);
int io_create(struct request *r);
int io_read(struct request *r);
int io_write(struct request *r);
int io_write_as(struct request *r);
int io_fsync(struct request *r);
int io_close(struct request *r);

bool io_read_is_slow(const struct request *r);
bool io_write_is_slow(const struct request *r);

int dirs_open(struct request *r);
int dirs_read(struct request *r);
