/* SPDX-License-Identifier: MIT */
/* The head of an HTTP/1.1 answer, for the one connection that libcurl does not speak HTTP on: the
 * upgraded one. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HEAD_MAX 16384u

struct head {
	int status;
	int64_t length; /* of the body; -1: not said */
	bool chunked;
};

/* The length of the head at p, its empty line included; 0 if it is not whole yet; -EPROTO if it is
 * none, or longer than HEAD_MAX. Fills *h only when whole. */
ssize_t head_parse(const uint8_t *p, size_t n, struct head *h);
