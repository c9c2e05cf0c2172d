/* SPDX-License-Identifier: MIT */
/* An HTTP answer's head: status line and the two fields that say how long the body is. */
#include "docker/head.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* "HTTP/1.x NNN ..." */
static int status_of(const char *p, size_t n)
{
	if (n < 12 || memcmp(p, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)p[7]) || p[8] != ' ')
		return -EPROTO;
	for (int i = 9; i < 12; i++)
		if (!isdigit((unsigned char)p[i]))
			return -EPROTO;
	if (n > 12 && p[12] != ' ')
		return -EPROTO;
	return (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
}

static int64_t length_of(const char *p, size_t n)
{
	int64_t v = 0;

	if (!n)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)p[i]) || v > INT64_MAX / 10 - 9)
			return -EPROTO;
		v = v * 10 + (p[i] - '0');
	}
	return v;
}

static int field(const char *p, size_t n, struct head *h)
{
	const char *colon = memchr(p, ':', n), *v;
	size_t name, len;

	if (!colon || colon == p)
		return -EPROTO;
	name = (size_t)(colon - p);
	v = colon + 1;
	len = n - name - 1;
	while (len && (*v == ' ' || *v == '\t')) {
		v++;
		len--;
	}
	while (len && (v[len - 1] == ' ' || v[len - 1] == '\t'))
		len--;
	if (name == 14 && !strncasecmp(p, "content-length", name)) {
		h->length = length_of(v, len);
		return h->length < 0 ? -EPROTO : 0;
	}
	if (name == 17 && !strncasecmp(p, "transfer-encoding", name))
		h->chunked = len == 7 && !strncasecmp(v, "chunked", len);
	return 0;
}

ssize_t head_parse(const uint8_t *bytes, size_t n, struct head *out)
{
	const char *p = (const char *)bytes, *end = p + n, *line = p, *nl;
	struct head h = {.status = -1, .length = -1};

	for (;; line = nl + 1) {
		size_t len;

		nl = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
		if (!nl)
			return n >= HEAD_MAX ? -EPROTO : 0;
		if ((size_t)(nl - p) >= HEAD_MAX)
			return -EPROTO;
		len = (size_t)(nl - line);
		if (len && line[len - 1] == '\r')
			len--;
		if (h.status < 0) {
			h.status = status_of(line, len);
			if (h.status < 0)
				return -EPROTO;
		} else if (!len) {
			*out = h;
			return nl + 1 - p;
		} else if (field(line, len, &h)) {
			return -EPROTO;
		}
	}
}
