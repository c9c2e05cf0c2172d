/* SPDX-License-Identifier: MIT */
/* A ring of lines; r->lock guards it. */
#include "sandbox/report.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPORT_LINES 200

struct report {
	pthread_mutex_t lock;
	char *line[REPORT_LINES]; /* protected by lock, as the next */
	uint32_t uid[REPORT_LINES];
	size_t next; /* protected by lock */
};

struct report *report_new(void)
{
	struct report *r = calloc(1, sizeof(*r));

	if (r)
		pthread_mutex_init(&r->lock, NULL);
	return r;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < REPORT_LINES; i++)
		free(r->line[i]);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* Names may have any bytes, but a failure is one line (its words are, always): control characters
 * as \ooo. */
static char *one_line(const char *text)
{
	char *line = malloc(4 * strlen(text) + 1), *at = line;

	if (!line)
		return NULL;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			at += sprintf(at, "\\%03o", (unsigned)(unsigned char)*text);
		else
			*at++ = *text;
	*at = 0;
	return line;
}

void report_add(
	struct report *r, uint32_t uid, const char *op, const char *path, const struct err *err)
{
	cleanup_free char *where = one_line(path);
	char when[32], *line, *old;
	time_t now = time(NULL);
	struct tm tm;

	if (!where)
		return;
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (asprintf(&line, "%s %s %s %s %s\n", when, op, where, err_name(err->code), err->msg) < 0)
		return;
	log_info("%s %s: %s", op, where, err->msg);
	pthread_mutex_lock(&r->lock);
	old = r->line[r->next];
	r->line[r->next] = line;
	r->uid[r->next] = uid;
	r->next = (r->next + 1) % REPORT_LINES;
	pthread_mutex_unlock(&r->lock);
	free(old);
}

void report_render(struct report *r, uint32_t uid, struct buf *out)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < REPORT_LINES; i++) {
		size_t at = (r->next + i) % REPORT_LINES;

		if (r->line[at] && (uid == REPORT_ALL || r->uid[at] == uid))
			buf_puts(out, r->line[at]);
	}
	pthread_mutex_unlock(&r->lock);
}
