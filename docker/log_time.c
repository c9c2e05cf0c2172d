/* SPDX-License-Identifier: MIT */
/* Nothing is shared. */
#include "docker/log_time.h"

#include "docker/box.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#define TIME_MAX    40
#define SECONDS_LEN 19 /* 2026-01-02T03:04:05 */

/* How much of the line was its time, which was put in UTC; 0 if there is none. */
static size_t put_time(const uint8_t *p, size_t n, struct buf *out)
{
	const uint8_t *blank = memchr(p, ' ', n < TIME_MAX ? n : TIME_MAX - 1);
	char text[TIME_MAX], utc[TIME_MAX];
	struct tm tm;
	time_t when;
	size_t len;

	if (!blank || (size_t)(blank - p) <= SECONDS_LEN)
		return 0;
	len = (size_t)(blank - p);
	memcpy(text, p, len);
	text[len] = 0;
	when = (time_t)box_time(text);
	if (when < 0 || !gmtime_r(&when, &tm) ||
		strftime(utc, sizeof(utc), "%Y-%m-%dT%H:%M:%S", &tm) != SECONDS_LEN)
		return 0;
	buf_append(out, utc, SECONDS_LEN);
	/* A part of a second is the same in every zone. */
	buf_append(out, text + SECONDS_LEN, strcspn(text + SECONDS_LEN, "Z+-"));
	buf_puts(out, "Z");
	return len;
}

void log_time_utc(const struct buf *in, struct buf *out)
{
	for (size_t at = 0; at < in->len;) {
		const uint8_t *p = in->data + at, *end = memchr(p, '\n', in->len - at);
		size_t n = end ? (size_t)(end - p) + 1 : in->len - at;
		size_t done = put_time(p, n, out);

		buf_append(out, p + done, n - done);
		at += n;
	}
}
