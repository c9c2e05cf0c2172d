/* SPDX-License-Identifier: MIT */
/* The messages about jobs, and the beginning. The loop's thread; job.c owns the jobs. */
#include "agent/jobs.h"

#include "agent/job.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

int jobs_open(struct request *r)
{
	uint8_t kind = wire_get_u8(&r->in);
	struct job *j;
	int ret;

	if (!wire_end(&r->in) || kind != PROTO_JOB_FOREGROUND)
		return bad_request(r);
	ret = job_free_slot();
	if (ret < 0)
		return ret;
	j = job_new(0, true);
	if (!j)
		return err_set(&r->err, errno, "the state volume: %s", strerror(errno));
	memcpy(j->session, r->session->name, PROTO_SESSION);
	wire_u64(&r->out, j->num);
	return 0;
}

int jobs_write(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));
	uint64_t offset = wire_get_u64(&r->in);
	size_t n;
	const uint8_t *p = wire_get_bytes(&r->in, PROTO_MAX_DATA, &n);

	if (!wire_end(&r->in) || offset > (uint64_t)INT64_MAX - n)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (j->result != PROTO_RESULT_NEW)
		return err_set(&r->err, EBUSY, "the job has been started");
	return job_write(j, offset, p, n);
}

int jobs_start(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));
	struct launch l = {0};
	int ret = launch_parse(&r->in, &l);

	if (ret < 0 || !wire_end(&r->in)) {
		launch_fini(&l);
		return ret == -E2BIG ? ret : bad_request(r);
	}
	if (!j)
		ret = -ENOENT;
	else if (j->result != PROTO_RESULT_NEW)
		ret = err_set(&r->err, EBUSY, "the job has been started");
	else
		ret = job_park(&j->starters, r);
	if (ret == PARKED)
		job_start(j, &l);
	launch_fini(&l);
	return ret;
}

int jobs_wait(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));

	if (!wire_end(&r->in))
		return bad_request(r);
	if (!j)
		return -ENOENT;
	return job_has_ended(j) ? job_put(&r->out, j) : job_park(&j->waiters, r);
}

int jobs_info(struct request *r)
{
	uint64_t num = wire_get_u64(&r->in);
	struct job *j = num ? job_find(num) : job_newest_foreground();

	if (!wire_end(&r->in))
		return bad_request(r);
	return j ? job_put(&r->out, j) : -ENOENT;
}

int jobs_read(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));
	uint8_t stream = wire_get_u8(&r->in);
	uint64_t offset = wire_get_u64(&r->in);
	uint32_t size = wire_get_u32(&r->in);
	size_t at = r->out.len;
	uint8_t *p;
	ssize_t n;

	if (!wire_end(&r->in) || size > PROTO_MAX_DATA || stream > PROTO_STREAM_COMMAND ||
		offset > INT64_MAX)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	wire_u32(&r->out, 0);
	p = buf_reserve(&r->out, size);
	if (!p)
		return -ENOMEM;
	n = job_read(j, stream, offset, p, size);
	if (n < 0)
		return (int)n;
	r->out.len += (size_t)n;
	for (int i = 0; i < 4; i++)
		r->out.data[at + (size_t)i] = (uint8_t)((size_t)n >> (8 * i));
	return 0;
}

int jobs_kill(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));
	uint32_t sig = wire_get_u32(&r->in);

	if (!wire_end(&r->in) || sig < 1 || sig > 64)
		return bad_request(r);
	if (!j)
		return -ENOENT;
	if (!job_lives(j))
		return -ESRCH;
	if (sig == SIGKILL)
		j->killing = true; /* and again, until none is left */
	job_signal(j, (int)sig);
	return 0;
}

int jobs_drop(struct request *r)
{
	struct job *j = job_find(wire_get_u64(&r->in));
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	if (!j)
		return -ENOENT;
	ret = job_park(&j->droppers, r);
	if (ret == PARKED)
		job_drop(j);
	return ret;
}

void jobs_cancel(struct conn *c, uint64_t id)
{
	if (id)
		job_unpark(c, id);
}

int jobs_init(int state_fd, const struct launch_config *config)
{
	int fd, ret;

	if (mkdirat(state_fd, "jobs", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(state_fd, "jobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	ret = job_load(fd, config);
	return ret < 0 ? ret : output_init();
}

int jobs_main(char **argv)
{
	struct launch l = {.argv = true};
	struct job *j = job_new(JOB_MAIN, false);
	int ret = 0;

	if (!j)
		return -errno;
	for (; !ret && *argv; argv++)
		ret = job_write(j, j->command_size, (const uint8_t *)*argv, strlen(*argv) + 1);
	if (!ret)
		job_start(j, &l);
	return ret;
}
