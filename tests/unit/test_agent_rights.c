/* SPDX-License-Identifier: MIT */
/* The agent as PID 1 in user namespaces: of one id where setgroups is denied, of many, and without
 * capabilities; and without a control group that it could see. */
#include "test_agent_files.h"
#include "test_agent_jobs.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>

#define LAST_CAP 63

struct space {
	const char *uids, *gids; /* "inside outside count" */
	bool deny_setgroups, no_caps, no_kill;
	uid_t owner; /* of what root has inside */
	const char *user, *groups;
};

static const struct space one = {.uids = "0 4711 1",
	.gids = "0 4711 1",
	.deny_setgroups = true,
	.owner = 4711,
	.user = "0",
	.groups = ""};
static const struct space many = {.uids = "0 100000 65536",
	.gids = "0 100000 65536",
	.owner = 100000,
	.user = "1000",
	.groups = ""};

static struct agent a;

static bool write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

/* In the child, PID 1 of its namespaces, once its ids are mapped. */
static void become_root(const struct space *s)
{
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		_exit(90);
	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("proc", "/proc", "proc", 0, NULL) < 0 ||
		mount("none", "/sys", "tmpfs", 0, NULL) < 0)
		_exit(91);
	for (int cap = 0; s->no_caps && cap <= LAST_CAP; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (s->no_kill)
		prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0);
}

static void make_file(const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", a.dir, name);
	put_text(path, text);
}

static void make_dir(const char *name, uid_t owner)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", a.dir, name);
	CHECK(mkdir(path, 0755) == 0 && chown(path, owner, owner) == 0);
}

static void make_dirs(const struct space *s)
{
	a = (struct agent){.dir = "/tmp/agent-test-XXXXXX"};
	CHECK(mkdtemp(a.dir) && chmod(a.dir, 0755) == 0);
	make_dir("state", s->owner);
	make_dir("up", s->owner);
	make_dir("root", 0);
	make_dir("root/etc", 0);
	make_file("root/etc/passwd", "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"
				     "plain:x:1001:1001::/:/bin/sh\n");
	make_file("root/etc/group", "root:x:0:\nwheel:x:10:root\nextra:x:2000:user\n");
}

static void start(const struct space *s)
{
	char state[96], root[96], ws[96], log[96], byte = 0;
	int agent = open(agent_path(), O_RDONLY), ready[2];

	make_dirs(s);
	snprintf(state, sizeof(state), "%s/state", a.dir);
	snprintf(root, sizeof(root), "%s/root", a.dir);
	snprintf(ws, sizeof(ws), "%s/up/ws", a.dir);
	snprintf(log, sizeof(log), "%s/log", a.dir);
	CHECK(agent >= 0 && pipe2(ready, O_CLOEXEC) == 0);
	fcntl(agent, F_SETFD, FD_CLOEXEC);
	/* Where it comes from, libraries included, is the host's own: fork, with namespaces. */
	a.pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | SIGCHLD,
		NULL, NULL, NULL, NULL);
	CHECK(a.pid >= 0);
	if (a.pid == 0) {
		const char *argv[] = {"agent", "init", "--state", state, "--root", root,
			"--workspace", ws, "--user", s->user, "--groups", s->groups, NULL};
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

		if (read(ready[0], &byte, 1) != 1)
			_exit(89);
		dup2(fd, 2);
		become_root(s);
		syscall(SYS_execveat, agent, "", argv, environ, AT_EMPTY_PATH);
		_exit(99);
	}
	close(agent);
	CHECK(!s->deny_setgroups || write_map(a.pid, "setgroups", "deny"));
	CHECK(write_map(a.pid, "gid_map", s->gids) && write_map(a.pid, "uid_map", s->uids));
	CHECK(write(ready[1], &byte, 1) == 1);
	close(ready[0]);
	close(ready[1]);
}

/* Says what HELLO does; `trouble` must be in it, "" for none. */
static void meet(struct client *c, const char *trouble)
{
	struct proto_hello h = {0};

	CHECK(client_hello(c, &a, "rights", &h) == 0);
	if (*trouble ? !strstr(h.trouble, trouble) : *h.trouble)
		printf("# trouble: %s\n", h.trouble);
	CHECK(*trouble ? strstr(h.trouble, trouble) != NULL : !*h.trouble);
	proto_hello_fini(&h);
}

static const char *said(const struct client *c)
{
	static char text[512];

	snprintf(text, sizeof(text), "%.*s", (int)c->frame.len, (const char *)c->frame.data);
	return text;
}

static void prints(struct client *c, const char *text, const char *want)
{
	struct proto_job j = {0};
	uint64_t job = run_text(c, text, &j);
	char *out = do_job_read(c, job, PROTO_STREAM_OUTPUT, NULL);

	CHECK_STR(out, want);
	CHECK(j.result == PROTO_RESULT_SUCCESS);
	proto_job_fini(&j);
	free(out);
}

/* A file of theirs in the workspace; the error, with c's words. */
static int make_as(struct client *c, uint32_t uid, uint32_t gid)
{
	static uint64_t num = 100;
	struct proto_attr attr = {0};
	char name[32];
	int ret;

	snprintf(name, sizeof(name), "of-%u", uid);
	c->uid = uid;
	c->gid = gid;
	num++;
	ret = do_create(
		c, PROTO_NODE_WORKSPACE, name, num, num, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr);
	CHECK(ret || (attr.uid == uid && attr.gid == gid));
	c->uid = c->gid = 0;
	return ret;
}

static char *ask(struct client *c, uint16_t type)
{
	struct buf b;
	size_t at = client_begin(c, &b, type), n;
	const uint8_t *p;

	CHECK(client_call(c, &b, at) == 0);
	p = wire_get_bytes(&c->in, PROTO_MAX_DATA, &n);
	CHECK(wire_end(&c->in));
	return strndup((const char *)p, n);
}

static uint64_t value_of(const char *stats, const char *key)
{
	const char *s = strstr(stats, key);

	CHECK(s && s[strlen(key)] == ' ' && (s == stats || s[-1] == '\n'));
	return strtoull(s + strlen(key), NULL, 10);
}

static void one_id(void)
{
	struct client c;

	start(&one);
	meet(&c, "");
	/* In one of its /etc/group's groups, which is no id here. */
	prints(&c, "id -u; id -g; touch x && stat -c %u:%g x", "0\n0\n0:0\n");
	CHECK(make_as(&c, 0, 0) == 0);
	CHECK(make_as(&c, 1001, 1001) == EPERM && strstr(said(&c), "has no 1001:1001"));
	CHECK(do_job_set(&c, 0, PROTO_SET_USER, "plain") == EPERM);
	CHECK(strstr(said(&c), "has no 1001:1001"));
	client_close(&c);
	agent_clean(&a);
}

static void one_id_that_is_not_the_user_s(void)
{
	struct space s = one;
	struct proto_job j = {0};
	struct client c;
	struct stat st;
	char path[96];

	s.user = "plain";
	start(&s);
	meet(&c, "user: the sandbox's user namespace has no 1001:1001");
	/* It is made, and is whose it can be. */
	snprintf(path, sizeof(path), "%s/up/ws", a.dir);
	CHECK(stat(path, &st) == 0 && st.st_uid == 4711);
	CHECK(make_as(&c, 0, 0) == 0);
	run_text(&c, "id", &j);
	CHECK(j.result == PROTO_RESULT_START_FAILED && strstr(j.words, "has no 1001:1001"));
	proto_job_fini(&j);
	client_close(&c);
	agent_clean(&a);
}

static void groups_that_it_must_have(void)
{
	struct space s = one;
	struct client c;

	s.groups = "wheel";
	start(&s);
	meet(&c, "denies setgroups: 0:0 cannot have its group 10");
	CHECK(make_as(&c, 0, 0) == EPERM && strstr(said(&c), "denies setgroups"));
	client_close(&c);
	agent_clean(&a);
	s = many;
	s.user = "plain";
	s.groups = "wheel,70000";
	start(&s);
	meet(&c, "has no group 70000, which 1001:1001 is in");
	client_close(&c);
	agent_clean(&a);
}

static void without_capabilities(void)
{
	struct space s = one;
	struct client c;

	s.no_caps = true;
	start(&s);
	meet(&c, "");
	prints(&c, "id -u; touch x; grep CapEff /proc/self/status",
		"0\nCapEff:\t0000000000000000\n");
	CHECK(make_as(&c, 0, 0) == 0);
	CHECK(make_as(&c, 1001, 1001) == EPERM && strstr(said(&c), "no capability SETUID"));
	client_close(&c);
	agent_clean(&a);
}

/* Signals to another user's processes do nothing, and that is said. */
static void without_kill(void)
{
	const struct set sets[] = {{PROTO_SET_TIMEOUT, "1.5"}, {0}};
	struct space s = many;
	struct proto_job j;
	struct client c;
	uint64_t job;

	s.no_kill = true;
	start(&s);
	meet(&c, "");
	job = start_named(&c, "deaf", "echo up; until [ -e ../go ]; do sleep 0.05; done", NULL);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "up"));
	CHECK(do_job_kill(&c, job, SIGTERM) == EPERM && strstr(said(&c), "no capability KILL"));
	CHECK(do_job_kill(&c, job, SIGKILL) == EPERM && strstr(said(&c), "no capability KILL"));
	make_file("up/go", "");
	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.result == PROTO_RESULT_SUCCESS);
	CHECK_STR(j.words, "");
	proto_job_fini(&j);
	job = start_named(&c, "late", "sleep 6", sets);
	CHECK(do_job_wait(&c, job, false, &j) == 0 && j.result == PROTO_RESULT_TIMEOUT);
	CHECK(strstr(j.words, "no capability KILL"));
	proto_job_fini(&j);
	client_close(&c);
	agent_clean(&a);
}

static void many_ids(void)
{
	struct client c;

	start(&many);
	meet(&c, "");
	prints(&c, "id -u; id -G; touch x && stat -c %u:%g x .",
		"1000\n1000 2000\n1000:1000\n1000:1000\n");
	CHECK(make_as(&c, 1000, 1000) == 0);
	CHECK(make_as(&c, 0, 0) == 0);
	CHECK(make_as(&c, 70000, 1000) == EPERM && strstr(said(&c), "has no 70000:1000"));
	CHECK(do_job_set(&c, 0, PROTO_SET_USER, "plain") == 0);
	prints(&c, "id -u; id -G", "1001\n1001\n");
	client_close(&c);
	agent_clean(&a);
}

static bool processes_are(struct client *c, uint64_t n)
{
	char *stats = ask(c, PROTO_STATS);
	bool are = value_of(stats, "processes") == n;

	free(stats);
	return are;
}

/* No control group is to be seen. */
/* A process that is just becoming another has no memory for a moment. */
static bool memory_is_above(struct client *c, uint64_t was)
{
	char *now = ask(c, PROTO_STATS);
	bool above = value_of(now, "memory_bytes") > was;

	free(now);
	return above;
}

static void usage_by_processes(void)
{
	char *before, *after, *table;
	struct client c;
	uint64_t job;

	start(&one);
	meet(&c, "");
	before = ask(&c, PROTO_STATS);
	CHECK(!strstr(before, "memory_max") && !strstr(before, "oom_kills"));
	CHECK(value_of(before, "processes") == 1 && value_of(before, "pids") >= 1);
	/* One that has ended, and one that sleeps. */
	prints(&c, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", "");
	job = start_named(&c, "sleeper", "echo here; exec sleep 100", NULL);
	CHECK(await_text(&c, job, PROTO_STREAM_STDOUT, "here"));
	CHECK_SOON(processes_are(&c, 3)); /* the agent, a supervisor, a sleeper */
	after = ask(&c, PROTO_STATS);
	CHECK(value_of(after, "cpu_usage_usec") >= value_of(before, "cpu_usage_usec") + 20000);
	CHECK(value_of(after, "cpu_usage_usec") ==
		value_of(after, "cpu_user_usec") + value_of(after, "cpu_system_usec"));
	CHECK_SOON(memory_is_above(&c, value_of(before, "memory_bytes")));
	table = ask(&c, PROTO_PS);
	CHECK(strstr(table, "sleep 100") && strstr(table, "sleeper"));
	free(before);
	free(after);
	free(table);
	client_close(&c);
	agent_clean(&a); /* TERM ends it, and what runs */
}

int main(void)
{
	if (!may_test())
		return 77;
	/* What we are in could not be left where setgroups is denied. */
	if (setgroups(0, NULL) < 0)
		return 1;
	TEST(one_id);
	TEST(one_id_that_is_not_the_user_s);
	TEST(groups_that_it_must_have);
	TEST(without_capabilities);
	TEST(without_kill);
	TEST(many_ids);
	TEST(usage_by_processes);
	return check_done();
}
