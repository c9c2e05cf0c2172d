/* SPDX-License-Identifier: MIT */
/* The agent's clocks: timeouts that end whole trees, max_wait; many jobs at once. */
#include "test_agent_jobs.h"
#include "test_agent_procs.h"

#include <pthread.h>
#include <sys/ioctl.h>

#define GRACE_S 2 /* the agent's, between TERM and KILL */

/* Of the agent, whatever its jobs print. A sanitizer keeps much for itself. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_KIB (512u << 10)
#else
#define MEMORY_KIB (16u << 10)
#endif

static struct agent a;
static struct client c;

/* A machine that stalls may not let a command begin, or end, in time: then once more, with longer.
 */
static const char *const times[] = {"0.3", "1.2", "5", "20"};
#define LAST_TIME (times + sizeof(times) / sizeof(*times) - 1)

/* Runs a text into its timeout; what it then has printed. Its first line says that it has begun.
 * How long after the timeout it had ended, in seconds. */
static double timed_out(const char *name, const char *text, const char *want)
{
	for (const char *const *time = times;; time++) {
		const struct set sets[] = {{PROTO_SET_TIMEOUT, *time}, {0}};
		uint64_t job = start_named(&c, name, text, sets);
		struct proto_job j;
		bool stalled;
		double late;
		char *s;

		CHECK(do_job_wait(&c, job, false, &j) == 0);
		CHECK(j.result == PROTO_RESULT_TIMEOUT && j.exit_code == 124);
		late = (double)j.wall_us / 1e6 - strtod(*time, NULL);
		CHECK(late > -0.01);
		proto_job_fini(&j);
		/* Not the shell's own words about its children. */
		s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
		stalled = !*s || (late >= GRACE_S && strcmp(s, want) != 0);
		if (!stalled || time == LAST_TIME)
			CHECK_STR(s, want);
		free(s);
		CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
		if (!stalled)
			return late;
	}
}

static void by_term(void)
{
	double late = GRACE_S;

	for (int i = 0; i < 10 && late >= GRACE_S; i++)
		late = timed_out("plain", "echo before; sleep 4721.5", "before\n");
	CHECK(late < GRACE_S); /* TERM was enough */
	/* What it says at its end is kept, and its own code is not the result. */
	timed_out("trap",
		"trap 'echo last words; exit 7' TERM; echo up; while :; do sleep 0.05; done",
		"up\nlast words\n");
}

static void by_kill(void)
{
	timed_out("stubborn",
		"trap '' TERM; setsid sleep 4722.5 & (setsid sh -c 'sleep 4722.5; :' &); "
		"nohup sleep 4722.5 >/dev/null 2>&1 & "
		"sh -c 'kill -STOP $$; sleep 4722.5' & echo up; sleep 4722.5; :",
		"up\n");
	CHECK(count_marked("sleep 4722.5") == 0); /* it had ended when none was left */
}

static void that_forks_on_and_on(void)
{
	timed_out("forks",
		"trap '' TERM; f() { sleep 0.01; sleep 4723.5 & f & }; f; f; echo up; sleep 4723.5",
		"up\n");
	CHECK(count_marked("sleep 4723.5") == 0);
}

/* The clock stops with the command; what it left is not touched. */
static void not_what_is_left(void)
{
	uint8_t result = PROTO_RESULT_TIMEOUT;

	for (const char *const *time = times; result == PROTO_RESULT_TIMEOUT; time++) {
		const struct set sets[] = {{PROTO_SET_TIMEOUT, *time}, {0}};
		uint64_t job = start_named(&c, "leaver", "sleep 4724.5 & echo left", sets);
		struct proto_job j;

		CHECK(do_job_wait(&c, job, false, &j) == 0);
		result = j.result;
		proto_job_fini(&j);
		CHECK(result == PROTO_RESULT_SUCCESS ||
			(result == PROTO_RESULT_TIMEOUT && time < LAST_TIME));
		if (result == PROTO_RESULT_SUCCESS) {
			CHECK(await_marked("sleep 4724.5", 1));
			usleep((unsigned)(strtod(*time, NULL) * 1e6) + 300000);
			CHECK(count_marked("sleep 4724.5") == 1);
		}
		CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
		CHECK(count_marked("sleep 4724.5") == 0);
	}
}

/* A supervisor that was killed does not save its command. */
static void without_supervisor(void)
{
	timed_out("orphan", "kill -9 $PPID; echo up; sleep 4725.5; :", "up\n");
	CHECK(count_marked("sleep 4725.5") == 0);
	/* Nor what has left the command's session, and is the agent's child. */
	timed_out("orphan",
		"kill -9 $PPID; (setsid sleep 4725.5 &); echo up; sleep 4725.5; :", "up\n");
	CHECK(count_marked("sleep 4725.5") == 0);
}

/* Starts one that leaves its job's session for good, and whose supervisor is killed or not. */
static uint64_t start_stray(const char *name, const char *mark, bool orphaned)
{
	char text[128];
	struct proto_job j;
	uint64_t job;

	usleep(50000); /* it is younger than what was there before, by /proc's clock too */
	snprintf(text, sizeof(text), "%s (setsid %s &)", orphaned ? "kill -9 $PPID;" : "", mark);
	job = start_named(&c, name, text, NULL);
	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.exit_code == 0);
	proto_job_fini(&j);
	CHECK(await_marked(mark, 1));
	return job;
}

/* What an orphaned job has left goes with it, and nothing else does. */
static void strays(void)
{
	uint64_t before = start_stray("before", "sleep 4727.1", false);
	uint64_t first = start_stray("first", "sleep 4727.2", true);
	uint64_t second = start_stray("second", "sleep 4727.3", true);
	uint64_t after = start_stray("after", "sleep 4727.4", false);
	struct proto_job j;
	uint64_t reaped;

	/* The agent reaps this one itself, and looks then what has become of the others. */
	usleep(50000);
	reaped = start_named(&c, "reaped", "kill -9 $PPID; exit 3", NULL);
	CHECK(do_job_wait(&c, reaped, false, &j) == 0 && j.exit_code == 3);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, reaped) == 0);
	CHECK(do_u64(&c, PROTO_JOB_DROP, first) == 0);
	CHECK(count_marked("sleep 4727.2") == 0 && count_marked("sleep 4727.3") == 1);
	CHECK(do_job_kill(&c, second, SIGTERM) == 0);
	CHECK(await_marked("sleep 4727.3", 0));
	CHECK_SOON(do_job_kill(&c, second, SIGTERM) == ESRCH);
	CHECK(do_u64(&c, PROTO_JOB_DROP, second) == 0);
	CHECK(count_marked("sleep 4727.1") == 1 && count_marked("sleep 4727.4") == 1);
	CHECK(do_u64(&c, PROTO_JOB_DROP, before) == 0 && do_u64(&c, PROTO_JOB_DROP, after) == 0);
	CHECK(count_marked("sleep 4727.1") == 0 && count_marked("sleep 4727.4") == 0);
}

/* Says so when the thread that began has gone. */
static void *go_on_alone(void *arg)
{
	char text[256], *at = NULL;

	while (!at || at[2] != 'Z') {
		int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		text[n > 0 ? n : 0] = 0;
		at = strrchr(text, ')');
		close(fd);
		usleep(1000);
	}
	puts("alone");
	for (;;)
		pause();
	return arg;
}

/* What this program is for a job: a process that lives, and shows as a zombie. */
static int leaderless(void)
{
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pthread_create(&thread, NULL, go_on_alone, NULL))
		return 1;
	pthread_exit(NULL);
}

static bool has_ended(uint64_t job, uint8_t result)
{
	struct proto_job j;
	bool is;

	CHECK(do_job(&c, PROTO_JOB_INFO, job, &j) == 0);
	is = j.result == result;
	proto_job_fini(&j);
	return is;
}

/* The command that runs this program as something else. */
static const char *ourselves(const char *as)
{
	static char text[600];
	char self[512] = "";

	CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	snprintf(text, sizeof(text), "exec %s %s", self, as);
	return text;
}

static void without_first_thread(void)
{
	const struct set sets[] = {{PROTO_SET_TIMEOUT, "1"}, {0}};
	const char *text = ourselves("leaderless");
	uint64_t job;

	job = start_named(&c, "leaderless", text, NULL);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "alone"));
	CHECK(do_job_kill(&c, job, SIGTERM) == 0);
	CHECK_SOON(has_ended(job, PROTO_RESULT_SIGNAL));
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	job = start_named(&c, "leaderless", text, sets);
	CHECK_SOON(has_ended(job, PROTO_RESULT_TIMEOUT));
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

/* False: the machine stalled, and a second one came when it had to wait no more. */
static bool told_after(const char *max_wait)
{
	struct proto_job j;
	uint64_t job, next = 0;
	uint32_t pid;
	double t = seconds();

	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, max_wait) == 0);
	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, "echo up; sleep 4726.5", 21) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	if (do_job_open(&c, &next) != EBUSY) { /* which has emptied ctl/: no more to see there */
		CHECK(c.head.error == 0 && do_u64(&c, PROTO_JOB_DROP, next) == 0);
		CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
		CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "") == 0);
		return false;
	}
	CHECK(do_job_wait(&c, job, true, &j) == 0);
	CHECK(j.result == PROTO_RESULT_RUNNING && j.exit_code == -1);
	CHECK(seconds() - t > strtod(max_wait, NULL) - 0.01);
	proto_job_fini(&j);
	CHECK(do_job_wait(&c, job, true, &j) == 0 && j.result == PROTO_RESULT_RUNNING);
	proto_job_fini(&j);
	CHECK(do_job(&c, PROTO_JOB_INFO, 0, &j) == 0 && j.job == job); /* ctl/ still shows it */
	proto_job_fini(&j);
	CHECK(do_job_open(&c, &next) == 0); /* and the next can come */
	CHECK(do_u64(&c, PROTO_JOB_DROP, next) == 0);
	CHECK(do_job_kill(&c, job, SIGTERM) == 0);
	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.exit_code == 143);
	proto_job_fini(&j);
	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "") == 0);
	return true;
}

static void patience(void)
{
	const char *const *time = times;
	struct proto_job j;
	uint64_t job;
	uint32_t pid;

	while (!told_after(*time))
		CHECK(++time <= LAST_TIME);
	/* One that ends in time is told at its end. */
	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "100") == 0);
	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, "exit 4", 6) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	CHECK(do_job_wait(&c, job, true, &j) == 0 && j.exit_code == 4);
	proto_job_fini(&j);
	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "") == 0);
}

/* Any signal, to all of them. */
static void signals(void)
{
	const char *text =
		"(trap 'echo child; exit' USR1; echo up1; while :; do sleep 0.05; done) & "
		"trap 'wait; echo parent; exit 6' USR1; echo up2; "
		"while :; do sleep 0.05; done";
	uint64_t job = start_named(&c, "signals", text, NULL);
	struct proto_job j;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up1"));
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up2"));
	CHECK(do_job_kill(&c, job, 0) == EINVAL && do_job_kill(&c, job, 65) == EINVAL);
	CHECK(do_job_kill(&c, job, SIGUSR1) == 0);
	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.exit_code == 6);
	proto_job_fini(&j);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "child\n"));
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "parent\n"));
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	CHECK(do_job_make(&c, "idle", &job) == 0);
	CHECK(do_job_kill(&c, job, SIGTERM) == ESRCH);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

/* Each with its own text, settings, output and code. */
static void many_at_once(void)
{
	const int n = 200;
	uint64_t jobs[200];
	struct proto_job j;
	char name[32], text[96], env[32], want[32], *s;

	for (int i = 0; i < n; i++) {
		const struct set own[] = {{PROTO_SET_ENV, env}, {0}};

		snprintf(name, sizeof(name), "many-%d", i);
		snprintf(env, sizeof(env), "NUMBER=%d", i);
		snprintf(text, sizeof(text),
			"sleep 0.3; echo out $NUMBER; echo err %d >&2; exit %d", i, i % 100);
		jobs[i] = start_named(&c, name, text, own);
	}
	for (int i = 0; i < n; i++) {
		CHECK(do_job_wait(&c, jobs[i], false, &j) == 0 && j.exit_code == i % 100);
		proto_job_fini(&j);
		snprintf(want, sizeof(want), "out %d\n", i);
		s = do_job_read(&c, jobs[i], PROTO_STREAM_STDOUT, NULL);
		CHECK_STR(s, want);
		free(s);
		snprintf(want, sizeof(want), "err %d\n", i);
		s = do_job_read(&c, jobs[i], PROTO_STREAM_STDERR, NULL);
		CHECK_STR(s, want);
		free(s);
		CHECK(do_u64(&c, PROTO_JOB_DROP, jobs[i]) == 0);
	}
}

/* What this program is for a job: writes as fast as it can, and takes its packets back itself, so
 * that it never has to wait for the agent. */
static int noisy(void)
{
	int from[2] = {open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK),
		open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK)};
	char packet[4096];
	bool fine = write(1, "up", 2) == 2;
	int left = 1;

	while (ioctl(from[0], FIONREAD, &left) == 0 && left) /* that one is the agent's */
		usleep(1000);
	for (unsigned i = fork() != 0; fine; i++)
		fine = write(1 + (int)(i % 2), "x", 1) == 1 &&
		       (read(from[i % 2], packet, sizeof(packet)) >= 0 || errno == EAGAIN);
	return 1;
}

/* Whoever prints without end keeps no other job from ending. */
static void many_small_writes(void)
{
	const char *shell = "while :; do echo up; echo up >&2; done";
	uint64_t jobs[8], job;
	double t, longest = 0;
	char name[32];

	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "small-%d", i);
		jobs[i] = start_named(&c, name, i % 2 ? shell : ourselves("noisy"), NULL);
		CHECK(await_text(&c, jobs[i], PROTO_STREAM_STDOUT, "up"));
	}
	for (int i = 0; i < 10; i++) {
		t = seconds();
		job = start_named(&c, "true", "true", NULL);
		CHECK_SOON(has_ended(job, PROTO_RESULT_SUCCESS));
		t = seconds() - t;
		longest = t > longest ? t : longest;
		CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	}
	printf("# true beside them: %.3f s at most\n", longest);
	for (int i = 0; i < 8; i++)
		CHECK(do_u64(&c, PROTO_JOB_DROP, jobs[i]) == 0);
}

/* Nor does it keep another's output from being seen whose event was lost among so many. */
static void events_that_are_lost(void)
{
	uint64_t noise[2], job;
	char text[512], path[128];

	for (int i = 0; i < 2; i++) {
		noise[i] = start_named(&c, i ? "noise-1" : "noise-0", ourselves("noisy"), NULL);
		CHECK(await_text(&c, noise[i], PROTO_STREAM_STDOUT, "up"));
	}
	snprintf(path, sizeof(path), "%s/printed", a.dir);
	/* It prints while the agent reads nothing, and the queue of events has long been full. */
	snprintf(text, sizeof(text),
		"echo up; until grep -q 'State:.T' /proc/%d/status; do :; done; sleep 1; echo "
		"late; "
		": >%s",
		a.pid, path);
	job = start_named(&c, "late", text, NULL);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	kill(a.pid, SIGSTOP);
	for (int i = 0; i < 2000 && access(path, F_OK) < 0; i++)
		usleep(10000);
	kill(a.pid, SIGCONT);
	CHECK(access(path, F_OK) == 0);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "late"));
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(do_u64(&c, PROTO_JOB_DROP, noise[i]) == 0);
}

/* The kernel's count of what the jobs' files really take, in bytes. */
static uint64_t disk_use(void)
{
	char cmd[128];
	unsigned long long kib = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "du -sk %s/state/jobs", a.dir);
	f = popen(cmd, "r");
	CHECK(f && fscanf(f, "%llu", &kib) == 1);
	pclose(f);
	return kib << 10;
}

/* The most memory that the agent has ever had, in KiB. */
static unsigned long peak_kib(void)
{
	char path[64], line[128];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", a.pid);
	f = fopen(path, "r");
	CHECK(f);
	while (!kib && fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %lu", &kib);
	fclose(f);
	return kib;
}

/* Of one job more of its middle has gone than its own cap wants. */
static bool one_has_grown(const uint64_t *jobs, int n)
{
	bool grown = false;
	struct proto_job j;

	for (int i = 0; i < n; i++) {
		CHECK(do_job(&c, PROTO_JOB_INFO, jobs[i], &j) == 0);
		grown |= j.hole_from[0] < 32u << 20;
		proto_job_fini(&j);
	}
	return grown;
}

/* Jobs that print without end are not blocked, and stay within the budget. */
static void endless_output(void)
{
	const int n = getenv("AGENT_LONG") ? 12 : 4;
	uint64_t jobs[12];
	struct proto_job j;
	char name[32];
	double t = seconds();

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "endless-%d", i);
		jobs[i] = start_named(&c, name,
			"echo first; dd if=/dev/zero bs=64k count=1150 2>/dev/null; echo last",
			NULL);
	}
	for (int i = 0; i < n; i++) {
		CHECK(do_job_wait(&c, jobs[i], false, &j) == 0 && j.result == PROTO_RESULT_SUCCESS);
		CHECK(j.size[0] == 1150 * 65536 + 11 && j.hole_to[0] > j.hole_from[0]);
		proto_job_fini(&j);
	}
	CHECK_SOON(one_has_grown(jobs, n) && disk_use() <= 512u << 20);
	printf("# %d times 75 MB: %.1f s, %llu MiB on disk, %lu KiB in memory\n", n, seconds() - t,
		(unsigned long long)disk_use() >> 20, peak_kib());
	CHECK(peak_kib() < MEMORY_KIB);
	for (int i = 0; i < n; i++) {
		struct buf b;
		size_t at = client_begin(&c, &b, PROTO_JOB_READ), len;
		const uint8_t *p;

		wire_u64(&b, jobs[i]);
		wire_u8(&b, PROTO_STREAM_STDOUT);
		wire_u64(&b, 1150 * 65536 + 6);
		wire_u32(&b, 100);
		CHECK(client_call(&c, &b, at) == 0);
		p = wire_get_bytes(&c.in, 100, &len);
		CHECK(len == 5 && memcmp(p, "last\n", 5) == 0);
		CHECK(do_u64(&c, PROTO_JOB_DROP, jobs[i]) == 0);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "leaderless") == 0)
		return leaderless();
	if (argc > 1 && strcmp(argv[1], "noisy") == 0)
		return noisy();
	if (!may_test())
		return 77;
	mark_ours();
	agent_start(&a, "0");
	client_open(&c, &a, "timeout");
	TEST(by_term);
	TEST(by_kill);
	TEST(that_forks_on_and_on);
	TEST(not_what_is_left);
	TEST(without_supervisor);
	TEST(strays);
	TEST(without_first_thread);
	TEST(patience);
	TEST(signals);
	TEST(many_at_once);
	TEST(many_small_writes);
	TEST(events_that_are_lost);
	TEST(endless_output);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
