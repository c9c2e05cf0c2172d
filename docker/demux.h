/* SPDX-License-Identifier: MIT */
/*
 * Takes an attached stream apart: frames of an 8-byte head (stream number, three zero bytes,
 * big-endian length) and a payload. Standard output is what the caller gets; standard error and the
 * engine's own words are kept for a person. Pure: no I/O, one thread at a time, nothing trusted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DEMUX_WORDS_MAX 4096u
#define DEMUX_FRAME_MAX (64u << 20)
#define DEMUX_NOISE_MAX (64u << 10) /* what is no output, in a stream's whole life */

struct demux {
	uint8_t head[8];
	unsigned have;	 /* bytes of the head that have come */
	unsigned stream; /* of the frame under way */
	uint32_t left;	 /* of its payload */
	int error;	 /* sticky */
	bool both;	 /* standard error is output too; to be set after init */
	size_t noise;	 /* words and empty frames so far: a flood of them must not keep us busy */
	size_t words_len;
	char words[DEMUX_WORDS_MAX + 1]; /* always ends in NUL */
};

void demux_init(struct demux *d);

/* Takes n raw bytes and leaves in their place the output among them, moved to the front: how many,
 * 0 if there was none, or -EPROTO for what is no such stream (and from then on). */
ssize_t demux_feed(struct demux *d, uint8_t *p, size_t n);

/* Adds to the words for a person; what is beyond the cap is dropped. It counts as noise: 0, or
 * -EPROTO where that is too much. */
int demux_say(struct demux *d, const uint8_t *p, size_t n);
