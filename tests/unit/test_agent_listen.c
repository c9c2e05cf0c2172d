/* SPDX-License-Identifier: MIT */
/* The agent on a socket that it inherits: what it serves, what it closes, what it refuses. */
#include "test_agent_jobs.h"

#include <dirent.h>
#include <netinet/in.h>

#define NO_FD (-1)

static struct agent a;

/* A socket where client_connect() looks for it. */
static int listener(int type, bool listens)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/state/agent.sock", a.dir);
	unlink(addr.sun_path);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK(!listens || listen(fd, 16) == 0);
	return fd;
}

static void make_dirs(void)
{
	char path[96];

	a = (struct agent){.dir = "/tmp/agent-test-XXXXXX"};
	CHECK(mkdtemp(a.dir));
	CHECK(chmod(a.dir, 0755) == 0);
	snprintf(path, sizeof(path), "%s/state", a.dir);
	CHECK(mkdir(path, 0700) == 0);
}

/* `fd` is inherited, and so is whatever else is open without O_CLOEXEC. */
static void start(int fd, const char *number, bool no_close_range)
{
	char state[96], ws[96], log[96];

	snprintf(state, sizeof(state), "%s/state", a.dir);
	snprintf(ws, sizeof(ws), "%s/ws", a.dir);
	snprintf(log, sizeof(log), "%s/log", a.dir);
	a.pid = fork();
	CHECK(a.pid >= 0);
	if (a.pid == 0) {
		int to = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

		dup2(to, 2);
		if (no_close_range && (!refuse(SYS_close_range, SYS_close_range, ENOSYS) ||
					      syscall(SYS_close_range, 9999, 9999, 0) == 0))
			_exit(98);
		execl(agent_path(), "agent", "init", "--state", state, "--workspace", ws,
			"--listen", number, (char *)NULL);
		_exit(99);
	}
	if (fd >= 0)
		close(fd);
}

static ino_t socket_inode(void)
{
	char path[96];
	struct stat st;

	snprintf(path, sizeof(path), "%s/state/agent.sock", a.dir);
	CHECK(stat(path, &st) == 0);
	return st.st_ino;
}

/* Is anything called "secret" open in that process? */
static bool has_secret(pid_t pid)
{
	char dir[64], path[64 + 256], target[256];
	bool found = false;
	struct dirent *e;
	ssize_t n;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	d = opendir(dir);
	CHECK(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		found |= strstr(target, "secret") != NULL;
	}
	closedir(d);
	return found;
}

static void serve(bool no_close_range)
{
	static const int places[] = {3, 57, 58, 700};
	int secret[sizeof(places) / sizeof(*places)], fd, opened;
	struct proto_job j = {0};
	struct client c;
	char number[16], path[96], *out;
	uint64_t job;
	ino_t inode;

	make_dirs();
	fd = fcntl(listener(SOCK_STREAM | SOCK_CLOEXEC, true), F_DUPFD, 40);
	CHECK(fd >= 40);
	inode = socket_inode();
	snprintf(path, sizeof(path), "%s/secret", a.dir);
	put_text(path, "of the launcher");
	opened = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(opened >= 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		CHECK((secret[i] = fcntl(opened, F_DUPFD, places[i])) >= places[i]);
	snprintf(number, sizeof(number), "%d", fd);
	start(fd, number, no_close_range);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		close(secret[i]);
	close(opened);
	/* Whoever connects before the agent is there waits, and is served. */
	client_open(&c, &a, "first");
	CHECK(socket_inode() == inode);
	CHECK(!has_secret(a.pid));
	job = run_text(&c, "ls -l /proc/self/fd; echo; ls /proc/self/fd", &j);
	out = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK(!strstr(out, "secret"));
	CHECK_STR(strstr(out, "\n\n"), "\n\n0\n1\n2\n3\n"); /* 3 is ls's own */
	free(out);
	proto_job_fini(&j);
	client_close(&c);
	/* And others after it. */
	client_open(&c, &a, "second");
	client_close(&c);
	agent_clean(&a);
}

static void serves_on_what_it_inherits(void)
{
	serve(false);
}

static void closes_the_rest_without_close_range_too(void)
{
	serve(true);
}

/* Ends with 1, and says so. */
static void refuses(int fd, const char *number, const char *words)
{
	char own[16], log[96], text[512] = "";
	int status = 0, in;
	ssize_t n;

	snprintf(own, sizeof(own), "%d", fd);
	start(fd, number ? number : own, false);
	CHECK(waitpid(a.pid, &status, 0) == a.pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	snprintf(log, sizeof(log), "%s/log", a.dir);
	in = open(log, O_RDONLY | O_CLOEXEC);
	n = read(in, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(in);
	unlink(log);
	if (!strstr(text, words))
		printf("# said: %s", text);
	CHECK(strstr(text, words));
}

static void refuses_what_is_no_listening_socket(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	char cmd[128];
	int pair[2], fd;

	make_dirs();
	refuses(NO_FD, "", "not the number of a descriptor");
	refuses(NO_FD, "-1", "not the number of a descriptor");
	refuses(NO_FD, "4x", "not the number of a descriptor");
	refuses(NO_FD, "99999999999999999999", "not the number of a descriptor");
	refuses(NO_FD, "1000", "no such descriptor");
	refuses(NO_FD, "2", "a standard stream");
	refuses(open("/dev/null", O_RDONLY), NULL, "not a socket");
	refuses(listener(SOCK_STREAM, false), NULL, "does not listen");
	refuses(listener(SOCK_DGRAM, false), NULL, "not a Unix stream socket");
	refuses(listener(SOCK_SEQPACKET, true), NULL, "not a Unix stream socket");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	refuses(pair[0], NULL, "does not listen");
	close(pair[1]);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
		listen(fd, 1) == 0);
	refuses(fd, NULL, "not a Unix stream socket");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", a.dir);
	CHECK(system(cmd) == 0);
}

int main(void)
{
	if (!may_test())
		return 77;
	TEST(serves_on_what_it_inherits);
	TEST(closes_the_rest_without_close_range_too);
	TEST(refuses_what_is_no_listening_socket);
	return check_done();
}
