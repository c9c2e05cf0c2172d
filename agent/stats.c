/* SPDX-License-Identifier: MIT */
/* Usage from the control group, /proc and the jobs; what is not known is left out. Loop's thread.
 */
#include "agent/stats.h"

#include "agent/cgroup.h"
#include "agent/clock.h"
#include "agent/nodes.h"
#include "agent/roster.h"
#include "agent/sys.h"
#include "agent/usage.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>

static int64_t started_ms; /* constant after stats_init() */

void stats_init(void)
{
	started_ms = clock_ms();
}

/* -1: not known. */
static int count_processes(void)
{
	cleanup_close int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(8) uint8_t batch[32768];
	int count = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = sys_getdents(fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			count += isdigit((unsigned char)d->name[0]) ? 1 : 0;
		}
	return count;
}

/* What no control group says, by the processes themselves. */
static void put_usage(struct buf *out, unsigned known)
{
	struct usage u;

	if (known == (CGROUP_MEMORY | CGROUP_CPU | CGROUP_PIDS) || usage_read(&u) < 0)
		return;
	if (!(known & CGROUP_MEMORY))
		buf_printf(out, "memory_bytes %" PRIu64 "\n", u.memory);
	if (!(known & CGROUP_CPU))
		buf_printf(out,
			"cpu_usage_usec %" PRIu64 "\ncpu_user_usec %" PRIu64
			"\ncpu_system_usec %" PRIu64 "\n",
			u.user_us + u.system_us, u.user_us, u.system_us);
	if (!(known & CGROUP_PIDS))
		buf_printf(out, "pids %" PRIu64 "\n", u.threads);
}

struct totals {
	unsigned jobs, running;
	uint64_t bytes;
};

static void add_job(struct job *j, void *arg)
{
	struct totals *t = arg;

	t->jobs++;
	t->running += j->result == PROTO_RESULT_RUNNING ? 1 : 0;
	t->bytes += job_bytes(j);
}

static void add_nodes(struct session *s, void *arg)
{
	size_t *n = arg;

	pthread_mutex_lock(&s->lock);
	*n += s->nodes.n - NODE_ROOTS;
	pthread_mutex_unlock(&s->lock);
}

int stats_answer(struct request *r)
{
	struct totals t = {0};
	size_t nodes = 0;
	struct buf text;
	int n, ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	roster_each(add_job, &t);
	sessions_each(add_nodes, &nodes);
	n = count_processes();
	buf_init(&text, PROTO_CONFIG_MAX);
	put_usage(&text, cgroup_stats(&text));
	if (n >= 0)
		buf_printf(&text, "processes %d\n", n);
	buf_printf(&text,
		"jobs %u\njobs_running %u\nstate_bytes %" PRIu64
		"\nnodes %zu\nuptime_seconds %lld\n",
		t.jobs, t.running, t.bytes, nodes, (long long)(clock_ms() - started_ms) / 1000);
	ret = text.error;
	if (!ret)
		wire_bytes(&r->out, text.data, text.len);
	buf_fini(&text);
	return ret;
}
