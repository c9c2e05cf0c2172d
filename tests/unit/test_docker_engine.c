/* SPDX-License-Identifier: MIT */
/* What is said to an engine that answers each request as the test wants, and hangs where it says
 * nothing: starts, logs, the agent's volume, the stream to an agent. */
#include "docker/demux.h"
#include "docker/docker.h"
#include "docker/follow.h"
#include "sandbox/loop.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ID	    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CLOSE	    "Connection: close\r\n\r\n"
#define YES	    "HTTP/1.1 200 OK\r\n" CLOSE
#define MADE	    YES "{\"Id\":\"" ID "\"}"
#define CONNECTIONS 4096

/* One thread a connection, one answer a connection. */
static struct {
	const char *(*answer)(const char *request); /* NULL: none, until the end */
	_Atomic size_t flood;			    /* so many bytes more behind a 101 */
	int fd, end_fd;
	char dir[32], path[64];
	pthread_t thread, each[CONNECTIONS];
	size_t n;
	struct docker docker;
} t;

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct pollfd p[] = {{.fd = fd, .events = POLLRDHUP}, {.fd = t.end_fd, .events = POLLIN}};
	char text[4096] = "";
	const char *answer;
	size_t n = 0;

	if (read(fd, text, sizeof(text) - 1) <= 0) {
		close(fd);
		return NULL;
	}
	answer = t.answer(text);
	if (!answer)
		poll(p, 2, 20000);
	else if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) > 0 && strstr(answer, " 101 "))
		/* Frames of standard output, 256 bytes each. */
		for (memset(text, 'x', sizeof(text)); n < t.flood; n += 264) {
			memcpy(text, "\1\0\0\0\0\0\1\0", 8);
			if (send(fd, text, 264, MSG_NOSIGNAL) <= 0)
				break;
		}
	close(fd);
	return NULL;
}

static void *serve(void *arg)
{
	struct pollfd p[] = {{.fd = t.fd, .events = POLLIN}, {.fd = t.end_fd, .events = POLLIN}};

	while (poll(p, 2, -1) >= 0 && !p[1].revents) {
		int fd = accept4(t.fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 || t.n == CONNECTIONS ||
			pthread_create(&t.each[t.n], NULL, serve_one, (void *)(intptr_t)fd))
			abort();
		t.n++;
	}
	return NULL;
}

static struct engine *up(const char *(*answer)(const char *request))
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char host[80];

	memset(&t, 0, sizeof(t));
	t.answer = answer;
	strcpy(t.dir, "/tmp/sbx-engine.XXXXXX");
	CHECK(mkdtemp(t.dir));
	snprintf(t.path, sizeof(t.path), "%s/s", t.dir);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", t.path);
	snprintf(host, sizeof(host), "unix://%s", t.path);
	t.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	t.end_fd = eventfd(0, EFD_CLOEXEC);
	CHECK(bind(t.fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(t.fd, 64) == 0);
	CHECK(http_new(host, &t.docker.http, NULL) == 0);
	CHECK(pthread_create(&t.thread, NULL, serve, NULL) == 0);
	return &t.docker.engine;
}

static void down(void)
{
	uint64_t one = 1;

	CHECK(write(t.end_fd, &one, sizeof(one)) == sizeof(one));
	http_free(t.docker.http);
	pthread_join(t.thread, NULL);
	for (size_t i = 0; i < t.n; i++)
		pthread_join(t.each[i], NULL);
	close(t.fd);
	close(t.end_fd);
	unlink(t.path);
	rmdir(t.dir);
}

static const char *no_network(const char *request)
{
	if (strstr(request, "/start"))
		return "HTTP/1.1 404 No\r\n" CLOSE "{\"message\":\"network x not found\"}";
	return MADE;
}

static const char *no_container(const char *request)
{
	return "HTTP/1.1 404 No\r\n" CLOSE "{\"message\":\"No such container: x\"}";
}

static void a_start_without_its_network(void)
{
	struct err err = {0};

	CHECK(docker_start(up(no_network), ID, &err) == -EINVAL && err.code == EINVAL);
	CHECK_STR(err.msg, "network x not found");
	down();
	CHECK(docker_start(up(no_container), ID, &err) == -ENOENT);
	down();
}

static const char *silence(const char *request)
{
	return NULL;
}

static int on_data(void *arg, const void *p, size_t n)
{
	return 0;
}

static void an_answer_that_never_comes(void)
{
	struct follow_request req = {.method = "GET", .path = "/x", .timeout_s = 1};
	struct follow_sink sink = {.data = on_data, .stop_fd = -1};
	struct err err = {0};

	up(silence);
	CHECK(follow(t.docker.http, &req, &sink, &err) == -EHOSTDOWN);
	CHECK(strstr(err.msg, "it does not answer"));
	down();
}

/* The filler's name is another's for a while, though nobody sees a filler; then it is found out
 * that the disk is full. */
static int64_t free_ms;

static const char *busy_for_a_while(const char *request)
{
	if (strstr(request, "/containers/create"))
		return loop_now_ms() < free_ms ? "HTTP/1.1 409 No\r\n" CLOSE
						 "{\"message\":\"in use\"}"
					       : "HTTP/1.1 500 No\r\n" CLOSE
						 "{\"message\":\"/x: no space left on device\"}";
	return strstr(request, "/volumes/create") ? YES : no_container(request);
}

static void a_volume_that_another_fills(void)
{
	struct agent_volume *a = NULL;
	struct err err = {0};

	CHECK(agent_volume_new("/proc/self/exe", &a, &err) == 0);
	free_ms = loop_now_ms() + 2000;
	up(busy_for_a_while);
	CHECK(agent_volume_ensure(a, t.docker.http, "image", &err) == -ENOSPC);
	down();
	CHECK(t.n < 400);
	agent_volume_free(a);
}

static const char *_Atomic upgraded = "HTTP/1.1 101 UPGRADED\r\n\r\n";

static const char *streams(const char *request)
{
	return strstr(request, "/start") ? upgraded : MADE;
}

static ssize_t read_some(struct stream *s)
{
	char text[4096];
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	ssize_t n;

	while ((n = s->read(s, text, sizeof(text))) == -EAGAIN)
		CHECK(poll(&p, 1, 20000) == 1);
	return n;
}

/* Words where the agent's frames should be; a flood of them has an end. */
static void words_instead_of_an_agent(void)
{
	struct stream *s = NULL;
	struct err err = {0};

	upgraded = "HTTP/1.1 101 UPGRADED\r\n\r\n";
	up(streams);
	t.flood = 264;
	CHECK(docker_connect(&t.docker.engine, ID, &s, &err) == 0);
	CHECK(read_some(s) == 0 && strlen(s->words(s)) == 256);
	s->close(s);
	t.flood = 8 * DEMUX_NOISE_MAX;
	CHECK(docker_connect(&t.docker.engine, ID, &s, &err) == 0);
	CHECK(read_some(s) == -EPROTO);
	s->close(s);
	down();
}

static void answers_that_are_no_stream(void)
{
	static const struct {
		const char *text;
		int code;
	} all[] = {{"HTTP/1.1 204 No\r\n\r\n", EPROTO}, {"HTTP/1.1 304 No\r\n\r\n", EPROTO},
		{"HTTP/1.1 302 No\r\n\r\n", EPROTO},
		{"HTTP/1.1 409 No\r\nContent-Length: 15\r\n\r\n{\"message\":\"m\"}", EBUSY}};
	struct err err = {0};

	up(streams);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct stream *s = NULL;

		upgraded = all[i].text;
		CHECK(docker_connect(&t.docker.engine, ID, &s, &err) == -all[i].code && !s);
	}
	down();
}

static const char *version(const char *request)
{
	return YES "{\"Version\":\"1\",\"ApiVersion\":\"1.41\"}";
}

/* The daemon leaves the directory that it was started in; credentials are read later. */
static void a_relative_config(void)
{
	char host[80], want[64];
	struct engine_place place = {.host = host};
	struct engine_config config = {
		.place = &place, .namespace = "ns", .agent_path = "/proc/self/exe"};
	struct engine *e = NULL;
	struct err err = {0};

	up(version);
	snprintf(host, sizeof(host), "unix://%s", t.path);
	snprintf(want, sizeof(want), "%s/conf/config.json", t.dir);
	CHECK(chdir(t.dir) == 0);
	setenv("DOCKER_CONFIG", "conf", 1);
	CHECK(docker_engine_open(&config, &e, &err) == 0);
	CHECK(chdir("/") == 0);
	CHECK_STR(docker_of(e)->config, want);
	e->ops->close(e);
	down();
}

int main(void)
{
	TEST(a_relative_config);
	TEST(a_start_without_its_network);
	TEST(an_answer_that_never_comes);
	TEST(a_volume_that_another_fills);
	TEST(words_instead_of_an_agent);
	TEST(answers_that_are_no_stream);
	return check_done();
}
