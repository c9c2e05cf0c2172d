/* SPDX-License-Identifier: MIT */
/* How an agent ends and what the next one finds: jobs on the state volume, whatever somebody has
 * put there meanwhile, and the workspace. */
#include "test_agent_files.h"
#include "test_agent_jobs.h"
#include "test_agent_procs.h"

#define GRACE_S 2 /* the agent's, between TERM and KILL */

static struct agent a;
static struct client c;

/* Ended jobs survive a restart; one that ran is lost, its output kept. */
static void a_second_life(void)
{
	struct proto_job j;
	uint64_t ended = run_text(&c, "echo kept; exit 3", &j), running;
	uint32_t pid;
	char *s;

	proto_job_fini(&j);
	CHECK(do_job_open(&c, &running) == 0);
	CHECK(do_job_write(&c, running, 0, "echo part; sleep 60", 19) == 0);
	CHECK(do_job_start(&c, running, NULL, &pid) == 0);
	CHECK(await_text(&c, running, PROTO_STREAM_STDOUT, "part\n"));
	CHECK(await_text(&c, running, PROTO_STREAM_OUTPUT, "part\n"));
	client_close(&c);
	kill(a.pid, SIGKILL);
	waitpid(a.pid, NULL, 0);
	kill(-(pid_t)pid, SIGKILL); /* it leads its group */
	agent_exec(&a, "0");
	client_open(&c, &a, "again");
	CHECK(do_job(&c, PROTO_JOB_INFO, ended, &j) == 0);
	CHECK(j.result == PROTO_RESULT_EXIT_CODE && j.exit_code == 3 && j.size[0] == 5);
	CHECK_STR(j.command, "echo kept; exit 3");
	proto_job_fini(&j);
	CHECK(do_job_wait(&c, running, false, &j) == 0);
	CHECK(j.result == PROTO_RESULT_LOST && j.exit_code == -1 && j.size[0] == 5);
	proto_job_fini(&j);
	s = do_job_read(&c, running, PROTO_STREAM_OUTPUT, NULL);
	CHECK_STR(s, "part\n");
	free(s);
	CHECK(do_job_open(&c, &ended) == 0 && ended == running + 1);
	CHECK(do_u64(&c, PROTO_JOB_DROP, ended) == 0);
}

/* Ends the agent without a chance to write anything, and starts it again. */
static void again(const char *session)
{
	client_close(&c);
	kill(a.pid, SIGKILL);
	waitpid(a.pid, NULL, 0);
	agent_exec(&a, "0");
	client_open(&c, &a, session);
}

static bool has_text(const char *path, const char *want)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, want);
}

/* What a job does by itself is done with the agent's rights, whoever asked for a file last. */
static void saved_after_others_requests(void)
{
	uint64_t job =
		start_named(&c, "saved", "until [ -e ../go ]; do sleep 0.05; done; exit 5", NULL);
	struct proto_attr attr;
	struct proto_job j;
	char go[96], meta[128];

	c.uid = c.gid = 4567;
	CHECK(do_create(&c, 2, "no", 1000, 1, PROTO_O_WRITE, 0644, &attr) == EACCES);
	snprintf(go, sizeof(go), "%s/go", a.dir); /* where the agent watches nothing */
	put_text(go, "");
	snprintf(meta, sizeof(meta), "%s/state/jobs/%llu/meta", a.dir, (unsigned long long)job);
	CHECK_SOON(has_text(meta, "exit 5\n"));
	c.uid = c.gid = 0;
	again("saved");
	CHECK(do_job(&c, PROTO_JOB_INFO, job, &j) == 0);
	CHECK(j.result == PROTO_RESULT_EXIT_CODE && j.exit_code == 5);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
}

/* Named jobs that were never started are as old as they are, also for the next agent. */
static void the_newest_stays_the_newest(void)
{
	struct proto_job j;
	uint64_t job;

	CHECK(do_job_make(&c, "older", &job) == 0);
	run_text(&c, "true", &j);
	proto_job_fini(&j);
	CHECK(do_job_make(&c, "newest", &job) == 0);
	again("newest");
	CHECK(do_job_find(&c, "last") == job);
	CHECK(do_u64(&c, PROTO_JOB_DROP, job) == 0);
	CHECK(do_job_find(&c, "last") < PROTO_JOB_NAMED);
	CHECK(do_u64(&c, PROTO_JOB_DROP, do_job_find(&c, "older")) == 0);
}

/* FIFOs in the place of a job's files. */
static void put_fifos(uint64_t job)
{
	static const char *const names[] = {"command", "stdin", "stdout", "stderr", "output",
		"settings", "settings.new", "meta.new"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/state/jobs/%llu/%s", a.dir,
			(unsigned long long)job, names[i]);
		unlink(path);
		CHECK(mkfifo(path, 0600) == 0);
	}
}

/* As a command of root could put them: nothing waits for somebody at their other end. */
static void fifos_in_the_way(void)
{
	uint64_t ended = start_named(&c, "ended", "echo x", NULL), fresh;
	struct proto_job j;
	size_t len = 0;
	uint32_t pid;

	CHECK(do_job_wait(&c, ended, false, &j) == 0 && j.size[0] == 2);
	proto_job_fini(&j);
	/* The end is told before it is saved: with one more answer it is. */
	CHECK(do_job(&c, PROTO_JOB_INFO, ended, &j) == 0);
	proto_job_fini(&j);
	put_fifos(ended);
	free(do_job_read(&c, ended, PROTO_STREAM_STDOUT, &len));
	CHECK(len == 2);
	CHECK(do_job_make(&c, "fresh", &fresh) == 0);
	put_fifos(fresh);
	CHECK(do_job_set(&c, fresh, PROTO_SET_TIMEOUT, "9") == 0);
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "9") == 0);
	put_fifos(0);
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "8") == 0);
	CHECK(do_job_set(&c, 0, PROTO_SET_TIMEOUT, "") == 0);
	CHECK(do_job_stdin(&c, fresh, 0, 0, "in") < 0);
	CHECK(do_u64(&c, PROTO_JOB_OPEN, fresh) != 0);
	again("fifos");
	CHECK(do_job_start(&c, fresh, NULL, &pid) == 0);
	CHECK(do_job_wait(&c, fresh, false, &j) == 0 && j.result == PROTO_RESULT_START_FAILED);
	proto_job_fini(&j);
	CHECK(do_u64(&c, PROTO_JOB_DROP, ended) == 0 && do_u64(&c, PROTO_JOB_DROP, fresh) == 0);
}

/* Several at once, so that the last words of some are still on their way when none is left. */
static void ended_by_an_orderly_stop(void)
{
	static const char text[] =
		"trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
	uint64_t jobs[8];
	struct proto_job j;
	bool in_time = false;
	char name[16];
	double t;

	/* A machine that stalls may not let them have their last words within the grace: then once
	 * more. */
	for (int tries = 0; !in_time; tries++) {
		const int n = tries < 4 ? 8 : 2;

		for (int i = 0; i < n; i++) {
			snprintf(name, sizeof(name), "orderly-%d", i);
			jobs[i] = start_named(&c, name, text, NULL);
			CHECK(await_text(&c, jobs[i], PROTO_STREAM_STDOUT, "up"));
		}
		client_close(&c);
		t = seconds();
		CHECK(WEXITSTATUS(agent_stop(&a)) == 143);
		in_time = seconds() - t < GRACE_S || tries == 9;
		agent_exec(&a, "0");
		client_open(&c, &a, "orderly");
		for (int i = 0; i < n; i++) {
			CHECK(do_job(&c, PROTO_JOB_INFO, jobs[i], &j) == 0);
			CHECK(!in_time || (j.exit_code == 3 && j.size[0] == 7));
			proto_job_fini(&j);
			CHECK(do_u64(&c, PROTO_JOB_DROP, jobs[i]) == 0);
		}
	}
}

/* Those that only KILL ends are reaped, and what is known of them is stored, before the agent ends.
 */
static void ended_by_kill_at_a_stop(void)
{
	uint64_t jobs[16];
	struct proto_job j;
	bool in_time = false;
	char name[16];
	double t;

	/* A machine that stalls may not let them end within that moment: then once more. */
	for (int tries = 0; !in_time; tries++) {
		const int n = tries < 4 ? 16 : tries < 8 ? 4 : 1;

		for (int i = 0; i < n; i++) {
			snprintf(name, sizeof(name), "deaf-%d", i);
			jobs[i] = start_named(&c, name,
				"trap '' TERM; echo up; while :; do sleep 0.05; done", NULL);
			CHECK(await_text(&c, jobs[i], PROTO_STREAM_STDOUT, "up"));
		}
		client_close(&c);
		t = seconds();
		CHECK(WEXITSTATUS(agent_stop(&a)) == 143);
		in_time = seconds() - t < GRACE_S + 0.4 || tries == 9;
		agent_exec(&a, "0");
		client_open(&c, &a, "deaf");
		for (int i = 0; i < n; i++) {
			CHECK(do_job(&c, PROTO_JOB_INFO, jobs[i], &j) == 0);
			CHECK(j.result == PROTO_RESULT_LOST);
			CHECK(!in_time || j.wall_us > 0);
			proto_job_fini(&j);
			CHECK(do_u64(&c, PROTO_JOB_DROP, jobs[i]) == 0);
		}
	}
}

/* Sizes that were never so, on the volume: they cost no other job its place. */
static void sizes_that_are_not_so(void)
{
	uint64_t liar = start_named(&c, "liar", "echo liar", NULL), kept[3];
	char path[128];
	struct proto_job j;
	int fd;

	CHECK(do_job_wait(&c, liar, false, &j) == 0);
	proto_job_fini(&j);
	for (int i = 0; i < 3; i++) {
		kept[i] = run_text(&c, "echo kept", &j);
		proto_job_fini(&j);
	}
	snprintf(path, sizeof(path), "%s/state/jobs/%llu/meta", a.dir, (unsigned long long)liar);
	put_text(path, "result 3\nexit 0\nstdin 999999999999\nstream0 999999999999 0 0\n"
		       "stream1 999999999999 0 0\nname 6c696172\nwords \n");
	again("liar");
	CHECK(do_job(&c, PROTO_JOB_INFO, liar, &j) == 0);
	CHECK(j.size[0] == 5 && j.stdin_size == 0 && j.hole_to[1] == j.size[1]);
	proto_job_fini(&j);
	/* A real one that is large, and stays with its named job. */
	snprintf(path, sizeof(path), "%s/state/jobs/%llu/stdin", a.dir, (unsigned long long)liar);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 600ll << 20) == 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/state/jobs/%llu/meta", a.dir, (unsigned long long)liar);
	put_text(path, "result 3\nexit 0\nstdin 629145600\nname 6c696172\nwords \n");
	again("large");
	CHECK(do_job(&c, PROTO_JOB_INFO, liar, &j) == 0 && j.stdin_size == 600u << 20);
	proto_job_fini(&j);
	for (int i = 0; i < 3; i++) {
		CHECK(do_job(&c, PROTO_JOB_INFO, kept[i], &j) == 0);
		proto_job_fini(&j);
	}
	CHECK(do_u64(&c, PROTO_JOB_DROP, liar) == 0);
}

static void term_ends_it(void)
{
	uint64_t job;
	uint32_t pid;
	int status;
	double t;

	CHECK(do_job_open(&c, &job) == 0);
	CHECK(do_job_write(&c, job, 0, "trap '' TERM; echo up; sleep 4713.5; true", 41) == 0);
	CHECK(do_job_start(&c, job, NULL, &pid) == 0);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	t = seconds();
	status = agent_stop(&a);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 143);
	CHECK(seconds() - t < 30);
	CHECK(await_marked("sleep 4713.5", 0));
}

/* A link of the sandbox's user in the workspace's path: nothing is made where it leads to, let
 * alone given to him. One of root's is followed. */
static void links_to_the_workspace(void)
{
	struct agent b = {0};
	struct proto_hello h = {0};
	char dir[48] = "/tmp/agent-test-XXXXXX", to[96], cmd[128];
	struct client d;
	struct stat st;

	CHECK(mkdtemp(dir));
	snprintf(to, sizeof(to), "%s/roots", dir);
	snprintf(b.dir, sizeof(b.dir), "%s/x", dir);
	CHECK(mkdir(to, 0755) == 0 && symlink(to, b.dir) == 0);
	CHECK(lchown(b.dir, 4567, 4567) == 0);
	agent_exec(&b, "4567");
	CHECK(client_hello(&d, &b, "links", &h) == 0 && strstr(h.trouble, "the workspace"));
	proto_hello_fini(&h);
	client_close(&d);
	CHECK(stat(ws_path(&b, ""), &st) < 0);
	agent_stop(&b);
	CHECK(lchown(b.dir, 0, 0) == 0);
	agent_exec(&b, "4567");
	CHECK(client_hello(&d, &b, "links", &h) == 0);
	CHECK_STR(h.trouble, "");
	proto_hello_fini(&h);
	client_close(&d);
	CHECK(stat(ws_path(&b, ""), &st) == 0 && st.st_uid == 4567);
	agent_stop(&b);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CHECK(system(cmd) == 0);
}

int main(void)
{
	if (!may_test())
		return 77;
	mark_ours();
	agent_start(&a, "0");
	client_open(&c, &a, "lives");
	TEST(a_second_life);
	TEST(saved_after_others_requests);
	TEST(the_newest_stays_the_newest);
	TEST(fifos_in_the_way);
	TEST(sizes_that_are_not_so);
	TEST(ended_by_an_orderly_stop);
	TEST(ended_by_kill_at_a_stop);
	TEST(term_ends_it);
	TEST(links_to_the_workspace);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
