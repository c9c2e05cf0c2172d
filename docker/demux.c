/* SPDX-License-Identifier: MIT */
/* Frames of an attached stream, taken apart in place: a payload that starts the buffer is not moved
 * at all, the ones behind a head move by that head's eight bytes. */
#include "docker/demux.h"

#include <errno.h>
#include <string.h>

enum { STDIN = 0, STDOUT = 1, STDERR = 2, SYSTEM = 3 };

void demux_init(struct demux *d)
{
	memset(d, 0, sizeof(*d));
}

static int count_noise(struct demux *d, size_t n)
{
	d->noise += n;
	if (d->noise > DEMUX_NOISE_MAX)
		d->error = -EPROTO;
	return d->error;
}

int demux_say(struct demux *d, const uint8_t *p, size_t n)
{
	size_t room = DEMUX_WORDS_MAX - d->words_len;

	for (size_t i = 0; i < n && i < room; i++)
		d->words[d->words_len++] = p[i] ? (char)p[i] : ' ';
	d->words[d->words_len] = 0;
	return count_noise(d, n);
}

static int begin(struct demux *d)
{
	const uint8_t *h = d->head;

	d->have = 0;
	d->stream = h[0];
	d->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	if (h[0] == STDIN || h[0] > SYSTEM || h[1] || h[2] || h[3] || d->left > DEMUX_FRAME_MAX)
		return d->error = -EPROTO;
	return d->left ? 0 : count_noise(d, sizeof(d->head));
}

ssize_t demux_feed(struct demux *d, uint8_t *p, size_t n)
{
	size_t in = 0, out = 0, take;

	if (d->error)
		return d->error;
	while (in < n) {
		if (!d->left) {
			d->head[d->have++] = p[in++];
			if (d->have == sizeof(d->head) && begin(d))
				return d->error;
			continue;
		}
		take = n - in < d->left ? n - in : d->left;
		if (d->stream == STDOUT || (d->stream == STDERR && d->both)) {
			if (out != in)
				memmove(p + out, p + in, take);
			out += take;
		} else if (demux_say(d, p + in, take)) {
			return d->error;
		}
		in += take;
		d->left -= (uint32_t)take;
	}
	return (ssize_t)out;
}
