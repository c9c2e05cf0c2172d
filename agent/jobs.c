/* SPDX-License-Identifier: MIT */
/*
 * The list of jobs and how each goes on: new → running → ended → gone. Everything here runs on the
 * loop's thread, so there is no lock. A job has ended when its own process has and the output
 * thread has stored what was in the pipes; its tree (the supervisor's descendants) may live on.
 */
#include "agent/jobs.h"

#include "agent/clock.h"
#include "agent/tree.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KEPT_ENDED  64
#define KEPT_MAX    256		 /* with those whose tree still lives */
#define KEPT_BYTES  (512ull << 20) /* of output, all jobs together */
#define KILL_AGAIN_MS 5

static int jobs_fd = -1;
static const struct launch_config *config;
static struct job *jobs; /* newest first */
static uint64_t next_num = 1;

static struct job *job_find(uint64_t num)
{
	struct job *j;

	for (j = jobs; j && j->num != num; j = j->next)
		;
	return j && !j->dropping ? j : NULL;
}

static bool has_ended(const struct job *j)
{
	return j->result > PROTO_RESULT_RUNNING;
}

void job_info(const struct job *j, struct store_info *info)
{
	if (j->output)
		output_get(j->output, info);
	else
		*info = j->saved;
}

static int park(struct waiter **list, struct request *r)
{
	struct waiter *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	conn_get(r->conn);
	*w = (struct waiter){
		.next = *list, .conn = r->conn, .id = r->head.id, .type = r->head.type};
	*list = w;
	return PARKED;
}

/* The first bytes of the command's text, for people. */
static char *command_text(const struct job *j)
{
	char *text = malloc(PROTO_TEXT_MAX + 1);
	ssize_t n;

	if (!text)
		return NULL;
	n = ledger_read(jobs_fd, j, PROTO_STREAM_COMMAND, 0, text, PROTO_TEXT_MAX);
	if (n < 0)
		n = 0;
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n] = 0;
	return text;
}

static int put_info(struct buf *out, const struct job *j)
{
	struct proto_job p = {.job = j->num,
		.result = j->result,
		.exit_code = j->exit_code,
		.pid = (uint32_t)j->pid,
		.wall_us = j->wall_us,
		.user_us = j->user_us,
		.system_us = j->system_us,
		.peak_kib = j->peak_kib,
		.command_size = j->command_size};
	char words[ERR_MSG_MAX + 128];
	struct store_info info;

	job_info(j, &info);
	if (j->result == PROTO_RESULT_RUNNING)
		p.wall_us = (uint64_t)(clock_us() - j->started_us);
	for (int i = 0; i < PROTO_STREAMS; i++) {
		p.size[i] = info.size[i];
		p.hole_from[i] = info.hole_from[i];
		p.hole_to[i] = info.hole_to[i];
	}
	snprintf(words, sizeof(words), "%s%s%s%s", j->words, j->words[0] && info.error ? "; " : "",
		info.error ? "output was dropped: " : "", info.error ? strerror(info.error) : "");
	p.words = words;
	p.command = command_text(j);
	if (!p.command)
		return -ENOMEM;
	proto_put_job(out, &p);
	free(p.command);
	return out->error;
}

/* Answers all in the list: with the job's info, its pid, nothing, or a failure. */
static void answer_all(struct waiter **list, const struct job *j, int code)
{
	struct waiter *w;

	while ((w = *list)) {
		struct buf b;
		size_t begun;

		*list = w->next;
		buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
		begun = proto_begin(&b, w->type | PROTO_REPLY, 0, w->id, 0, 0);
		if (!code && w->type == PROTO_JOB_WAIT)
			code = -put_info(&b, j);
		else if (!code && w->type == PROTO_JOB_START)
			wire_u32(&b, (uint32_t)j->pid);
		if (!code && proto_end(&b, begun) == 0) {
			conn_reply(w->conn, &b, 0);
		} else {
			buf_fini(&b);
			conn_fail(w->conn, w->type, w->id, code ? code : ENOMEM, NULL, 0);
		}
		conn_put(w->conn);
		free(w);
	}
}

static void report_gone(struct source *src)
{
	free(src); /* a job that is freed while an event may still name it */
}

/* Forgets a job whose tree is empty. */
static void job_free(struct job *j)
{
	struct job **at;

	for (at = &jobs; *at && *at != j; at = &(*at)->next)
		;
	if (*at)
		*at = j->next;
	answer_all(&j->starters, j, ESRCH);
	answer_all(&j->waiters, j, ENOENT);
	ledger_remove(jobs_fd, j->num);
	answer_all(&j->droppers, j, 0);
	if (j->output)
		output_put(j->output, true);
	j->output = NULL;
	if (j->report.fd >= 0) {
		loop_del(&j->report, report_gone);
		close(j->report.fd);
	} else {
		/* Freed at the round's end, too: this round's events may hold it. */
		j->report.deleted = true;
		free(j);
	}
}
