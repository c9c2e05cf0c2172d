/* SPDX-License-Identifier: MIT */
/* The agent's standard input of jobs, and its terminals. */
#include "test_agent_jobs.h"
#include "test_agent_procs.h"

static struct agent a;
static struct client c;

static const struct set piped[] = {{PROTO_SET_TTY, "pipe"}, {0}};
static const struct set screen[] = {{PROTO_SET_TTY, "91x17"}, {0}};

static void printed(uint64_t job, const char *want)
{
	char *s = do_job_read(&c, job, PROTO_STREAM_OUTPUT, NULL);

	CHECK_STR(s, want);
	free(s);
}

static void ended(uint64_t job, int code)
{
	struct proto_job j;

	CHECK(do_job_wait(&c, job, false, &j) == 0);
	CHECK(j.exit_code == code);
	proto_job_fini(&j);
}

static void drop(uint64_t job)
{
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

/* ctl/stdin is the next foreground command's, once. */
static void of_the_next_command(void)
{
	struct proto_job j;
	uint64_t job;
	char *s;

	CHECK(do_job_stdin(&c, 0, 0, PROTO_STDIN_TRUNCATE, "not this") == 8);
	CHECK(do_job_stdin(&c, 0, 0, PROTO_STDIN_TRUNCATE, "one\n") == 4);
	CHECK(do_job_stdin(&c, 0, 4, 0, "two\n") == 4);
	s = do_job_read(&c, 0, PROTO_STREAM_STDIN, NULL);
	CHECK_STR(s, "one\ntwo\n");
	free(s);
	job = run_text(&c, "cat; echo end", &j);
	CHECK(j.stdin_size == 8);
	proto_job_fini(&j);
	printed(job, "one\ntwo\nend\n");
	CHECK(do_job_stdin(&c, job, 0, 0, "late") == -EPIPE);
	s = do_job_read(&c, job, PROTO_STREAM_STDIN, NULL);
	CHECK_STR(s, "one\ntwo\n");
	free(s);
	s = do_job_read(&c, 0, PROTO_STREAM_STDIN, NULL);
	CHECK_STR(s, "");
	free(s);
	job = run_text(&c, "cat; echo end", &j);
	proto_job_fini(&j);
	printed(job, "end\n");
}

static void before_the_start(void)
{
	uint64_t job;
	uint32_t pid;

	CHECK(do_job_make(&c, "fed", &job) == 0);
	CHECK(do_job_stdin(&c, job, 0, 0, "hidden") == 6);
	CHECK(do_job_set(&c, job, PROTO_SET_USER, "4567:89") == 0);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, job) == 0);
	CHECK(do_job_write(&c, job, 0, "cat /dev/stdin; sleep 4716.5", 28) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "hidden"));
	CHECK(do_job_stdin(&c, job, 0, 0, "more") == -EPIPE); /* none: never live */
	drop(job);
	CHECK(do_job_stdin(&c, job, 0, 0, "more") == -ENOENT);
}

static void live(void)
{
	uint64_t job;
	uint32_t pid;

	CHECK(do_job_make(&c, "live", &job) == 0);
	CHECK(do_job_stdin(&c, job, 0, 0, "first\n") == 6);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, job) == 0);
	CHECK(do_job_write(&c, job, 0, "while read x; do echo got $x; done; exit 3", 42) == 0);
	CHECK(do_job_start(&c, job, piped, &pid) == 0);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "got first\n"));
	CHECK(do_job_stdin(&c, job, 0, 0, "second\n") == 7);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "got second\n"));
	CHECK(do_job_stdin(&c, job, 0, PROTO_STDIN_END, "third\n") == 6);
	ended(job, 3);
	printed(job, "got first\ngot second\ngot third\n");
	CHECK(do_job_stdin(&c, job, 0, 0, "late") == -EPIPE);
	drop(job);
	/* Ended before it was started. */
	CHECK(do_job_make(&c, "live", &job) == 0);
	CHECK(do_job_stdin(&c, job, 0, PROTO_STDIN_END, "all\n") == 4);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, job) == 0);
	CHECK(do_job_write(&c, job, 0, "cat", 3) == 0);
	CHECK(do_job_start(&c, job, piped, &pid) == 0);
	ended(job, 0);
	printed(job, "all\n");
	drop(job);
}

/* Nobody reads: the writer waits, can be interrupted, and costs the agent nothing. */
static void full(void)
{
	uint64_t job = start_named(&c, "deaf", "echo up; sleep 4717.5", piped), id;
	static char piece[PROTO_MAX_DATA];
	struct proto_job j;
	struct client d;
	uint32_t taken;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	memset(piece, 'x', sizeof(piece));
	/* A large write is taken as far as there is room at once. */
	send_stdin(&c, job, 0, 0, piece, sizeof(piece));
	CHECK(client_recv(&c) && c.head.error == 0);
	taken = wire_get_u32(&c.in);
	CHECK(taken > 0 && taken <= 65536);
	send_stdin(&c, job, 0, 0, piece, sizeof(piece));
	id = c.next_id;
	/* The loop serves others meanwhile. */
	client_open(&d, &a, "other");
	CHECK(do_job(&d, PROTO_JOB_INFO, job, &j) == 0 && j.result == PROTO_RESULT_RUNNING);
	proto_job_fini(&j);
	send_stdin(&d, job, 0, 0, "lost", 4);
	client_close(&d); /* who has gone waits no more */
	do_cancel(&c, id);
	CHECK(client_recv(&c) && c.head.id == id && c.head.error == EINTR);
	/* Only so many wait. */
	for (int i = 0; i < 65; i++)
		send_stdin(&c, job, 0, 0, piece, sizeof(piece));
	CHECK(client_recv(&c) && c.head.error == EAGAIN && c.head.id == id + 65);
	/* Those that wait are told that it has ended. */
	client_open(&d, &a, "other");
	CHECK(do_job_kill(&d, job, SIGKILL) == 0);
	client_close(&d);
	for (int i = 0; i < 64; i++)
		CHECK(client_recv(&c) && c.head.error == EPIPE &&
			c.head.id == id + 1 + (unsigned)i);
	drop(job);
}

/* 300 KB through a pipe, by a reader that is slow at first. */
static void in_order(void)
{
	uint64_t job = start_named(&c, "slow", "sleep 0.2; cksum", piped);
	const size_t n = 300000;
	static char text[300001];
	struct proto_job j;
	size_t at = 0;
	char *want;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)('a' + i % 23);
	while (at < n) {
		send_stdin(&c, job, at, PROTO_STDIN_END, text + at, n - at);
		CHECK(client_recv(&c) && c.head.error == 0);
		at += wire_get_u32(&c.in);
	}
	ended(job, 0);
	put_text(ws_path(&a, "same"), text);
	run_text(&c, "cksum < same", &j);
	want = do_job_read(&c, j.job, PROTO_STREAM_OUTPUT, NULL);
	proto_job_fini(&j);
	printed(job, want);
	free(want);
	drop(job);
}

static void reader_has_closed(void)
{
	uint64_t job = start_named(&c, "closed", "exec <&-; echo up; sleep 4718.5", piped);

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	CHECK(do_job_stdin(&c, job, 0, 0, "x") == -EPIPE);
	drop(job);
}

static void terminal(void)
{
	uint64_t job = start_named(&c, "screen",
		"tty >/dev/null && test -t 1 && test -t 2 && echo is one; stty size; echo $TERM; "
		"echo err >&2; (: </dev/tty) && echo controls; "
		"read x; echo \"<$x>\"; stty size; cat; echo end",
		screen);
	char *s;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "controls\r\n"));
	s = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "is one\r\n17 91\r\nxterm\r\nerr\r\ncontrols\r\n");
	free(s);
	s = do_job_get(&c, job, PROTO_SET_TTY);
	CHECK_STR(s, "91x17");
	free(s);
	CHECK(do_job_set(&c, job, PROTO_SET_TTY, "none") == EBUSY);
	CHECK(do_job_set(&c, job, PROTO_SET_TTY, "100x50") == 0);
	CHECK(do_job_stdin(&c, job, 0, 0, "hello\n") == 6);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "hello\r\n<hello>\r\n50 100\r\n"));
	CHECK(do_job_stdin(&c, job, 0, PROTO_STDIN_END, "") == 0);
	ended(job, 0);
	CHECK(await_text(&c, job, PROTO_STREAM_OUTPUT, "end\r\n"));
	s = do_job_read(&c, job, PROTO_STREAM_STDERR, NULL);
	CHECK_STR(s, "");
	free(s);
	CHECK(do_job_set(&c, job, PROTO_SET_TTY, "80x24") == EBUSY);
	drop(job);
}

static void terminal_keys(void)
{
	const struct set user[] = {{PROTO_SET_TTY, "80x24"}, {PROTO_SET_USER, "4567:89"},
		{PROTO_SET_ENV, "TERM=vt100"}, {0}};
	uint64_t job = start_named(&c, "keys",
		"stat -c '%u %g' $(tty); echo $TERM; : > $(tty) && echo mine; sleep 4719.5", user);
	struct proto_job j;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "4567 89\r\nvt100\r\nmine\r\n"));
	/* A shell that is about to become it may swallow the signal. */
	CHECK(await_marked("sleep 4719.5", 1));
	CHECK(do_job_stdin(&c, job, 0, 0, "\003") == 1); /* ^C */
	CHECK(do_job_wait(&c, job, false, &j) == 0);
	CHECK(j.result == PROTO_RESULT_SIGNAL && j.exit_code == 130);
	proto_job_fini(&j);
	drop(job);
}

/* All that a terminal's command printed is there when it has ended. */
static void terminal_output(void)
{
	uint64_t job = start_named(&c, "many", "seq 1 20000; exit 5", screen);
	char *s, *want = malloc(200000), *p = want;

	ended(job, 5);
	for (int i = 1; i <= 20000; i++)
		p += sprintf(p, "%d\r\n", i);
	s = do_job_read(&c, job, PROTO_STREAM_OUTPUT, NULL);
	CHECK(strcmp(s, want) == 0);
	free(s);
	free(want);
	drop(job);
}

/* A terminal that nobody reads takes so much, and is gone with its writers' connection. */
static void terminal_full(void)
{
	uint64_t job = start_named(&c, "mute", "stty raw -echo; echo up; sleep 4720.5", screen), id;
	static char piece[65536];
	struct client d;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	memset(piece, 'x', sizeof(piece));
	client_open(&d, &a, "other");
	for (int i = 0; i < 8; i++)
		send_stdin(&d, job, 0, 0, piece, sizeof(piece));
	id = d.next_id;
	do_cancel(&d, id);
	do
		CHECK(client_recv(&d));
	while (d.head.id != id);
	CHECK(d.head.error == EINTR);
	client_close(&d);
	drop(job);
}

int main(void)
{
	if (!may_test())
		return 77;
	mark_ours();
	unsetenv("TERM"); /* a terminal has one all the same */
	agent_start(&a, "0");
	client_open(&c, &a, "stdin");
	TEST(of_the_next_command);
	TEST(before_the_start);
	TEST(live);
	TEST(full);
	TEST(in_order);
	TEST(reader_has_closed);
	TEST(terminal);
	TEST(terminal_keys);
	TEST(terminal_output);
	TEST(terminal_full);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
