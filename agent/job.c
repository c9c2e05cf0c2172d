/* SPDX-License-Identifier: MIT */
/*
 * The list of jobs and how each goes on: new → running → ended → gone. Everything here runs on the
 * loop's thread, so there is no lock. A job has ended when its own process has and the output
 * thread has stored what was in the pipes; its tree (the supervisor's descendants) may live on.
 */
#include "agent/job.h"

#include "agent/clock.h"
#include "agent/launch.h"
#include "agent/ledger.h"
#include "agent/tree.h"
#include "agent/watch.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define KEPT_ENDED    64
#define KEPT_MAX      256	     /* with those whose tree still lives */
#define KEPT_BYTES    (512ull << 20) /* of output, all jobs together */
#define KILL_AGAIN_MS 5

static int jobs_fd = -1;
static const struct launch_config *config;
static struct job *jobs;   /* newest first */
static struct job *buried; /* freed when no event can name them any more */
static uint64_t next_num = 1;
static uint64_t emptied; /* the newest foreground job that was opened and came to nothing */

struct job *job_find(uint64_t num)
{
	struct job *j;

	for (j = jobs; j && j->num != num; j = j->next)
		;
	return j && !j->dropping ? j : NULL;
}

bool job_has_ended(const struct job *j)
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

int job_park(struct waiter **list, struct request *r)
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

ssize_t job_read(const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size)
{
	return ledger_read(jobs_fd, j, stream, offset, p, size);
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
static void answer_all(struct waiter **list, const struct job *j, int failure)
{
	struct waiter *w;

	while ((w = *list)) {
		struct buf b;
		size_t begun;
		int code = failure;

		*list = w->next;
		buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
		begun = proto_begin(&b, w->type | PROTO_REPLY, 0, w->id, 0, 0);
		if (!code && w->type == PROTO_JOB_WAIT)
			code = -job_put(&b, j);
		else if (!code && w->type == PROTO_JOB_START)
			wire_u32(&b, (uint32_t)j->pid);
		if (w->conn->session)
			proto_set_seq(&b, begun, changes_seq(w->conn->session));
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

/* Takes it off the list; its memory goes when this round of the loop has ended. */
static void bury(struct job *j)
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
	j->next = buried;
	buried = j;
}

/* Signals whatever is left of it; how many processes that were. */
int job_signal(const struct job *j, int sig)
{
	if (j->report.fd >= 0 && j->supervisor)
		return tree_signal(j->supervisor, 0, sig);
	return j->orphaned && j->pid ? tree_signal(0, j->pid, sig) : 0;
}

bool job_lives(const struct job *j)
{
	return j->report.fd >= 0 || (j->orphaned && job_signal(j, 0) > 0);
}

/* Ends and forgets it, at once or as soon as nothing of it is left. */
void job_drop(struct job *j)
{
	if (j->foreground && j->result == PROTO_RESULT_NEW && j->num > emptied)
		emptied = j->num;
	j->dropping = true;
	j->killing = true;
	job_signal(j, SIGKILL);
	if (!j->ending && !job_lives(j))
		bury(j);
}

static uint64_t stored(const struct job *j)
{
	struct store_info info;
	uint64_t n = 0;

	job_info(j, &info);
	for (int i = 0; i < PROTO_STREAMS; i++)
		n += info.size[i] - (info.hole_to[i] - info.hole_from[i]);
	return n;
}

/* Keeps the newest ended ones, within a number and a volume. */
static void prune(void)
{
	struct job *j, *next;
	unsigned n = 0;
	uint64_t bytes = 0;

	for (j = jobs; j; j = next) {
		next = j->next;
		bytes += stored(j);
		if (!job_has_ended(j) || j->dropping || j->num == JOB_MAIN)
			continue;
		n++;
		if (n > KEPT_MAX || (n > 1 && bytes > KEPT_BYTES) ||
			(n > KEPT_ENDED && !job_lives(j)))
			job_drop(j);
	}
}

/* The output is stored: now it has ended. */
static void job_finish(struct job *j)
{
	watch_barrier(); /* whoever hears of the end sees what it did */
	j->ending = false;
	if (j->start_failed) {
		j->result = PROTO_RESULT_START_FAILED;
	} else if (WIFEXITED(j->status)) {
		j->exit_code = WEXITSTATUS(j->status);
		j->result = j->exit_code ? PROTO_RESULT_EXIT_CODE : PROTO_RESULT_SUCCESS;
	} else {
		j->exit_code = 128 + WTERMSIG(j->status);
		j->result = PROTO_RESULT_SIGNAL;
	}
	answer_all(&j->starters, j, 0);
	answer_all(&j->waiters, j, 0);
	ledger_save(jobs_fd, j);
	if (j->dropping && !job_lives(j))
		bury(j);
	prune();
}

static void on_drained(struct post *p)
{
	job_finish(link_of(p, struct job, drained));
}

/* The command's own process has ended. */
static void job_ended(struct job *j, const struct run_report *r)
{
	if (j->ending || job_has_ended(j))
		return;
	j->ending = true;
	j->status = r->value;
	j->wall_us = (uint64_t)(clock_us() - j->started_us);
	j->user_us = r->user_us;
	j->system_us = r->system_us;
	j->peak_kib = r->peak_kib;
	j->drained.fn = on_drained;
	output_drain(j->output, &j->drained);
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
		job_ended(j, &(struct run_report){0}); /* nobody else will say so */
}

static void on_report(struct job *j, const struct run_report *r)
{
	switch (r->kind) {
	case RUN_STARTED:
		j->pid = r->value;
		answer_all(&j->starters, j, 0);
		break;
	case RUN_FAILED:
		on_failed(j, r);
		break;
	case RUN_ENDED:
		job_ended(j, r);
		break;
	}
}

static void report_ready(struct source *src, uint32_t events)
{
	struct job *j = (struct job *)src;
	struct run_report r;
	ssize_t n;

	(void)events;
	while (j->report.fd >= 0) {
		n = read(j->report.fd, &r, sizeof(r));
		if (n == (ssize_t)sizeof(r)) {
			on_report(j, &r);
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		loop_del(&j->report, NULL);
		close(j->report.fd);
		j->report.fd = -1;
	}
	/* The supervisor has gone, and with it (unless it was killed) all its descendants. */
	if (j->dropping && !j->ending && job_has_ended(j) && !job_lives(j))
		bury(j);
}

/* The supervisor was killed. Its children are ours now: if the command is among them, its end will
 * be reaped here; if it is not, it was killed too. */
static void supervisor_killed(struct job *j)
{
	siginfo_t si = {0};

	j->orphaned = true;
	if (j->ending || job_has_ended(j))
		return;
	if (j->pid && waitid(P_PID, (id_t)j->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0)
		return;
	job_ended(j, &(struct run_report){.value = SIGKILL});
}

void job_reaped(pid_t pid, int status, const struct rusage *ru)
{
	struct job *j, *next;

	for (j = jobs; j; j = next) {
		next = j->next;
		if (j->supervisor == pid) {
			j->supervisor = 0;
			/* What it said last may still lie in the pipe. */
			if (j->report.fd >= 0)
				report_ready(&j->report, 0);
			if (WIFSIGNALED(status))
				supervisor_killed(j);
			return;
		}
		if (j->orphaned && j->pid == pid) {
			struct run_report r = {.kind = RUN_ENDED, .value = status};

			run_usage(&r, ru);
			job_ended(j, &r);
			return;
		}
	}
}

struct job *job_new(uint64_t num, bool foreground)
{
	cleanup_close int dir = -1, fd = -1;
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	if (!num)
		num = next_num;
	dir = ledger_dir(jobs_fd, num, true);
	/* Readable for the job's user, who gets a descriptor; nobody else can reach it. */
	if (dir >= 0)
		fd = openat(dir, "command", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0644);
	if (fd < 0) {
		int saved = errno;

		free(j);
		errno = dir < 0 ? -dir : saved;
		return NULL;
	}
	if (num == next_num)
		next_num++;
	j->num = num;
	j->foreground = foreground;
	j->exit_code = -1;
	j->report.fd = -1;
	j->next = jobs;
	jobs = j;
	return j;
}

int job_free_slot(void)
{
	struct job *j, *next;

	for (j = jobs; j; j = next) {
		next = j->next;
		if (!j->foreground || job_has_ended(j) || j->dropping)
			continue;
		if (j->result == PROTO_RESULT_RUNNING || session_attached(j->session))
			return -EBUSY;
		job_drop(j);
	}
	return 0;
}

int job_write(struct job *j, uint64_t offset, const uint8_t *p, size_t n)
{
	cleanup_close int dir = ledger_dir(jobs_fd, j->num, false);
	cleanup_close int fd = -1;
	size_t done = 0;

	if (dir < 0)
		return dir;
	fd = openat(dir, "command", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	while (done < n) {
		ssize_t w = pwrite(fd, p + done, n - done, (off_t)(offset + done));

		if (w < 0 && errno != EINTR)
			return -errno;
		done += w > 0 ? (size_t)w : 0;
	}
	if (offset + n > j->command_size)
		j->command_size = offset + n;
	return 0;
}

/* What cannot be started has ended at once; that is no failure of the request. */
void job_start(struct job *j, const struct launch *l)
{
	cleanup_close int dir = ledger_dir(jobs_fd, j->num, false);
	struct err err = {0};
	int ret;

	j->result = PROTO_RESULT_RUNNING;
	j->started_us = clock_us();
	ret = dir < 0 ? err_set(&err, -dir, "the job's directory: %s", strerror(-dir))
		      : launch_job(config, l, dir, j, &err);
	if (!ret) {
		ledger_save(jobs_fd, j);
		j->report.ready = report_ready;
		if (loop_add(&j->report, EPOLLIN) < 0)
			log_error("job %llu: no report", (unsigned long long)j->num);
		return;
	}
	if (j->output) {
		output_put(j->output, true);
		j->output = NULL;
	}
	start_failed(j, ret == -ENOENT ? 127 : 126, err.msg);
	job_finish(j);
}

/* NULL also after one that was opened and came to nothing: its opening has emptied the results. */
struct job *job_newest_foreground(void)
{
	struct job *j;

	for (j = jobs; j && (!j->foreground || j->dropping); j = j->next)
		;
	return j && j->num > emptied ? j : NULL;
}

/* Takes the waiters of a connection (and of one id, unless it is 0) out of a list. */
static void take_out(struct waiter **list, const struct conn *c, uint64_t id)
{
	struct waiter **at = list, *w;

	while ((w = *at)) {
		if (w->conn != c || (id && w->id != id)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		conn_fail(w->conn, w->type, w->id, EINTR, NULL, 0);
		conn_put(w->conn);
		free(w);
	}
}

bool job_signal_all(int sig)
{
	bool alive = false;

	for (struct job *j = jobs; j; j = j->next)
		if (job_signal(j, sig) > 0)
			alive = true;
	return alive;
}

int job_tick(void)
{
	static int64_t last_ms;
	struct job *j, *next;
	bool again = false, now = clock_ms() - last_ms >= KILL_AGAIN_MS;

	while ((j = buried)) {
		buried = j->next;
		free(j);
	}
	if (now)
		last_ms = clock_ms();
	for (j = jobs; j; j = next) {
		next = j->next;
		if (!j->killing)
			continue;
		if (now)
			job_signal(j, SIGKILL);
		if (!job_lives(j)) {
			j->killing = false;
			if (j->dropping && !j->ending)
				bury(j);
		} else {
			again = true;
		}
	}
	return again ? KILL_AGAIN_MS : -1;
}

void job_unpark(struct conn *c, uint64_t id)
{
	for (struct job *j = jobs; j; j = j->next) {
		take_out(&j->waiters, c, id);
		if (id)
			continue;
		take_out(&j->starters, c, 0);
		take_out(&j->droppers, c, 0);
	}
}

static void take_loaded(struct job *j)
{
	if (j->num == JOB_MAIN) {
		ledger_remove(jobs_fd, j->num); /* it runs anew */
		free(j);
		return;
	}
	j->next = jobs;
	jobs = j;
	if (j->num >= next_num && j->num < JOB_MAIN)
		next_num = j->num + 1;
}

int job_load(int fd, const struct launch_config *cfg)
{
	int ret;

	jobs_fd = fd;
	config = cfg;
	ret = ledger_load(jobs_fd, take_loaded);
	prune();
	return ret;
}
