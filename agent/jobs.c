/* SPDX-License-Identifier: MIT */
/* The messages about jobs, and the beginning. The loop's thread; roster.c owns the jobs. */
#include "agent/jobs.h"

#include "agent/budget.h"
#include "agent/input.h"
#include "agent/ledger.h"
#include "agent/roster.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct launch_config *config; /* constant after jobs_init() */
static struct job ctl;			   /* 0: the settings and the next command's input */

static int volume(struct request *r, int code)
{
	return err_set(&r->err, code, "the state volume: %s", strerror(code));
}

/* What was written for one job's input is the other's now. */
static void move_stdin(struct job *of, struct job *to)
{
	cleanup_close int from = -1, there = -1;

	if (!of->stdin_size)
		return;
	from = ledger_dir(roster_fd, of->num, false);
	there = ledger_dir(roster_fd, to->num, false);
	if (from >= 0 && there >= 0 && renameat(from, "stdin", there, "stdin") == 0)
		to->stdin_size = of->stdin_size;
	of->stdin_size = 0;
}

/* The request may come again because its answer was lost: then the input of the job that nobody
 * heard of goes to the new one. */
static int open_foreground(struct request *r)
{
	struct job *unheard = roster_unheard(), *j;
	int ret;

	if (unheard && !ctl.stdin_size)
		move_stdin(unheard, &ctl);
	ret = roster_free_slot();
	if (ret < 0)
		return err_set(&r->err, -ret, "another foreground command runs: use jobs");
	j = roster_new(0, NULL, &ctl.set);
	if (!j)
		return volume(r, errno);
	j->foreground = j->slot = true;
	move_stdin(&ctl, j);
	memcpy(j->session, r->session->name, PROTO_SESSION);
	j->life = session_life(j->session);
	wire_u64(&r->out, j->num);
	return 0;
}

int jobs_open(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	struct job *j;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	if (!num)
		return open_foreground(r);
	j = roster_find(num);
	if (!j)
		return -ENOENT;
	if (j->result != PROTO_RESULT_NEW)
		return err_set(&r->err, EBUSY, "the job has been started");
	ret = ledger_write(roster_fd, num, "command", true, 0, NULL, 0);
	if (ret < 0)
		return volume(r, -ret);
	j->command_size = 0;
	wire_u64(&r->out, num);
	return 0;
}

int jobs_write(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	uint64_t offset = wire_get_u64(&r->in);
	size_t n;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &n);
	int ret;

	if (!wire_end(&r->in) || offset > (uint64_t)INT64_MAX - n)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	j->life = 0;
	if (j->result != PROTO_RESULT_NEW)
		return err_set(&r->err, EBUSY, "the job has been started");
	ret = ledger_write(roster_fd, j->num, "command", false, offset, p, n);
	if (ret < 0)
		return volume(r, -ret);
	if (n && offset + n > j->command_size)
		j->command_size = offset + n;
	return 0;
}

static struct post more;

/* Watched first, looked at then: what comes in between is told of or seen. */
static void look_for_more(struct job *j, void *arg)
{
	(void)arg;
	if (!j->output || !waiter_more(&j->waiters, j))
		return;
	output_watch(j->output);
	waiter_more(&j->waiters, j);
}

static void on_more(struct post *p)
{
	output_on_more(p);
	roster_each(look_for_more, NULL);
}

int jobs_more(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	uint8_t stream = wire_get_u8(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	int ret;

	if (!wire_end(&r->in) || stream >= PROTO_STREAMS)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (job_has_ended(j))
		return job_put(&r->out, j);
	ret = waiter_park_more(&j->waiters, r, stream, offset);
	if (ret == PARKED)
		look_for_more(j, NULL);
	return ret;
}

int jobs_start(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	uint8_t how = wire_get_u8(&r->in);
	int ret;

	if (!wire_end(&r->in) || how > PROTO_START_ARGV)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	j->life = 0;
	if (j->result != PROTO_RESULT_NEW)
		return err_set(&r->err, EBUSY, "the job has been started");
	ret = waiter_park(&j->starters, r, false);
	if (ret == PARKED) {
		job_start(j, how == PROTO_START_ARGV, config);
		look_for_more(j, NULL);
	}
	return ret;
}

int jobs_wait(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	uint8_t patience = wire_get_u8(&r->in);

	if (!wire_end(&r->in) || patience > 1)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (job_has_ended(j) || (patience && j->impatient))
		return job_put(&r->out, j);
	return waiter_park(&j->waiters, r, patience);
}

int jobs_info(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	struct job *j = num ? roster_find(num) : roster_newest_foreground();

	if (!wire_end(&r->in))
		return bad_request(r);
	return j ? job_put(&r->out, j) : -ENOENT;
}

int jobs_read(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint8_t stream = wire_get_u8(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint32_t size = wire_get_u32(&r->in);
	size_t at = r->out.len;
	struct job *j;
	uint8_t *p;
	ssize_t n;

	if (!wire_end(&r->in) || size > PROTO_MAX_DATA || stream > PROTO_STREAM_STDIN ||
		offset > INT64_MAX)
		return bad_request(r);
	if (num)
		j = roster_find(num);
	else
		j = stream == PROTO_STREAM_STDIN ? &ctl : roster_newest_foreground();
	if (!j)
		return -ENOENT;
	wire_u32(&r->out, 0);
	p = buf_reserve(&r->out, size);
	if (!p)
		return -ENOMEM;
	n = ledger_read(roster_fd, j, stream, offset, p, size);
	if (n < 0)
		return (int)n;
	r->out.len += (size_t)n;
	for (int i = 0; i < 4; i++)
		r->out.data[at + (size_t)i] = (uint8_t)((size_t)n >> (8 * i));
	return 0;
}

int jobs_kill(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	uint32_t sig = wire_get_u32(&r->in);
	int refused;

	if (!wire_end(&r->in) || sig < 1 || sig > 64)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (!job_lives(j))
		return -ESRCH;
	j->killed |= sig == SIGKILL;
	if (sig == SIGKILL)
		refused = job_kill(j); /* and again, until none is left */
	else if (job_signal(j, (int)sig, &refused) == 0 && job_has_ended(j))
		return -ESRCH;
	return refused ? err_set(&r->err, EPERM,
				 "no capability KILL: %d processes of another user got no signal",
				 refused)
		       : 0;
}

int jobs_drop(struct request *r)
{
	struct job *j = roster_find(wire_get_u64(&r->in));
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	if (!j)
		return -ENOENT;
	ret = waiter_park(&j->droppers, r, false);
	if (ret == PARKED)
		job_drop(j);
	return ret;
}

int jobs_make(struct request *r)
{
	cleanup_free char *name = proto_get_name(&r->in);
	struct job *j;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = roster_may_name(name);
	if (ret == -ENOSPC)
		return err_set(&r->err, ENOSPC, "too many named jobs: remove some");
	if (ret < 0)
		return ret;
	j = roster_new(0, name, &ctl.set);
	if (!j)
		return volume(r, errno);
	wire_u64(&r->out, j->num);
	return 0;
}

int jobs_find(struct request *r)
{
	cleanup_free char *name = proto_get_name(&r->in);
	struct job *j;

	if (!wire_end(&r->in))
		return bad_request(r);
	j = roster_by_name(name);
	return j ? job_put(&r->out, j) : -ENOENT;
}

static void put_listed(struct job *j, void *arg)
{
	struct buf *out = arg;
	char name[PROTO_NAME_MAX + 1];

	job_name(j, name);
	wire_u64(out, j->num);
	wire_str(out, name);
}

int jobs_list(struct request *r)
{
	if (!wire_end(&r->in))
		return bad_request(r);
	roster_each(put_listed, &r->out);
	return r->out.error;
}

int jobs_get(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint8_t what = wire_get_u8(&r->in);
	const struct job *j = num ? roster_find(num) : &ctl;

	if (!wire_end(&r->in) || !what || what >= PROTO_SETS || (!num && what == PROTO_SET_TTY))
		return bad_request(r);
	return j ? settings_get(&j->set, config, what, &r->out) : -ENOENT;
}

/* A terminal's new size is all that may change in a running job. */
static int resize(struct job *j, const uint8_t *p, size_t n, struct err *err)
{
	unsigned columns, rows;
	struct settings set = {0};
	int ret = settings_set(&set, config, PROTO_SET_TTY, p, n, err);

	if (!ret && (!j->input || settings_tty(&set, &columns, &rows) != SETTINGS_TTY_TERMINAL))
		ret = -EBUSY;
	if (!ret)
		ret = input_resize(j->input, columns, rows);
	if (!ret) {
		free(j->set.text[PROTO_SET_TTY]);
		j->set.text[PROTO_SET_TTY] = steal_ptr(&set.text[PROTO_SET_TTY]);
	}
	settings_fini(&set);
	return ret == -ENOTTY ? -EBUSY : ret;
}

static int save_settings(struct request *r, const struct job *j)
{
	cleanup_close int dir = ledger_dir(roster_fd, j->num, !j->num);
	int ret = dir < 0 ? dir : settings_save(&j->set, dir);

	return ret < 0 ? volume(r, -ret) : 0;
}

int jobs_set(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint8_t what = wire_get_u8(&r->in);
	size_t n;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &n);
	struct job *j = num ? roster_find(num) : &ctl;
	int ret;

	if (!wire_end(&r->in) || !what || what >= PROTO_SETS || (!num && what == PROTO_SET_TTY))
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (j->result == PROTO_RESULT_NEW)
		ret = settings_set(&j->set, config, what, p, n, &r->err);
	else if (what == PROTO_SET_TTY)
		ret = resize(j, p, n, &r->err);
	else
		ret = -EBUSY;
	if (ret == -EBUSY)
		return err_set(&r->err, EBUSY, "the job has been started");
	return ret < 0 ? ret : save_settings(r, j);
}

/* Before the start: into a file. */
static int keep_stdin(struct request *r, struct job *j, uint64_t offset, uint8_t flags,
	const uint8_t *p, size_t n)
{
	bool empty = flags & PROTO_STDIN_TRUNCATE;
	int ret;

	if (!j->num) { /* has no directory until there is something for it */
		cleanup_close int dir = ledger_dir(roster_fd, 0, true);

		if (dir < 0)
			return volume(r, -dir);
	}
	ret = ledger_write(roster_fd, j->num, "stdin", empty, offset, p, n);
	if (ret < 0)
		return volume(r, -ret);
	if (empty)
		j->stdin_size = 0;
	if (n && offset + n > j->stdin_size)
		j->stdin_size = offset + n;
	if (j->num)
		j->input_ended = flags & PROTO_STDIN_END;
	wire_u32(&r->out, (uint32_t)n);
	return 0;
}

int jobs_stdin(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint8_t flags = wire_get_u8(&r->in);
	size_t n;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &n);
	struct job *j = num ? roster_find(num) : &ctl;

	if (!wire_end(&r->in) || offset > (uint64_t)INT64_MAX - n ||
		flags & ~(PROTO_STDIN_TRUNCATE | PROTO_STDIN_END))
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (j->result == PROTO_RESULT_NEW)
		return keep_stdin(r, j, offset, flags, p, n);
	if (!j->input)
		return -EPIPE;
	return input_write(j->input, r, p, n, flags & PROTO_STDIN_END);
}

void jobs_cancel(struct conn *c, uint64_t id)
{
	if (id)
		roster_unpark(c, id);
}

/* The settings of ctl/, and what was written for a command that never came. */
static void load_ctl(void)
{
	cleanup_close int dir = ledger_dir(roster_fd, 0, false);
	struct stat st;

	ctl.report.fd = -1;
	if (dir < 0)
		return;
	settings_load(&ctl.set, dir);
	if (fstatat(dir, "stdin", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		ctl.stdin_size = (uint64_t)st.st_size;
}

int jobs_init(int state_fd, const struct launch_config *cfg)
{
	int fd, ret;

	config = cfg;
	if (mkdirat(state_fd, "jobs", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(state_fd, "jobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	ret = roster_load(fd);
	load_ctl();
	if (!ret)
		ret = output_init();
	budget_init();
	more.fn = on_more;
	output_on_more(&more);
	return ret;
}

int jobs_default(unsigned what, const char *text, struct err *err)
{
	cleanup_close int dir = ledger_dir(roster_fd, 0, true);
	int ret = what && what < PROTO_SETS && what != PROTO_SET_TTY ? dir : -EINVAL;

	if (ret < 0)
		return err_set(err, -ret, "a setting of ctl/: %s", strerror(-ret));
	ret = settings_set(&ctl.set, config, what, (const uint8_t *)text, strlen(text), err);
	if (ret < 0)
		return ret;
	ret = settings_save(&ctl.set, dir);
	return ret < 0 ? err_set(err, -ret, "the state volume: %s", strerror(-ret)) : 0;
}

int jobs_main(char **argv)
{
	struct job *j = roster_new(PROTO_JOB_MAIN, NULL, NULL);
	int ret = 0;

	if (!j)
		return -errno;
	for (; !ret && *argv; argv++) {
		size_t n = strlen(*argv) + 1;

		ret = ledger_write(roster_fd, j->num, "command", false, j->command_size, *argv, n);
		j->command_size += n;
	}
	if (!ret)
		job_start(j, true, config);
	return ret;
}
