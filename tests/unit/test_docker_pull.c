/* SPDX-License-Identifier: MIT */
/* Pulls and builds by an engine that lies, hangs or breaks off; how far a pull is. The engine is a
 * thread here, on a socket of its own, that says what each test has written down. */
#include "common/cleanup.h"
#include "docker/docker.h"
#include "docker/progress.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GOOD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define OPEN GOOD "Connection: close\r\n\r\n"
#define LAYER(id, status, a, b)                                                            \
	"{\"status\":\"" status "\",\"id\":\"" id "\",\"progressDetail\":{\"current\":" #a \
	",\"total\":" #b "}}\r\n"

static char no_config[] = "/nonexistent/config.json";

/* One answer a connection, in turn; the last one again and again. "": it hangs. */
struct liar {
	const char *const *answers;
	size_t huge; /* so many bytes of a string without an end behind the answer */
	bool drain;  /* reads all that is sent, behind the answer */
	int fd, end_fd, asked;
	pthread_t thread;
	char dir[32], path[64];
	struct docker docker;
	int percent;
	int64_t bytes, total;
	unsigned told;
};

static void answer(struct liar *l, int fd, const char *s)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLRDHUP}, {.fd = l->end_fd, .events = POLLIN}};
	char junk[4096];
	size_t n = 0;

	if (read(fd, junk, sizeof(junk)) <= 0)
		return;
	if (!*s) { /* until the other side has had enough */
		poll(p, 2, 20000);
		return;
	}
	if (send(fd, s, strlen(s), MSG_NOSIGNAL) < 0)
		return;
	if (l->drain) { /* what is still being sent must not break the answer */
		shutdown(fd, SHUT_WR);
		while (read(fd, junk, sizeof(junk)) > 0)
			;
	}
	memset(junk, 'x', sizeof(junk));
	while (n < l->huge && send(fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0)
		n += sizeof(junk);
}

static void *serve(void *arg)
{
	struct liar *l = arg;
	struct pollfd p[] = {{.fd = l->fd, .events = POLLIN}, {.fd = l->end_fd, .events = POLLIN}};

	while (poll(p, 2, -1) >= 0 && !p[1].revents) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		l->asked++;
		answer(l, fd, *l->answers);
		if (l->answers[1])
			l->answers++;
		close(fd);
	}
	return NULL;
}

static void liar_start(struct liar *l)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char host[80];

	strcpy(l->dir, "/tmp/sbx-liar.XXXXXX");
	CHECK(mkdtemp(l->dir));
	snprintf(l->path, sizeof(l->path), "%s/s", l->dir);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", l->path);
	snprintf(host, sizeof(host), "unix://%s", l->path);
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	l->end_fd = eventfd(0, EFD_CLOEXEC);
	CHECK(bind(l->fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(l->fd, 16) == 0);
	if (!l->docker.config)
		l->docker.config = no_config;
	CHECK(http_new(host, &l->docker.http, NULL) == 0);
	CHECK(pthread_create(&l->thread, NULL, serve, l) == 0);
}

static void liar_end(struct liar *l)
{
	uint64_t one = 1;

	CHECK(write(l->end_fd, &one, sizeof(one)) == sizeof(one));
	pthread_join(l->thread, NULL);
	close(l->fd);
	close(l->end_fd);
	unlink(l->path);
	rmdir(l->dir);
	http_free(l->docker.http);
}

static void on_pulled(void *arg, int percent, int64_t bytes, int64_t total)
{
	struct liar *l = arg;

	l->told++;
	l->percent = percent;
	l->bytes = bytes;
	l->total = total;
}

static void on_built(void *arg, const char *line)
{
	struct liar *l = arg;

	l->told++;
}

/* One pull of r.example/a:1 by these answers; asked: how many connections it took. */
static int pull(struct liar *l, struct err *err)
{
	struct engine_fetcher f = {.pulled = on_pulled, .arg = l, .stop_fd = -1};
	int rc;

	*err = (struct err){0};
	liar_start(l);
	rc = docker_image_pull(&l->docker.engine, "r.example/a:1", NULL, &f, err);
	liar_end(l);
	return rc;
}

static int pull_one(const char *text, struct err *err)
{
	const char *const answers[] = {text, NULL};
	struct liar l = {.answers = answers};
	int rc = pull(&l, err);

	CHECK(l.asked == 1);
	return rc;
}

static void a_good_one(void)
{
	static const char *const answers[] = {OPEN
		"{\"status\":\"Pulling from a\",\"id\":\"1\"}\n" LAYER(
			"l1", "Pulling fs layer", 0, 0) LAYER("l1", "Downloading", 100, 1000)
			LAYER("l1", "Downloading", 500, 1000) LAYER("l1", "Extracting", 10, 1000)
				LAYER("l1", "Pull complete", 0, 0) "{\"status\":\"Status: done\"}",
		NULL};
	struct liar l = {.answers = answers};
	struct err err;

	CHECK(pull(&l, &err) == 0);
	CHECK(l.asked == 1 && l.bytes == 1000 && l.total == 1000 && l.percent == 99);
}

static void lies_have_words(void)
{
	static const struct {
		const char *answer;
		int code;
		const char *words;
	} lies[] = {
		{OPEN "nonsense", EPROTO, "the pull is not JSON"},
		{OPEN "{\"status\":}", EPROTO, "the pull is not JSON"},
		{OPEN "[{}]", EPROTO, "the pull is not JSON"},
		{OPEN "{\"status\":\"Downloading\",\"id\":", EPROTO, "ends in the middle"},
		{GOOD "Transfer-Encoding: chunked\r\n\r\n20\r\n{\"status\":\"x\"}", EHOSTDOWN,
			"broke the connection"},
		{GOOD "Content-Length: 400\r\n\r\n{\"status\":\"x\"}", EHOSTDOWN,
			"broke the connection"},
		{OPEN "{\"error\":\"manifest for a:1 not found\"}", ENOENT, "not found"},
		{OPEN "{\"error\":\"unauthorized: log in\"}", EACCES, "unauthorized: log in"},
		{OPEN "{\"error\":\"write /x: no space left on device\"}", ENOSPC, "no space"},
		{OPEN "{\"error\":\"odd\\u001b[2Jwords\"}", EIO, "odd [2Jwords"},
		{"HTTP/1.1 500 No\r\nContent-Length: 35\r\n\r\n"
		 "{\"message\":\"no basic auth for this\"}",
			EACCES, "no basic auth"},
		{"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", ENOENT, "status 404"},
		{"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nboom", EIO, "status 500: boom"},
		{"SSH-2.0-OpenSSH\r\n", EPROTO, "no engine"},
	};
	struct err err;

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		CHECK(pull_one(lies[i].answer, &err) == -lies[i].code);
		CHECK(strstr(err.msg, "cannot pull r.example/a:1: "));
		CHECK(strstr(err.msg, lies[i].words));
	}
}

static void a_line_without_end(void)
{
	static const char *const answers[] = {OPEN "{\"status\":\"", NULL};
	struct liar l = {.answers = answers, .huge = 64u << 20};
	struct err err;

	CHECK(pull(&l, &err) == -EPROTO);
	CHECK(strstr(err.msg, "not JSON"));
}

static void tried_again(void)
{
	static const char busy[] = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n"
				   "Connection: close\r\n\r\n";
	static const char *const soon[] = {busy, busy, OPEN "{\"status\":\"ok\"}", NULL};
	static const char *const never[] = {busy, NULL};
	struct liar l = {.answers = soon};
	struct err err;

	CHECK(pull(&l, &err) == 0 && l.asked == 3);
	l = (struct liar){.answers = never};
	CHECK(pull(&l, &err) == -EHOSTDOWN && l.asked == 6);
	CHECK(strstr(err.msg, "not ready"));
}

static void nobody_there(void)
{
	struct engine_fetcher f = {.pulled = on_pulled, .stop_fd = -1};
	struct docker d = {.config = no_config};
	struct err err = {0};

	CHECK(http_new("unix:///tmp/sbx-nobody/s", &d.http, NULL) == 0);
	CHECK(docker_image_pull(&d.engine, "a", "linux/arm64", &f, &err) == -EHOSTDOWN);
	http_free(d.http);
}

static void stopped_while_it_hangs(void)
{
	static const char *const answers[] = {"", NULL};
	struct liar l = {.answers = answers};
	struct engine_fetcher f = {.pulled = on_pulled, .arg = &l, .stop_fd = eventfd(1, 0)};
	struct err err = {0};

	liar_start(&l);
	CHECK(docker_image_pull(&l.docker.engine, "a", NULL, &f, &err) == -EINTR);
	liar_end(&l);
	close(f.stop_fd);
}

/* A build with a context that is larger than what the engine reads before it answers. */
static int build(struct liar *l, const char *context, struct err *err)
{
	struct engine_fetcher f = {.built = on_built, .arg = l, .stop_fd = -1};
	char image[] = "made:1", dir[64];
	struct spec spec = {.image = image, .build.context = dir};
	int rc;

	snprintf(dir, sizeof(dir), "%s", context);
	*err = (struct err){0};
	liar_start(l);
	rc = docker_image_build(&l->docker.engine, &spec, &f, err);
	liar_end(l);
	return rc;
}

static void builds_by_a_liar(void)
{
	static const struct {
		const char *answer;
		int code;
		const char *words;
	} lies[] = {
		{OPEN "{\"stream\":\"Step 1\\nno way\\n\"}{\"error\":\"returned 3\"}", EIO,
			"returned 3 (the last line of its log: no way)"},
		{OPEN "{\"stream\":7}nonsense", EPROTO, "the build is not JSON"},
		{OPEN "{\"stream\":\"x", EPROTO, "the build ends in the middle"},
		{"HTTP/1.1 400 No\r\nContent-Length: 23\r\n\r\n{\"message\":\"no Docker\"}", EINVAL,
			"no Docker"},
		{"HTTP/1.1 500 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nboom", EIO,
			"status 500: boom"},
	};
	char dir[] = "/tmp/sbx-build.XXXXXX", file[64];
	struct err err;

	CHECK(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/Dockerfile", dir);
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	for (int big = 0; big < 2; big++) {
		CHECK(truncate(file, big ? 8 << 20 : 0) == 0);
		for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
			const char *const answers[] = {lies[i].answer, NULL};
			struct liar l = {.answers = answers, .drain = true};

			CHECK(build(&l, dir, &err) == -lies[i].code);
			CHECK(strstr(err.msg, "cannot build made:1: "));
			CHECK(strstr(err.msg, lies[i].words));
		}
	}
	unlink(file);
	rmdir(dir);
}

/* As with a pull: without usable credentials it is tried, and both are told. */
static void a_build_without_its_credentials(void)
{
	static const char *const answers[] = {OPEN "{\"error\":\"pull access denied\"}", NULL};
	char dir[] = "/tmp/sbx-build.XXXXXX", file[64], config[64];
	struct liar l = {.answers = answers, .drain = true, .docker.config = config};
	struct err err;
	FILE *f;

	CHECK(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/Dockerfile", dir);
	snprintf(config, sizeof(config), "%s/config.json", dir);
	CHECK((f = fopen(file, "w")) && fputs("FROM r.example/a\n", f) > 0 && !fclose(f));
	CHECK((f = fopen(config, "w")) && fputs("{\"credsStore\":\"sbx-none\"}", f) > 0);
	CHECK(!fclose(f));
	CHECK(build(&l, dir, &err) == -EIO);
	CHECK(strstr(err.msg, "pull access denied"));
	CHECK(strstr(err.msg, "docker-credential-sbx-none is not installed"));
	unlink(file);
	unlink(config);
	rmdir(dir);
}

static void feed(struct progress *p, const char *text)
{
	cJSON *o = cJSON_Parse(text);

	CHECK(o);
	progress_feed(p, o);
	cJSON_Delete(o);
}

static void progress_over_layers(void)
{
	struct progress p = {0};

	feed(&p, "{\"status\":\"Pulling from library/a\",\"id\":\"latest\"}");
	CHECK(p.n == 0);
	feed(&p, LAYER("a", "Pulling fs layer", 0, 0));
	feed(&p, LAYER("b", "Pulling fs layer", 0, 0));
	feed(&p, LAYER("c", "Already exists", 0, 0));
	feed(&p, LAYER("a", "Downloading", 50, 100));
	CHECK(p.percent == 25 && p.bytes == 50 && p.total == 100); /* b: as large, as it seems */
	feed(&p, LAYER("b", "Downloading", 0, 900));
	CHECK(p.percent == 25 && p.bytes == 50 && p.total == 1000); /* never backwards */
	feed(&p, LAYER("b", "Downloading", 450, 900));
	CHECK(p.percent == 50 && p.bytes == 500);
	feed(&p, LAYER("a", "Download complete", 0, 0));
	feed(&p, LAYER("b", "Download complete", 0, 0));
	CHECK(p.percent == 99 && p.bytes == 1000 && p.total == 1000);
}

static void progress_of_a_liar(void)
{
	static const char *const lies[] = {LAYER("a", "Downloading", -5, -7),
		LAYER("a", "Downloading", 1e300, 1e300), LAYER("a", "Downloading", 5, 0),
		"{\"status\":\"Downloading\",\"id\":7}", "{\"status\":[],\"id\":\"a\"}",
		"{\"id\":\"a\"}", "{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":[]}",
		"{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":1.5}}"};
	struct progress p = {0};
	char text[128];

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++)
		feed(&p, lies[i]);
	CHECK(p.percent == 0 && p.bytes == 0 && p.total == 0);
	for (int i = 0; i < 2 * PROGRESS_LAYERS_MAX; i++) {
		snprintf(text, sizeof(text),
			"{\"status\":\"Downloading\",\"id\":\"x%d\",\"progressDetail\":"
			"{\"current\":1125899906842624,\"total\":1125899906842624}}",
			i);
		feed(&p, text);
		CHECK(p.bytes >= 0 && p.bytes <= p.total && p.percent < 100);
	}
	CHECK(p.n == PROGRESS_LAYERS_MAX);
}

int main(void)
{
	TEST(a_good_one);
	TEST(lies_have_words);
	TEST(a_line_without_end);
	TEST(tried_again);
	TEST(nobody_there);
	TEST(stopped_while_it_hangs);
	TEST(builds_by_a_liar);
	TEST(a_build_without_its_credentials);
	TEST(progress_over_layers);
	TEST(progress_of_a_liar);
	return check_done();
}
