/* SPDX-License-Identifier: MIT */
/* Runs hooks as jobs, so that what they print is kept and their trees can be ended. Their variables
 * may be secrets: they are no setting of the job, which anybody can read. Loop's thread. */
#include "agent/setup_hooks.h"

#include "agent/ledger.h"
#include "agent/roster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 64
#define LOG_MAX	  16384u

int hooks_add(struct hooks *h, struct setup_record *r)
{
	struct setup_record *more = realloc(h->list, (h->n + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	h->list = more;
	h->list[h->n++] = *r;
	memset(r, 0, sizeof(*r));
	return 0;
}

static int set_text(struct settings *set, const struct launch_config *config, unsigned what,
	const char *text, struct err *err)
{
	return *text ? settings_set(set, config, what, (const uint8_t *)text, strlen(text), err)
		     : 0;
}

static int set_all(struct settings *set, const struct launch_config *config,
	const struct setup_record *r, struct err *err)
{
	int ret = set_text(set, config, PROTO_SET_USER, r->owner, err);

	return ret ? ret : set_text(set, config, PROTO_SET_CWD, r->home, err);
}

/* A job with its command; NULL: err says why. */
static struct job *make_job(struct hooks *h, const struct settings *set, struct err *err)
{
	char name[NAMES_MAX];
	struct job *j;
	int ret = 0;

	snprintf(name, sizeof(name), h->at ? "%s-%zu" : "%s", h->name, h->at + 1);
	j = roster_by_name(name);
	if (j)
		job_drop(j); /* of a former start */
	j = roster_new(0, name, set);
	if (!j) {
		err_set(err, errno, "the state volume: %s", strerror(errno));
		return NULL;
	}
	for (char **a = h->list[h->at].list; !ret && *a; a++) {
		size_t n = strlen(*a) + 1;

		ret = ledger_write(roster_fd, j->num, "command", false, j->command_size, *a, n);
		j->command_size += n;
	}
	if (ret < 0) {
		err_set(err, -ret, "the state volume: %s", strerror(-ret));
		job_drop(j);
		return NULL;
	}
	return j;
}

static int start_one(struct hooks *h, const struct launch_config *config, struct err *err)
{
	struct launch_config own = *config;
	struct settings set = {0};
	struct job *j = NULL;
	int ret = set_all(&set, config, &h->list[h->at], err);

	if (!ret)
		j = make_job(h, &set, err);
	settings_fini(&set);
	if (!j)
		return ret ? ret : -err->code;
	h->job = j->num;
	own.more_env = h->list[h->at].env;
	job_start(j, true, &own);
	return 0;
}

/* Into the container's log too, which is our standard error. */
static void log_output(uint64_t job)
{
	char *text = hooks_output(job, LOG_MAX);
	size_t n = text ? strlen(text) : 0, done = 0;

	while (done < n) {
		ssize_t w = write(STDERR_FILENO, text + done, n - done);

		if (w <= 0)
			break;
		done += (size_t)w;
	}
	free(text);
}

/* Of the one that has ended: 0, or -1 with words. */
static int verdict(struct hooks *h, const struct job *j, struct err *what, int *exit_code)
{
	const char *program = h->list[h->at].list[0];

	if (!j) {
		err_set(what, ECHILD, "%s: its job was removed", h->name);
		return -1;
	}
	if (j->result == PROTO_RESULT_SUCCESS)
		return 0;
	*exit_code = j->exit_code;
	if (j->result == PROTO_RESULT_START_FAILED)
		err_set(what, EIO, "%s: %s", h->name, j->words);
	else
		err_set(what, EIO, "%s: command %zu (%.60s) ended with %s %d", h->name, h->at + 1,
			program, j->result == PROTO_RESULT_EXIT_CODE ? "exit code" : "code",
			j->exit_code);
	return -1;
}

int hooks_go_on(struct hooks *h, const struct launch_config *config, struct err *what,
	int *exit_code, uint64_t *job)
{
	int ret = 0;

	while (h->at < h->n) {
		if (h->job) {
			const struct job *j = roster_find(h->job);

			if (j && !job_has_ended(j))
				return 1;
			*job = h->job;
			h->job = 0;
			log_output(*job);
			ret = verdict(h, j, what, exit_code);
			h->at++;
		} else if (start_one(h, config, what) < 0) {
			*job = 0;
			err_prefix(what, "%s: command %zu", h->name, h->at + 1);
			ret = -1;
			h->at++;
		}
		if (ret < 0 && !h->go_on) {
			h->at = h->n;
			return -1;
		}
	}
	return 0;
}

char *hooks_output(uint64_t job, size_t max)
{
	const struct job *j = roster_find(job);
	struct store_info info;
	uint64_t size, from;
	ssize_t n;
	char *text;

	if (!j)
		return NULL;
	job_info(j, &info);
	size = info.size[PROTO_STREAM_OUTPUT];
	from = size > max ? size - max : 0;
	text = malloc(max + 1);
	n = text ? ledger_read(roster_fd, j, PROTO_STREAM_OUTPUT, from, text, max) : -1;
	if (n < 0) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n] = 0;
	return text;
}
