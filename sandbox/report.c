/* SPDX-License-Identifier: MIT */
/* A ring of lines; r->lock guards it. */
#include "sandbox/report.h"

#include "common/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPORT_LINES 200

struct report {
	pthread_mutex_t lock;
	char *line[REPORT_LINES]; /* protected by lock */
	size_t next;		  /* protected by lock */
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

void report_add(struct report *r, const char *op, const char *path, const struct err *err)
{
	char when[32], *line, *old;
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (asprintf(&line, "%s %s %s %s %s\n", when, op, path, err_name(err->code), err->msg) < 0)
		return;
	log_info("%s %s: %s", op, path, err->msg);
	pthread_mutex_lock(&r->lock);
	old = r->line[r->next];
	r->line[r->next] = line;
	r->next = (r->next + 1) % REPORT_LINES;
	pthread_mutex_unlock(&r->lock);
	free(old);
}

void report_render(struct report *r, struct buf *out)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < REPORT_LINES; i++) {
		const char *line = r->line[(r->next + i) % REPORT_LINES];

		if (line)
			buf_puts(out, line);
	}
	pthread_mutex_unlock(&r->lock);
}
