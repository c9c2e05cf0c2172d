/* SPDX-License-Identifier: MIT */
/*
 * How a job goes on: new → running → ended → gone. Everything here runs on the loop's thread, so
 * there is no lock. A job has ended when its own process has and the output thread has stored what
 * was in the pipes; its tree (the supervisor's descendants) may live on. One that ran into its
 * timeout has ended when its tree is empty.
 */
#include "agent/job.h"

#include "agent/budget.h"
#include "agent/cgroup.h"
#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/idle.h"
#include "agent/input.h"
#include "agent/launch.h"
#include "agent/ledger.h"
#include "agent/ps.h"
#include "agent/roster.h"
#include "agent/spare.h"
#include "agent/tree.h"
#include "agent/watch.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define GRACE_MS      2000 /* between TERM and KILL */
#define KILL_FIRST_MS 5	   /* and again, */
#define KILL_LAST_MS  160  /* less and less often */
#define TIMEOUT_CODE  124

void job_info(const struct job *j, struct store_info *info)
{
	if (j->output)
		output_get(j->output, info);
	else
		*info = j->saved;
}

uint64_t job_bytes(const struct job *j)
{
	struct store_info info;
	uint64_t n = j->stdin_size;

	job_info(j, &info);
	for (int i = 0; i < PROTO_STREAMS; i++)
		n += info.size[i] - (info.hole_to[i] - info.hole_from[i]);
	return n;
}

void job_name(const struct job *j, char name[PROTO_NAME_MAX + 1])
{
	if (j->name)
		snprintf(name, PROTO_NAME_MAX + 1, "%s", j->name);
	else if (j->num == PROTO_JOB_MAIN)
		snprintf(name, PROTO_NAME_MAX + 1, "main");
	else
		snprintf(name, PROTO_NAME_MAX + 1, "%" PRIu64, j->num);
}

/* The first bytes of the command's text, for people. */
static char *command_text(const struct job *j)
{
	char *text = malloc(PROTO_TEXT_MAX + 1);
	ssize_t n;

	if (!text)
		return NULL;
	n = ledger_read(roster_fd, j, PROTO_STREAM_COMMAND, 0, text, PROTO_TEXT_MAX);
	if (n < 0)
		n = 0;
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n] = 0;
	return text;
}

int job_put(struct buf *out, const struct job *j)
{
	struct proto_job p = {.job = j->num,
		.result = j->result,
		.exit_code = j->exit_code,
		.pid = (uint32_t)j->pid,
		.wall_us = j->wall_us,
		.user_us = j->user_us,
		.system_us = j->system_us,
		.peak_kib = j->peak_kib,
		.command_size = j->command_size,
		.stdin_size = j->stdin_size};
	char words[ERR_MSG_MAX + 128], name[PROTO_NAME_MAX + 1];
	struct store_info info;

	job_name(j, name);
	p.name = name;
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

int job_signal(const struct job *j, int sig, int *refused)
{
	struct tree t = {j->supervisor, j->pid, roster_is_stray, j};

	*refused = 0;
	return j->supervisor || (j->orphaned && j->pid) ? tree_signal(&t, sig, refused) : 0;
}

/* Where one could not look (no descriptors), it does. */
static bool is_there(int found)
{
	return found > 0 || (found < 0 && found != -ENOENT);
}

bool job_lives(const struct job *j)
{
	int unused;

	return j->supervisor || (j->orphaned && is_there(job_signal(j, 0, &unused)));
}

bool job_may_live(const struct job *j)
{
	struct tree t = {j->supervisor, j->pid, roster_may_be_stray, j};
	int unused;

	return j->supervisor || (j->orphaned && j->pid && is_there(tree_signal(&t, 0, &unused)));
}

int job_kill(struct job *j)
{
	int refused;

	j->kill_wait = KILL_FIRST_MS;
	j->kill_at = clock_ms() + j->kill_wait;
	roster_due(j->kill_at);
	job_signal(j, SIGKILL, &refused);
	return refused;
}

static const char *result_words(const struct job *j)
{
	return j->result == PROTO_RESULT_OOM_KILL ? "a process was killed for lack of memory" : "";
}

/* The output is stored: now it has ended. */
static void job_finish(struct job *j)
{
	idle_touch();
	watch_barrier(); /* whoever hears of the end sees what it did */
	j->ending = false;
	if (j->start_failed) {
		j->result = PROTO_RESULT_START_FAILED;
	} else if (j->timed_out) {
		j->exit_code = TIMEOUT_CODE;
		j->result = PROTO_RESULT_TIMEOUT;
	} else if (j->lost || (j->stopped && WIFSIGNALED(j->status))) {
		/* Ended by the sandbox's stop: how it would have ended is not known. */
		j->result = PROTO_RESULT_LOST;
	} else if (WIFEXITED(j->status)) {
		j->exit_code = WEXITSTATUS(j->status);
		j->result = j->exit_code ? PROTO_RESULT_EXIT_CODE : PROTO_RESULT_SUCCESS;
	} else {
		j->exit_code = 128 + WTERMSIG(j->status);
		j->result = PROTO_RESULT_SIGNAL;
	}
	if (j->result != PROTO_RESULT_START_FAILED && j->exit_code == 128 + SIGKILL && !j->killed &&
		cgroup_ooms() > j->ooms)
		j->result = PROTO_RESULT_OOM_KILL;
	if (!j->words[0])
		snprintf(j->words, sizeof(j->words), "%s", result_words(j));
	j->slot = false;
	j->patience_at = 0;
	roster_ended(j);
	waiter_answer(&j->starters, j, 0);
	waiter_answer(&j->waiters, j, 0);
	ledger_save(roster_fd, j);
	if (j->dropping && !job_lives(j))
		roster_bury(j);
	roster_prune();
	budget_keep();
}

static void on_drained(struct post *p)
{
	job_finish(link_of(p, struct job, drained));
}

static void job_drain(struct job *j)
{
	j->ending = true;
	j->wall_us = (uint64_t)(clock_us() - j->started_us);
	j->drained.fn = on_drained;
	input_free(steal_ptr(&j->input));
	output_drain(j->output, &j->drained);
}

/* Nothing of its tree is left, perhaps: what waited for that. */
static void job_settle(struct job *j)
{
	if (j->ending || job_lives(j))
		return;
	if (j->result == PROTO_RESULT_RUNNING) {
		if (j->exited)
			job_drain(j);
		return;
	}
	if (j->dropping)
		roster_bury(j);
}

/* The command's own process has ended. */
static void job_exited(struct job *j, const struct run_report *r)
{
	if (j->exited || job_has_ended(j))
		return;
	j->exited = true;
	j->status = r->value;
	j->user_us = r->user_us;
	j->system_us = r->system_us;
	j->peak_kib = r->peak_kib;
	j->timeout_at = 0; /* the clock stops */
	if (!j->timed_out)
		job_drain(j);
}

void job_drop(struct job *j)
{
	if (j->foreground && j->result == PROTO_RESULT_NEW)
		roster_came_to_nothing(j);
	j->dropping = true;
	job_kill(j);
	job_settle(j);
}

static void start_failed(struct job *j, int code, const char *words)
{
	j->start_failed = true;
	j->exit_code = code;
	snprintf(j->words, sizeof(j->words), "%s", words);
}

static void on_failed(struct job *j, const struct run_report *r)
{
	const char *why = strerror(r->value);
	char words[ERR_MSG_MAX];
	bool missing = r->stage == RUN_STAGE_EXEC && (r->value == ENOENT || r->value == ENOTDIR);

	switch (r->stage) {
	case RUN_STAGE_EXEC:
		snprintf(words, sizeof(words), "%s: %s", j->program, missing ? "not found" : why);
		break;
	case RUN_STAGE_CWD:
		snprintf(words, sizeof(words), "cannot enter the directory %s: %s", j->cwd, why);
		break;
	case RUN_STAGE_USER:
		snprintf(words, sizeof(words), "cannot become the user: %s", why);
		break;
	default:
		snprintf(words, sizeof(words), "cannot start a process: %s", why);
	}
	start_failed(j, missing ? 127 : 126, words);
	if (r->stage == RUN_STAGE_FORK && !j->pid)
		job_exited(j, &(struct run_report){0}); /* nobody else will say so */
}

static void on_report(struct job *j, const struct run_report *r)
{
	switch (r->kind) {
	case RUN_STARTED:
		j->pid = r->value;
		ledger_save(roster_fd, j);
		waiter_answer(&j->starters, j, 0);
		spare_make(roster_fd);
		break;
	case RUN_FAILED:
		on_failed(j, r);
		break;
	case RUN_ENDED:
		job_exited(j, r);
		break;
	}
}

void job_close_report(struct job *j)
{
	if (j->report.fd < 0)
		return;
	loop_del(&j->report, NULL);
	close(j->report.fd);
	j->report.fd = -1;
}

static void report_ready(struct source *src, uint32_t events)
{
	struct job *j = (struct job *)src;
	struct run_report r;
	ssize_t n;

	(void)events;
	creds_own();
	while (j->report.fd >= 0) {
		n = read(j->report.fd, &r, sizeof(r));
		if (n == (ssize_t)sizeof(r)) {
			on_report(j, &r);
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		job_close_report(j);
	}
}

/* The supervisor has gone without a word. If it was killed its children are ours now: if the
 * command is among them, its end will be reaped here; if it is not, nobody knows how it ended. */
static void supervisor_gone(struct job *j, bool killed)
{
	siginfo_t si = {0};

	/* Also of one that somebody made exit. */
	j->orphaned = killed || !(j->exited || job_has_ended(j));
	if (j->exited || job_has_ended(j))
		return;
	if (j->pid && waitid(P_PID, (id_t)j->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0)
		return;
	j->lost = true;
	job_exited(j, &(struct run_report){0});
}

bool job_reaped(struct job *j, pid_t pid, int status, const struct rusage *ru)
{
	struct run_report r = {.kind = RUN_ENDED, .value = status};

	if (j->supervisor == pid) {
		/* What it said last may still lie in the pipe. */
		report_ready(&j->report, 0);
		j->supervisor = 0;
		ps_del(pid);
		supervisor_gone(j, WIFSIGNALED(status));
	} else if (j->pid == pid && j->result == PROTO_RESULT_RUNNING && !j->exited) {
		/* It is our child because its supervisor was killed, whichever is told first. */
		run_usage(&r, ru);
		job_exited(j, &r);
	} else {
		return false;
	}
	job_settle(j);
	return true;
}

static void set_deadlines(struct job *j)
{
	int64_t now = clock_ms();
	int64_t timeout = settings_ms(&j->set, PROTO_SET_TIMEOUT);
	int64_t patience = settings_ms(&j->set, PROTO_SET_MAX_WAIT);

	j->timeout_at = timeout ? now + timeout : 0;
	j->patience_at = patience ? now + patience : 0;
	roster_due(j->timeout_at);
	roster_due(j->patience_at);
}

void job_start(struct job *j, bool argv, const struct launch_config *config)
{
	cleanup_close int dir = ledger_dir(roster_fd, j->num, false);
	char name[PROTO_NAME_MAX + 1];
	struct err err = {0};
	int ret;

	j->result = PROTO_RESULT_RUNNING;
	j->started_us = clock_us();
	j->began = tree_now();
	j->ooms = cgroup_ooms();
	ret = dir < 0 ? err_set(&err, -dir, "the job's directory: %s", strerror(-dir))
		      : launch_job(config, argv, dir, j, &err);
	if (!ret) {
		job_name(j, name);
		ps_add(j->supervisor, name);
		set_deadlines(j);
		j->report.ready = report_ready;
		if (loop_add(&j->report, EPOLLIN) < 0)
			log_error("job %llu: no report", (unsigned long long)j->num);
		return;
	}
	input_free(steal_ptr(&j->input));
	if (j->output) {
		output_put(j->output, true);
		j->output = NULL;
	}
	start_failed(j, ret == -ENOENT ? 127 : 126, err.msg);
	job_finish(j);
}

/* Says why a job goes on whose time is over. */
static void signal_late(struct job *j, int sig)
{
	int refused;

	job_signal(j, sig, &refused);
	if (refused && j->timed_out)
		snprintf(j->words, sizeof(j->words),
			"the timeout cannot end %d processes: no capability KILL", refused);
}

/* The next KILL, and what it waits for; when the one after it is due. */
static int64_t kill_again(struct job *j, int64_t now)
{
	if (now >= j->kill_at) {
		signal_late(j, SIGKILL);
		j->kill_wait = j->kill_wait ? j->kill_wait * 2 : KILL_FIRST_MS;
		if (j->kill_wait > KILL_LAST_MS)
			j->kill_wait = KILL_LAST_MS;
		j->kill_at = now + j->kill_wait;
	}
	/* A supervisor's end is told; what is orphaned has to be looked for. */
	if (!j->supervisor && !job_lives(j)) {
		j->kill_at = 0;
		job_settle(j);
	}
	return j->kill_at;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

int64_t job_due(struct job *j, int64_t now)
{
	int64_t next;

	if (j->patience_at && now >= j->patience_at) {
		j->patience_at = 0;
		j->slot = false;
		j->impatient = true;
		waiter_lose_patience(&j->waiters, j);
	}
	if (j->timeout_at && now >= j->timeout_at) {
		j->timeout_at = 0;
		j->timed_out = true;
		j->kill_at = now + GRACE_MS;
		j->kill_wait = 0;
		signal_late(j, SIGTERM);
	}
	next = sooner(j->patience_at, j->timeout_at);
	return j->kill_at ? sooner(next, kill_again(j, now)) : next;
}
