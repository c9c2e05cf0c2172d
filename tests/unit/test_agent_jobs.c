/* SPDX-License-Identifier: MIT */
/* The agent's jobs, through the real protocol: output and its order, results, kills. */
#include "test_agent_jobs.h"
#include "test_agent_procs.h"

static struct agent a;
static struct client c;

static const struct set none[] = {{0}};

/* Runs a text; its result and exit code. */
static int exit_of(const char *text, const struct set *sets, uint8_t *result)
{
	struct proto_job j;
	int code;

	run_job(&c, text, strlen(text), sets ? sets : none, &j);
	code = j.exit_code;
	*result = j.result;
	proto_job_fini(&j);
	return code;
}

static char *output_of(const char *text, const struct set *sets, uint8_t stream)
{
	struct proto_job j;
	uint64_t job = run_job(&c, text, strlen(text), sets ? sets : none, &j);

	proto_job_fini(&j);
	return do_job_read(&c, job, stream, NULL);
}

static void expect(const char *text, const struct set *sets, const char *want)
{
	char *got = output_of(text, sets, PROTO_STREAM_OUTPUT);

	CHECK_STR(got, want);
	free(got);
}

static void streams_are_apart(void)
{
	struct proto_job j;
	uint64_t job = run_text(&c, "echo out; echo err >&2; echo more\n", &j);
	char *s;

	CHECK(j.result == PROTO_RESULT_SUCCESS && j.exit_code == 0 && j.pid > 1);
	CHECK(j.size[0] == 9 && j.size[1] == 4 && j.size[2] == 13 && j.wall_us > 0);
	CHECK_STR(j.command, "echo out; echo err >&2; echo more\n");
	CHECK_STR(j.words, "");
	proto_job_fini(&j);
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "out\nmore\n");
	free(s);
	s = do_job_read(&c, job, PROTO_STREAM_STDERR, NULL);
	CHECK_STR(s, "err\n");
	free(s);
	s = do_job_read(&c, job, PROTO_STREAM_OUTPUT, NULL);
	CHECK_STR(s, "out\nerr\nmore\n");
	free(s);
	s = do_job_read(&c, job, PROTO_STREAM_COMMAND, NULL);
	CHECK_STR(s, "echo out; echo err >&2; echo more\n");
	free(s);
	CHECK(do_job(&c, PROTO_JOB_INFO, 0, &j) == 0 && j.job == job);
	proto_job_fini(&j);
	CHECK(do_job(&c, PROTO_JOB_INFO, 77777, &j) == ENOENT);
}

static void exit_codes(void)
{
	uint8_t r;

	CHECK(exit_of("exit 0", NULL, &r) == 0 && r == PROTO_RESULT_SUCCESS);
	CHECK(exit_of("exit 1", NULL, &r) == 1 && r == PROTO_RESULT_EXIT_CODE);
	CHECK(exit_of("exit 255", NULL, &r) == 255 && r == PROTO_RESULT_EXIT_CODE);
	CHECK(exit_of("no-such-command-at-all", NULL, &r) == 127 && r == PROTO_RESULT_EXIT_CODE);
	CHECK(exit_of("/etc/passwd", NULL, &r) == 126 && r == PROTO_RESULT_EXIT_CODE);
	CHECK(exit_of("kill -SEGV $$", NULL, &r) == 139 && r == PROTO_RESULT_SIGNAL);
	CHECK(exit_of("", NULL, &r) == 0 && r == PROTO_RESULT_SUCCESS);
}

static void starts_that_fail(void)
{
	const struct set no_shell[] = {{PROTO_SET_SHELL, "no-such-shell\n-c"}, {0}};
	const struct set argv[] = {{SET_ARGV, ""}, {0}};
	struct proto_job j;
	uint8_t r;

	run_job(&c, "true", 4, no_shell, &j);
	CHECK(j.result == PROTO_RESULT_START_FAILED && j.exit_code == 127);
	CHECK_STR(j.words, "no-such-shell: not found");
	proto_job_fini(&j);
	CHECK(exit_of("/etc/passwd", argv, &r) == 126 && r == PROTO_RESULT_START_FAILED);
	CHECK(exit_of("", argv, &r) == 127 && r == PROTO_RESULT_START_FAILED);
	CHECK(exit_of("#!/no/interpreter\n", NULL, &r) == 127 && r == PROTO_RESULT_START_FAILED);
	CHECK(do_job_open(&c, &j.job) == 0);
	CHECK(do_u64(&c, PROTO_JOB_DROP, j.job) == 0);
	CHECK(do_u64(&c, PROTO_JOB_DROP, j.job) == ENOENT);
}

static void settings(void)
{
	const struct set env[] = {
		{PROTO_SET_ENV, "A=1 2\n\nB=x=y\nLEFT\n"}, {PROTO_SET_CWD, "/"}, {0}};
	const struct set user[] = {{PROTO_SET_USER, "daemon"}, {0}};
	const struct set ids[] = {{PROTO_SET_USER, "4567:89"}, {0}};
	const struct set argv[] = {{SET_ARGV, ""}, {0}};
	const struct set bash[] = {{PROTO_SET_SHELL, "sh\n-ec"}, {0}};
	char want[128], *s;
	struct proto_job j;
	uint64_t job;

	expect("echo \"$A,$B,$LEFT\"; pwd", env, "1 2,x=y,\n/\n");
	expect("id -u; id -g; echo $USER $LOGNAME $HOME", user, "1\n1\ndaemon daemon /usr/sbin\n");
	expect("id -u; id -g; id -G", ids, "4567\n89\n89\n");
	snprintf(want, sizeof(want), "%s/ws\n", a.dir);
	expect("pwd", NULL, want);
	expect("false; echo not reached", bash, "");
	expect("#!/bin/sh -e\necho \"$0\"; false; echo not reached", NULL, "/proc/self/fd/3\n");
	expect("cat; echo end", NULL, "end\n");
	/* Opened anew, as another user: no packets then, so each stream for itself. */
	s = output_of(
		"echo a > /dev/stdout; echo b > /dev/stderr; echo c", ids, PROTO_STREAM_STDOUT);
	CHECK_STR(s, "a\nc\n");
	free(s);
	expect("#!/bin/sh\necho mine", ids, "mine\n");
	job = run_job(&c, "printf\0%s-%s\0a b\0", 18, argv, &j);
	proto_job_fini(&j);
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "a b-");
	free(s);
}

static void long_scripts(void)
{
	size_t n = 10u << 20;
	char *text = malloc(n + 64);
	const struct set ids[] = {{PROTO_SET_USER, "4567:89"}, {0}};
	struct proto_job j;
	uint64_t job;
	char *s;

	memset(text, '#', n);
	for (size_t i = 99; i < n; i += 100)
		text[i] = '\n';
	strcpy(text + n - 1, "\necho done\n");
	job = run_job(&c, text, strlen(text), ids, &j);
	CHECK(j.result == PROTO_RESULT_SUCCESS && j.command_size == strlen(text));
	proto_job_fini(&j);
	s = do_job_read(&c, job, PROTO_STREAM_OUTPUT, NULL);
	CHECK_STR(s, "done\n");
	free(s);
	free(text);
}

static void order_of_writes(void)
{
	char *got, *want = malloc(400000), *p = want;

	got = output_of("i=0; while [ $i -lt 5000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done",
		NULL, PROTO_STREAM_OUTPUT);
	for (int i = 0; i < 5000; i++)
		p += sprintf(p, "o%d\ne%d\n", i, i);
	CHECK(strcmp(got, want) == 0);
	free(got);
	free(want);
}

static void all_of_a_long_output(void)
{
	struct proto_job j;
	double t = seconds();
	uint64_t job = run_text(&c, "head -c 30000000 /dev/zero | tr '\\0' x; printf end >&2", &j);
	size_t n;
	char *s;

	printf("# 30 MB: %.2f s\n", seconds() - t);
	CHECK(j.size[0] == 30000000 && j.size[1] == 3 && j.size[2] == 30000003);
	proto_job_fini(&j);
	s = do_job_read(&c, job, PROTO_STREAM_OUTPUT, &n);
	CHECK(n == 30000003 && memcmp(s + n - 3, "end", 3) == 0);
	for (size_t i = 0; i < n - 3; i++)
		CHECK(s[i] == 'x');
	free(s);
}

static void head_and_tail(void)
{
	struct proto_job j;
	uint64_t job = run_text(
		&c, "printf begin; head -c 100000000 /dev/zero | tr '\\0' y; printf end", &j);
	const size_t mib = 1 << 20;
	size_t n;
	char *s;

	CHECK(j.size[0] == 100000008 && j.size[2] == 100000008);
	CHECK(j.hole_from[0] == 32 * mib && j.hole_to[0] > 32 * mib);
	CHECK(j.hole_to[0] <= j.size[0] - 32 * mib && j.hole_to[0] > j.size[0] - 34 * mib);
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, &n);
	CHECK(n == 100000008 && memcmp(s, "beginyyy", 8) == 0 && memcmp(s + n - 4, "yend", 4) == 0);
	CHECK(s[40 * mib] == 0 && s[j.hole_from[0] - 1] == 'y' && s[j.hole_to[0]] == 'y');
	proto_job_fini(&j);
	free(s);
}

/* The command has ended; what it left behind goes on, and prints. */
static void left_in_the_background(void)
{
	struct proto_job j;
	uint64_t job =
		run_text(&c, "(until [ -e go ]; do sleep 0.05; done; echo late) & echo early", &j);
	char *s;

	CHECK(j.result == PROTO_RESULT_SUCCESS && j.size[0] == 6);
	proto_job_fini(&j);
	put_text(ws_path(&a, "go"), "");
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "late\n"));
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "early\nlate\n");
	free(s);
}

static void whole_trees_die(void)
{
	struct proto_job j;
	uint64_t job;
	uint32_t pid;
	const char *text =
		"setsid sleep 4711.25 & (setsid sh -c 'trap \"\" TERM; sleep 4711.25; true' "
		"&) ; nohup sleep 4711.25 >/dev/null 2>&1 & sleep 4711.25; true";

	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, text, strlen(text)) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0 && pid > 1);
	CHECK(do_job_open(&c, &j.job) == EBUSY);
	CHECK(do_job_start(&c, job, NULL, &pid) == EBUSY);
	CHECK(await_marked("sleep 4711.25", 4));
	CHECK(do_job_kill(&c, job, SIGKILL) == 0);
	CHECK(do_job_wait(&c, job, false, &j) == 0);
	CHECK(j.result == PROTO_RESULT_SIGNAL && j.exit_code == 137);
	proto_job_fini(&j);
	CHECK(await_marked("sleep 4711.25", 0));
	CHECK_SOON(do_job_kill(&c, job, SIGTERM) == ESRCH);
	/* What an ended command left goes with its job. */
	job = run_text(&c, "setsid sleep 4712.25 & echo started", &j);
	proto_job_fini(&j);
	CHECK(await_marked("sleep 4712.25", 1));
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	CHECK(count_marked("sleep 4712.25") == 0);
	CHECK(do_job(&c, PROTO_JOB_INFO, job, &j) == ENOENT);
}

static void term_reaches_the_tree(void)
{
	struct proto_job j;
	uint64_t job;
	uint32_t pid;
	const char *text =
		"trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
	char *s;

	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, text, strlen(text)) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "ready"));
	CHECK(do_job_kill(&c, job, SIGTERM) == 0);
	CHECK(do_job_wait(&c, job, false, &j) == 0);
	CHECK(j.result == PROTO_RESULT_EXIT_CODE && j.exit_code == 7);
	proto_job_fini(&j);
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK(strstr(s, "ready\ngot it\n"));
	free(s);
}

/* As `kill -9 -1` would in a container, without harming this machine. Often: neither may be so
 * quick that the agent does not know whose end it is. */
static void supervisor_killed(void)
{
	struct proto_job j;
	uint64_t job;
	char *s;

	for (int i = 0; i < 30; i++) {
		job = run_text(&c, "echo before; kill -9 $PPID; kill -9 $$", &j);
		CHECK(j.result == PROTO_RESULT_SIGNAL && j.exit_code == 137);
		proto_job_fini(&j);
		s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
		CHECK_STR(s, "before\n");
		free(s);
		/* Only the supervisor: the command goes on, and its code arrives. */
		run_text(&c,
			i % 2 ? "kill -9 $PPID; echo after; exit 9"
			      : "kill -9 $PPID; sleep 0.05; echo after; exit 9",
			&j);
		CHECK(j.result == PROTO_RESULT_EXIT_CODE && j.exit_code == 9 && j.size[0] == 6);
		proto_job_fini(&j);
	}
}

static void supervisor_stopped(void)
{
	uint64_t job = start_named(&c, "stopped", "kill -STOP $PPID; sleep 0.1; exit 4", NULL);
	struct proto_job j;

	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.exit_code == 4);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

static void cancel_a_wait(void)
{
	struct proto_job j;
	uint64_t job, id;
	uint32_t pid;
	struct buf b;
	size_t at;

	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, "sleep 60", 8) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	at = client_begin(&c, &b, PROTO_JOB_WAIT);
	wire_u64(&b, job);
	wire_u8(&b, 0);
	id = c.next_id;
	client_send(&c, &b, at);
	buf_init(&b, 100);
	at = proto_begin(&b, PROTO_CANCEL, 0, 0, 0, 0);
	wire_u64(&b, id);
	client_send(&c, &b, at);
	CHECK(client_recv(&c) && c.head.id == id && c.head.error == EINTR);
	CHECK(do_job(&c, PROTO_JOB_INFO, job, &j) == 0 && j.result == PROTO_RESULT_RUNNING);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

static int do_job_more(uint64_t job, uint8_t stream, uint64_t offset, struct proto_job *j)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_JOB_MORE);
	int ret;

	wire_u64(&b, job);
	wire_u8(&b, stream);
	wire_u64(&b, offset);
	ret = client_call(&c, &b, at);
	if (!ret) {
		proto_get_job(&c.in, j);
		CHECK(wire_end(&c.in));
	}
	return ret;
}

/* Each answer comes when the stream has grown beyond what was asked for, and at the end. */
static void more_is_told(void)
{
	static const char text[] = "echo a; sleep 0.3; echo b; sleep 0.3; echo c >&2; "
				   "until [ -e told ]; do sleep 0.05; done; sleep 0.3";
	struct proto_job j;
	uint64_t job;
	uint32_t pid;

	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, text, sizeof(text) - 1) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	CHECK(do_job_more(job, PROTO_STREAM_STDOUT, 0, &j) == 0 && j.size[0] >= 2);
	proto_job_fini(&j);
	CHECK(do_job_more(job, PROTO_STREAM_STDOUT, 2, &j) == 0 && j.size[0] == 4);
	proto_job_fini(&j);
	CHECK(do_job_more(job, PROTO_STREAM_OUTPUT, 4, &j) == 0 && j.size[2] == 6);
	CHECK(j.result == PROTO_RESULT_RUNNING);
	proto_job_fini(&j);
	put_text(ws_path(&a, "told"), "");
	CHECK(do_job_more(job, PROTO_STREAM_STDOUT, UINT64_MAX, &j) == 0);
	CHECK(j.result == PROTO_RESULT_SUCCESS);
	proto_job_fini(&j);
	CHECK(do_job_more(job, PROTO_STREAM_STDOUT, 4, &j) == 0); /* it has ended: at once */
	proto_job_fini(&j);
	CHECK(do_job_more(job, PROTO_STREAM_COMMAND, 0, &j) == EINVAL);
	CHECK(do_job_more(12345, PROTO_STREAM_STDOUT, 0, &j) == ENOENT);
}

/* A foreground job that was opened and left by one who has gone does not block the next. */
static void slot_of_one_who_has_gone(void)
{
	struct client d;
	uint64_t job;

	client_open(&d, &a, "leaver");
	CHECK(do_job_open(&d, &job) == 0);
	CHECK(do_job_open(&c, &job) == EBUSY);
	client_close(&d);
	CHECK_SOON(do_job_open(&c, &job) == 0);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

/* A connection that broke before the answer: whoever asks next gets the slot, and the input. */
static void slot_of_one_who_never_heard(void)
{
	uint64_t first, job, other;
	struct client d;
	char *s;

	client_open(&d, &a, "back");
	CHECK(do_job_stdin(&d, 0, 0, 0, "input") == 5);
	CHECK(do_job_open(&d, &first) == 0);
	client_close(&d);
	client_open(&d, &a, "back");
	CHECK(do_job_open(&d, &job) == 0 && job != first);
	s = do_job_read(&d, job, PROTO_STREAM_STDIN, NULL);
	CHECK_STR(s, "input");
	free(s);
	CHECK(do_job_write(&d, first, 0, "cat", 3) == ENOENT);
	CHECK(do_job_open(&d, &other) == EBUSY);
	CHECK(do_job_write(&d, job, 0, "cat", 3) == 0);
	client_close(&d);
	client_open(&d, &a, "back");
	CHECK(do_job_open(&d, &other) == EBUSY); /* it was named: it is known */
	CHECK(do_job_open(&c, &other) == EBUSY);
	CHECK(do_u64(&d, PROTO_JOB_DROP, job) == 0);
	CHECK(do_job_open(&d, &job) == 0);
	client_close(&d);
	client_open(&d, &a, "back");
	CHECK(do_job_open(&c, &other) == 0 && other != job);
	CHECK(do_u64(&c, PROTO_JOB_DROP, other) == 0);
	client_close(&d);
}

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static unsigned long resident_kib(void)
{
	char path[64];
	unsigned long pages = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", a.pid);
	f = fopen(path, "r");
	CHECK(f && fscanf(f, "%*u %lu", &pages) == 1);
	fclose(f);
	return pages * 4;
}

/* Root can hold a supervisor's pipe open, and write to it when the job has gone. */
static void a_report_outlives_its_job(void)
{
	char text[256], fds[64], *s;
	uint64_t job, holder;
	struct proto_job j;

	CHECK(mkfifo(ws_path(&a, "hold"), 0600) == 0);
	job = start_named(&c, "reported", "echo $PPID; read wait < hold", NULL);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "\n"));
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	snprintf(fds, sizeof(fds), "/proc/%d/fd", atoi(s));
	free(s);
	CHECK_SOON(entries(fds) == 3); /* with . and ..: a supervisor has that one only */
	snprintf(text, sizeof(text),
		"cd %s; exec 9> `ls`; cd -; echo up; until [ -e let-go ]; do sleep 0.05; done; "
		"head -c 48 /dev/zero >&9 || echo nobody there",
		fds);
	holder = start_named(&c, "holder", text, NULL);
	CHECK(await_text(&c, holder, PROTO_STREAM_STDOUT, "up"));
	put_text(ws_path(&a, "hold"), "x\n");
	CHECK(do_job_wait(&c, job, false, &j) == 0);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	put_text(ws_path(&a, "let-go"), "");
	CHECK(do_job_wait(&c, holder, false, &j) == 0);
	proto_job_fini(&j);
	s = do_job_read(&c, holder, PROTO_STREAM_STDOUT, NULL);
	CHECK(strstr(s, "up\nnobody there\n"));
	free(s);
	CHECK(do_u64(&c, PROTO_JOB_DROP, holder) == 0);
}

static void many_short_ones_leave_nothing(void)
{
	const unsigned rounds = getenv("AGENT_LONG") ? 10000 : 300;
	char jobs[100], fds[64];
	unsigned before = 0;
	unsigned long kib = 0;
	uint8_t r;

	snprintf(jobs, sizeof(jobs), "%s/state/jobs", a.dir);
	snprintf(fds, sizeof(fds), "/proc/%d/fd", a.pid);
	for (unsigned i = 0; i < rounds; i++) {
		CHECK(exit_of("true", NULL, &r) == 0);
		if (i == 100) {
			before = entries(fds);
			kib = resident_kib();
		}
	}
	CHECK_SOON(entries(fds) <= before + 2);
	printf("# descriptors %u, then %u; %lu KiB, then %lu\n", before, entries(fds), kib,
		resident_kib());
	CHECK_SOON(entries(jobs) <= 64 + 5); /* with ., .., 0, next and spare */
}

/* Those that ended last are kept, not those that were made last. */
static void the_last_to_end_is_kept(void)
{
	struct proto_job j;
	uint64_t slow, next = 0;
	uint32_t pid;
	uint8_t r;

	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "0.01") == 0);
	CHECK(do_job_open(&c, &slow) == 0);
	CHECK(do_job_write(&c, slow, 0, "sleep 4714.5", 12) == 0);
	CHECK(do_job_start(&c, slow, NULL, &pid) == 0);
	CHECK(do_job_wait(&c, slow, true, &j) == 0 && j.result == PROTO_RESULT_RUNNING);
	proto_job_fini(&j);
	CHECK(do_job_set(&c, 0, PROTO_SET_MAX_WAIT, "") == 0);
	for (int i = 0; i < 70; i++)
		CHECK(exit_of("true", NULL, &r) == 0);
	CHECK(do_job_kill(&c, slow, SIGTERM) == 0);
	CHECK(do_job_wait(&c, slow, false, &j) == 0 && j.exit_code == 143);
	proto_job_fini(&j);
	for (int i = 0; i < 63; i++) {
		CHECK(do_job(&c, PROTO_JOB_INFO, slow, &j) == 0 && j.exit_code == 143);
		proto_job_fini(&j);
		next = run_text(&c, "true", &j);
		proto_job_fini(&j);
	}
	CHECK(do_job(&c, PROTO_JOB_INFO, slow, &j) == 0);
	proto_job_fini(&j);
	CHECK(next == slow + 70 + 63);
	CHECK(exit_of("true", NULL, &r) == 0);
	CHECK(do_job(&c, PROTO_JOB_INFO, slow, &j) == ENOENT);
}

static void latency(void)
{
	const struct set argv[] = {{SET_ARGV, ""}, {0}};
	double t = seconds();
	uint8_t r;

	for (int i = 0; i < 200; i++)
		CHECK(exit_of("/bin/true", argv, &r) == 0);
	printf("# open, write, start, wait of true: %.3f ms\n", (seconds() - t) * 1000 / 200);
}

int main(void)
{
	if (!may_test())
		return 77;
	setenv("LEFT", "over", 1);
	mark_ours();
	agent_start(&a, "0");
	client_open(&c, &a, "jobs");
	TEST(streams_are_apart);
	TEST(exit_codes);
	TEST(starts_that_fail);
	TEST(settings);
	TEST(long_scripts);
	TEST(order_of_writes);
	TEST(all_of_a_long_output);
	TEST(head_and_tail);
	TEST(left_in_the_background);
	TEST(whole_trees_die);
	TEST(term_reaches_the_tree);
	TEST(supervisor_killed);
	TEST(supervisor_stopped);
	TEST(cancel_a_wait);
	TEST(more_is_told);
	TEST(slot_of_one_who_has_gone);
	TEST(a_report_outlives_its_job);
	TEST(many_short_ones_leave_nothing);
	TEST(the_last_to_end_is_kept);
	TEST(slot_of_one_who_never_heard);
	TEST(latency);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
