/* SPDX-License-Identifier: MIT */
/* The agent's named jobs and settings: names, inheritance, what is refused, what survives. */
#include "test_agent_jobs.h"

static struct agent a;
static struct client c;

static void is(uint64_t job, uint8_t what, const char *want)
{
	char *got = do_job_get(&c, job, what);

	CHECK_STR(got, want);
	free(got);
}

/* Refused with that errno and these words, and unchanged. */
static void refused(uint64_t job, uint8_t what, const char *value, int code, const char *words)
{
	char *before = do_job_get(&c, job, what), text[1024];
	int ret = do_job_set(&c, job, what, value);

	snprintf(text, sizeof(text), "%.*s", (int)c.frame.len, (const char *)c.frame.data);
	if (ret != code || !strstr(text, words))
		printf("# '%s': error %d, words '%s'\n", value, ret, text);
	CHECK(ret == code && strstr(text, words));
	is(job, what, before);
	free(before);
}

static void defaults(void)
{
	char ws[96];

	snprintf(ws, sizeof(ws), "%s/ws", a.dir);
	is(0, PROTO_SET_TIMEOUT, "0");
	is(0, PROTO_SET_MAX_WAIT, "0");
	is(0, PROTO_SET_USER, "root");
	is(0, PROTO_SET_CWD, ws);
	is(0, PROTO_SET_ENV, "");
	is(0, PROTO_SET_SHELL, "sh\n-c");
}

static void values(void)
{
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "1.5\n") == 0);
	is(0, PROTO_SET_TIMEOUT, "1.5");
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, " 007. \n") == 0);
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, ".25") == 0);
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "\n") == 0);
	is(0, PROTO_SET_TIMEOUT, "0");
	refused(0, PROTO_SET_TIMEOUT, "abc", EINVAL, "not a number of seconds");
	refused(0, PROTO_SET_TIMEOUT, "-1", EINVAL, "'-1'");
	refused(0, PROTO_SET_TIMEOUT, "nan", EINVAL, "'nan'");
	refused(0, PROTO_SET_TIMEOUT, "inf", EINVAL, "");
	refused(0, PROTO_SET_TIMEOUT, "1e3", EINVAL, "");
	refused(0, PROTO_SET_TIMEOUT, "5 6", EINVAL, "");
	refused(0, PROTO_SET_TIMEOUT, ".", EINVAL, "");
	refused(0, PROTO_SET_TIMEOUT, "99999999999999999999999999", EINVAL, "");
	refused(0, PROTO_SET_MAX_WAIT, "soon", EINVAL, "'soon'");
	refused(0, PROTO_SET_USER, "no-such-user", EINVAL, "no user 'no-such-user'");
	refused(0, PROTO_SET_USER, "root:no-such-group", EINVAL, "no group 'no-such-group'");
	refused(0, PROTO_SET_USER, ":", EINVAL, "");
	refused(0, PROTO_SET_CWD, "tmp", EINVAL, "not an absolute path");
	refused(0, PROTO_SET_CWD, "/no/such/dir", ENOENT, "/no/such/dir");
	refused(0, PROTO_SET_CWD, "/etc/passwd", ENOTDIR, "not a directory");
	refused(0, PROTO_SET_ENV, "A=1\n=x\nB=2", EINVAL, "line 2 names no variable");
	refused(0, PROTO_SET_ENV, "1A=1", EINVAL, "line 1");
	refused(0, PROTO_SET_ENV, "A B=1", EINVAL, "line 1");
	refused(0, PROTO_SET_ENV, "ok\n-x", EINVAL, "line 2");
	refused(0, PROTO_SET_SHELL, "\n-c", EINVAL, "the first line");
	CHECK(do_job_set(&c, 0, PROTO_SET_TTY, "80x24") == EINVAL);
	CHECK(!do_job_get(&c, 0, PROTO_SET_TTY) && c.head.error == EINVAL);
	CHECK(do_job_set(&c, 0, 0, "x") == EINVAL && do_job_set(&c, 0, 99, "x") == EINVAL);
	CHECK(!do_job_get(&c, 0, 0) && !do_job_get(&c, 0, PROTO_SETS) && c.head.error == EINVAL);
	CHECK(do_job_set(&c, 7777, PROTO_SET_ENV, "A=1") == ENOENT);
	CHECK(!do_job_get(&c, 7777, PROTO_SET_ENV) && c.head.error == ENOENT);
}

static void long_values(void)
{
	char *text = malloc(PROTO_CONFIG_MAX + 2);
	struct buf b;
	size_t at;

	memset(text, 'x', PROTO_CONFIG_MAX + 1);
	memcpy(text, "LONG=", 5);
	text[PROTO_CONFIG_MAX + 1] = 0;
	CHECK(do_job_set(&c, 0, PROTO_SET_ENV, text) == EINVAL);
	text[PROTO_CONFIG_MAX] = 0;
	CHECK(do_job_set(&c, 0, PROTO_SET_ENV, text) == 0);
	is(0, PROTO_SET_ENV, text);
	CHECK(do_job_set(&c, 0, PROTO_SET_ENV, "") == 0);
	free(text);
	at = client_begin(&c, &b, PROTO_JOB_SET);
	wire_u64(&b, 0);
	wire_u8(&b, PROTO_SET_ENV);
	wire_bytes(&b, "A=1\0B=2", 7);
	CHECK(client_call(&c, &b, at) == EINVAL);
}

/* A job starts with a copy; what is changed afterwards concerns those that follow. */
static void inheritance(void)
{
	uint64_t first, second;
	struct proto_job j;
	uint32_t pid;
	char *s;

	CHECK(do_job_set(&c, 0, PROTO_SET_ENV, "WHO=first") == 0);
	CHECK(do_job_set(&c, 0, PROTO_SET_CWD, "/") == 0);
	CHECK(do_job_make(&c, "heir", &first) == 0 && first >= PROTO_JOB_NAMED);
	CHECK(do_job_set(&c, 0, PROTO_SET_ENV, "WHO=second") == 0);
	CHECK(do_job_set(&c, first, PROTO_SET_CWD, "/tmp") == 0);
	is(first, PROTO_SET_ENV, "WHO=first");
	is(first, PROTO_SET_TTY, "none");
	is(0, PROTO_SET_CWD, "/");
	CHECK(do_job_set(&c, first, PROTO_SET_TTY, "80y24") == EINVAL);
	CHECK(do_job_set(&c, first, PROTO_SET_TTY, "0x24") == EINVAL);
	CHECK(do_job_set(&c, first, PROTO_SET_TTY, "80x99999") == EINVAL);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, first) == 0);
	CHECK(do_job_write(&c, first, 0, "rubbish rubbish rubbish", 23) == 0);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, first) == 0); /* empties it */
	CHECK(do_job_write(&c, first, 0, "echo $WHO; pwd", 14) == 0);
	CHECK(do_job_start(&c, first, NULL, &pid) == 0);
	CHECK(do_job_wait(&c, first, false, &j) == 0 && j.result == PROTO_RESULT_SUCCESS);
	CHECK_STR(j.name, "heir");
	proto_job_fini(&j);
	s = do_job_read(&c, first, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "first\n/tmp\n");
	free(s);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, first) == EBUSY);
	CHECK(do_job_start(&c, first, NULL, &pid) == EBUSY);
	CHECK(do_job_set(&c, first, PROTO_SET_ENV, "A=1") == EBUSY);
	CHECK(do_job_set(&c, first, PROTO_SET_TTY, "80x24") == EBUSY);
	second = run_text(&c, "echo $WHO; pwd", &j);
	proto_job_fini(&j);
	s = do_job_read(&c, second, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(s, "second\n/\n");
	free(s);
	CHECK(do_job_set(&c, 0, PROTO_SET_CWD, "") == 0 &&
		do_job_set(&c, 0, PROTO_SET_ENV, "") == 0);
}

static void names(void)
{
	uint64_t job, other, num;
	struct proto_job j;
	char longest[257];

	memset(longest, 'n', 256);
	longest[256] = 0;
	CHECK(do_job_make(&c, longest, &job) == EINVAL);
	longest[255] = 0;
	CHECK(do_job_make(&c, longest, &job) == 0 && do_job_find(&c, longest) == job);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	CHECK(do_job_make(&c, "12", &job) == EEXIST && do_job_make(&c, "0", &job) == EEXIST);
	CHECK(do_job_make(&c, "main", &job) == EEXIST && do_job_make(&c, "last", &job) == EEXIST);
	CHECK(do_job_make(&c, "heir", &job) == EEXIST);
	CHECK(do_job_make(&c, "a/b", &job) == EINVAL && do_job_make(&c, "..", &job) == EINVAL);
	CHECK(do_job_make(&c, "", &job) == EINVAL);
	CHECK(do_job_make(&c, "new\nline \xff", &job) == 0);
	CHECK(do_job_find(&c, "new\nline \xff") == job && do_job_find(&c, "last") == job);
	CHECK(do_job_find(&c, "nobody") == 0 && do_job_find(&c, "main") == 0);
	num = run_text(&c, "true", &j);
	proto_job_fini(&j);
	CHECK(do_job_find(&c, "last") == num);
	snprintf(longest, sizeof(longest), "%llu", (unsigned long long)num);
	CHECK(do_job_find(&c, longest) == num);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	CHECK(do_job_make(&c, "new\nline \xff", &other) == 0 && other == job + 1);
	CHECK(do_u64(&c, PROTO_JOB_DROP, other) == 0);
}

/* The list, oldest first; how many. */
static size_t list(uint64_t *first, uint64_t *last)
{
	struct buf b;
	size_t n = 0, at = client_begin(&c, &b, PROTO_JOB_LIST);

	CHECK(client_call(&c, &b, at) == 0);
	while (c.in.p < c.in.end) {
		*last = wire_get_u64(&c.in);
		free(proto_get_name(&c.in));
		CHECK(!c.in.bad);
		*first = n++ ? *first : *last;
	}
	return n;
}

static void many_names(void)
{
	uint64_t job, first, last;
	char name[32];
	size_t had = list(&first, &last), n = 0;
	int ret;

	for (;; n++) {
		snprintf(name, sizeof(name), "many-%zu", n);
		ret = do_job_make(&c, name, &job);
		if (ret)
			break;
	}
	CHECK(ret == ENOSPC && n == 1023); /* there is "heir" */
	CHECK(list(&first, &last) == had + n && last == do_job_find(&c, "many-1022"));
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "many-%zu", i);
		CHECK(do_u64(&c, PROTO_JOB_DROP, do_job_find(&c, name)) == 0);
	}
	CHECK(list(&first, &last) == had);
}

/* Any bytes after a whole message, or too few of them. */
static void malformed(void)
{
	for (uint16_t type = PROTO_JOB_OPEN; type <= PROTO_JOB_MORE; type++)
		for (size_t n = 0; n < 40; n++) {
			struct buf b;
			size_t at = client_begin(&c, &b, type);
			int ret;

			for (size_t i = 0; i < n; i++)
				wire_u8(&b, 0xff);
			ret = client_call(&c, &b, at);
			CHECK(ret == EINVAL || ret == ENOENT || (n == 0 && ret == 0));
		}
}

static void ps_and_stats(void)
{
	uint64_t job =
		start_named(&c, "sleeper", "echo up; sleep 4714.5\necho \001 > /dev/null", NULL);
	struct buf b;
	size_t at;
	char *s;

	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	at = client_begin(&c, &b, PROTO_PS);
	CHECK(client_call(&c, &b, at) == 0);
	s = wire_get_str(&c.in, PROTO_MAX_DATA);
	CHECK(s && wire_end(&c.in));
	CHECK(strstr(s, "PID") && strstr(s, "root") && strstr(s, "sleeper"));
	CHECK(strstr(s, "sh -c echo up; sleep 4714.5?echo ? > /dev/null\n"));
	free(s);
	at = client_begin(&c, &b, PROTO_STATS);
	CHECK(client_call(&c, &b, at) == 0);
	s = wire_get_str(&c.in, PROTO_MAX_DATA);
	CHECK(s && wire_end(&c.in));
	CHECK(strstr(s, "jobs_running 1\n") && strstr(s, "processes ") &&
		strstr(s, "uptime_seconds "));
	CHECK(strstr(s, "memory_bytes ") && strstr(s, "cpu_usage_usec "));
	free(s);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

static void restart(void)
{
	client_close(&c);
	kill(a.pid, SIGKILL);
	waitpid(a.pid, NULL, 0);
	agent_exec(&a, "0");
	client_open(&c, &a, "again");
}

static void a_second_life(void)
{
	uint64_t fresh, ran, last, dropped;
	struct proto_job j;
	char path[128], *s;

	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "77") == 0);
	CHECK(do_job_stdin(&c, 0, 0, 0, "for the next") == 12);
	CHECK(do_job_make(&c, "fresh \n", &fresh) == 0);
	CHECK(do_job_set(&c, fresh, PROTO_SET_ENV, "A=1\nB=2") == 0);
	ran = start_named(&c, "ran", "echo part; sleep 4715.5", NULL);
	CHECK(await_text(&c, ran, PROTO_STREAM_STDOUT, "part"));
	CHECK(do_job(&c, PROTO_JOB_INFO, ran, &j) == 0);
	CHECK(do_job_make(&c, "dropped", &dropped) == 0 &&
		do_u64(&c, PROTO_JOB_DROP, dropped) == 0);
	/* Somebody has been at the volume. */
	snprintf(path, sizeof(path), "%s/state/jobs/9", a.dir);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/state/jobs/8589999999", a.dir);
	CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/state/jobs/8589999999/meta", a.dir);
	put_text(path, "result 2\nname 2f2e2e\nstream0 9 9 -4\n");
	snprintf(path, sizeof(path), "%s/state/jobs/no number", a.dir);
	CHECK(mkdir(path, 0700) == 0);
	restart();
	kill(-(pid_t)j.pid, SIGKILL); /* it leads its group */
	proto_job_fini(&j);
	is(0, PROTO_SET_TIMEOUT, "77");
	s = do_job_read(&c, 0, PROTO_STREAM_STDIN, NULL);
	CHECK_STR(s, "for the next");
	free(s);
	CHECK(do_job_find(&c, "fresh \n") == fresh && do_job_find(&c, "last") == ran);
	CHECK(do_job(&c, PROTO_JOB_INFO, fresh, &j) == 0 && j.result == PROTO_RESULT_NEW);
	proto_job_fini(&j);
	is(fresh, PROTO_SET_ENV, "A=1\nB=2");
	is(fresh, PROTO_SET_TIMEOUT, "77");
	CHECK(do_job_wait(&c, ran, false, &j) == 0 && j.result == PROTO_RESULT_LOST);
	CHECK(j.exit_code == -1 && j.size[0] == 5);
	proto_job_fini(&j);
	CHECK(do_job_make(&c, "next", &last) == 0 && last > 8589999999);
	/* Rubbish in a settings file is the default. */
	snprintf(path, sizeof(path), "%s/state/jobs/0/settings", a.dir);
	put_text(path, "1 3 abc\n2 1 5\n9 1 x\n5 99999 A=1\n");
	restart();
	is(0, PROTO_SET_TIMEOUT, "0");
	is(0, PROTO_SET_MAX_WAIT, "5");
	is(0, PROTO_SET_ENV, "");
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "0");
	client_open(&c, &a, "settings");
	TEST(defaults);
	TEST(values);
	TEST(long_values);
	TEST(inheritance);
	TEST(names);
	TEST(many_names);
	TEST(malformed);
	TEST(ps_and_stats);
	TEST(a_second_life);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
