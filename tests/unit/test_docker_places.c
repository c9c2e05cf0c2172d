/* SPDX-License-Identifier: MIT */
/* Where engines are looked for: the environment, and contexts of the docker command, good and bad,
 * in a directory of its own. */
#include "common/cleanup.h"
#include "docker/config.h"
#include "sandbox/engine.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* SHA-256 of "far", by another program. */
#define FAR  "512eea46ceb3921dff4363c7069d89d4964d1d9fccaa0f411851a7aa60a5c868"
#define META "contexts/meta/" FAR
#define TLS  "contexts/tls/" FAR "/docker"

static char top[64];

static const char *at(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", top, name);
	return p;
}

static void put(const char *name, const char *text, size_t n)
{
	cleanup_close int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n);
}

static void puts_to(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void fresh(void)
{
	static const char *const files[] = {
		"config.json", META "/meta.json", TLS "/ca.pem", TLS "/cert.pem", TLS "/key.pem"};
	static const char *const env[] = {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY",
		"DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		unlink(at(files[i]));
		rmdir(at(files[i]));
	}
	for (size_t i = 0; i < sizeof(env) / sizeof(*env); i++)
		unsetenv(env[i]);
	setenv("DOCKER_CONFIG", top, 1);
}

/* The context's address; NULL and the error in err where there is none. */
static char *host_of(struct err *err)
{
	struct engine_place p = {0};
	char *host;
	int rc;

	*err = (struct err){0};
	rc = docker_place_context(NULL, &p, err);
	CHECK(rc == -err->code);
	CHECK(rc == 0 || (!p.host && !p.why && *err->msg));
	host = steal_ptr(&p.host);
	engine_place_fini(&p);
	return host;
}

/* It fails so, and the words have this. */
static void bad(int code, const char *words)
{
	struct err err;
	char *host = host_of(&err);

	if (err.code != code || !strstr(err.msg, words))
		printf("# %d %s\n", err.code, err.msg);
	CHECK(!host && err.code == code && strstr(err.msg, words));
}

static void no_context(void)
{
	fresh();
	bad(ENOENT, "none is chosen");
	puts_to("config.json", "{\"auths\":{}}");
	bad(ENOENT, "none is chosen");
	puts_to("config.json", "{\"currentContext\":\"\"}");
	bad(ENOENT, "none is chosen");
	puts_to("config.json", "{\"currentContext\":\"default\"}");
	bad(ENOENT, "none is chosen");
	puts_to("config.json", "{\"currentContext\":\"far\"}");
	setenv("DOCKER_CONTEXT", "default", 1);
	bad(ENOENT, "none is chosen");
	setenv("DOCKER_CONFIG", at("config.json"), 1); /* a file, not a directory */
	unsetenv("DOCKER_CONTEXT");
	bad(ENOENT, "none is chosen");
}

static void good_context(void)
{
	struct engine_place p = {0};
	struct err err = {0};
	char *host;

	fresh();
	puts_to("config.json", "{\"currentContext\":\"far\"}");
	puts_to(META "/meta.json", "{\"Name\":\"far\",\"Metadata\":{},\"Endpoints\":{\"docker\":"
				   "{\"Host\":\"tcp://far:2376\",\"SkipTLSVerify\":false}}}");
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK_STR(p.host, "tcp://far:2376");
	CHECK(strstr(p.why, "far"));
	CHECK(!p.tls && !p.unverified && !p.ca && !p.cert && !p.key);
	engine_place_fini(&p);

	setenv("DOCKER_TLS_VERIFY", "1", 1); /* is not about contexts */
	puts_to("config.json", "{\"currentContext\":\"other\"}");
	setenv("DOCKER_CONTEXT", "far", 1); /* wins */
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK(!p.tls);
	engine_place_fini(&p);

	puts_to("config.json", "not JSON"); /* nobody asks it */
	host = host_of(&err);
	CHECK_STR(host, "tcp://far:2376");
	free(host);
}

static void context_with_tls(void)
{
	struct engine_place p = {0};
	struct err err = {0};

	fresh();
	setenv("DOCKER_CONTEXT", "far", 1);
	puts_to(META "/meta.json", "{\"Endpoints\":{\"docker\":{\"Host\":\"tcp://far:2376\"}}}");
	puts_to(TLS "/ca.pem", "x");
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK(p.tls && !p.unverified && !p.cert && !p.key);
	CHECK_STR(p.ca, at(TLS "/ca.pem"));
	engine_place_fini(&p);
	puts_to(TLS "/cert.pem", "x");
	puts_to(TLS "/key.pem", "x");
	CHECK(chdir(top) == 0);
	setenv("DOCKER_CONFIG", ".", 1); /* the daemon will be elsewhere */
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK(chdir("/") == 0);
	CHECK(access(p.ca, R_OK) == 0 && access(p.cert, R_OK) == 0 && access(p.key, R_OK) == 0);
	engine_place_fini(&p);
	fresh();
	setenv("DOCKER_CONTEXT", "far", 1);
	puts_to(META "/meta.json", "{\"Endpoints\":{\"docker\":{\"Host\":\"tcp://far:2376\","
				   "\"SkipTLSVerify\":true}}}");
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK(p.tls && p.unverified && !p.ca);
	engine_place_fini(&p);
}

static void bad_names(void)
{
	static const char *const names[] = {
		"../x", ".x", "-x", "a/b", "a b", "a\nchosen: b", "\xff"};
	char longest[300];

	fresh();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		setenv("DOCKER_CONTEXT", names[i], 1);
		bad(EINVAL, "no name of a context");
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	setenv("DOCKER_CONTEXT", longest, 1);
	bad(EINVAL, "no name of a context");
	setenv("DOCKER_CONTEXT", "nobody", 1);
	bad(EINVAL, "context nobody: there is no ");
}

static void bad_config(void)
{
	static const char *const texts[] = {"", "{", "[]", "7", "null", "{\"currentContext\":}"};
	static const char *const kinds[] = {"7", "null", "{}", "[\"far\"]", "true"};
	char text[64];

	fresh();
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		puts_to("config.json", texts[i]);
		bad(EINVAL, "config.json is not JSON");
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		snprintf(text, sizeof(text), "{\"currentContext\":%s}", kinds[i]);
		puts_to("config.json", text);
		bad(EINVAL, "is no text");
	}
	unlink(at("config.json"));
	CHECK(mkdir(at("config.json"), 0700) == 0);
	bad(EISDIR, "config.json");
}

static void bad_meta(void)
{
	static const char *const texts[] = {"{}", "{\"Endpoints\":7}", "{\"Endpoints\":{}}",
		"{\"Endpoints\":{\"kubernetes\":{\"Host\":\"tcp://far:1\"}}}",
		"{\"Endpoints\":{\"docker\":[]}}", "{\"Endpoints\":{\"docker\":{}}}",
		"{\"Endpoints\":{\"docker\":{\"Host\":null}}}",
		"{\"Endpoints\":{\"docker\":{\"Host\":7}}}",
		"{\"Endpoints\":{\"docker\":{\"Host\":\"\"}}}",
		"{\"endpoints\":{\"docker\":{\"Host\":\"tcp://far:1\"}}}"};
	static const char *const broken[] = {"", "{\"Endpoints\":{", "[1]", "\xff\xfe", "\"text\""};
	static char huge[(1u << 20) + 4096];

	fresh();
	setenv("DOCKER_CONTEXT", "far", 1);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		puts_to(META "/meta.json", texts[i]);
		bad(EINVAL, "names no Endpoints.docker.Host");
	}
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		puts_to(META "/meta.json", broken[i]);
		bad(EINVAL, "meta.json is not JSON");
	}
	memset(huge, '[', 5000); /* deeper than a parser should follow */
	put(META "/meta.json", huge, 5000);
	bad(EINVAL, "meta.json is not JSON");
	memset(huge, ' ', sizeof(huge));
	put(META "/meta.json", huge, sizeof(huge));
	bad(EFBIG, "larger than 1 MiB");
}

static void named_by_the_user(void)
{
	struct engine_place p = {0};
	struct err err = {0};

	fresh();
	CHECK(docker_place_option(NULL, &p, &err) == -ENOENT);
	CHECK(docker_place_option("", &p, &err) == -ENOENT);
	CHECK(docker_place_env("tcp://option:1", &p, &err) == -ENOENT);
	setenv("DOCKER_HOST", "", 1);
	CHECK(docker_place_env(NULL, &p, &err) == -ENOENT);
	setenv("DOCKER_HOST", "tcp://env:1", 1);
	CHECK(docker_place_env("tcp://option:1", &p, &err) == 0);
	CHECK_STR(p.host, "tcp://env:1");
	CHECK(!p.tls);
	engine_place_fini(&p);
	setenv("DOCKER_TLS_VERIFY", "1", 1);
	setenv("DOCKER_CERT_PATH", "/certs", 1);
	CHECK(docker_place_option("tcp://option:1", &p, &err) == 0);
	CHECK_STR(p.host, "tcp://option:1");
	CHECK(p.tls && !p.unverified);
	CHECK_STR(p.ca, "/certs/ca.pem");
	CHECK_STR(p.cert, "/certs/cert.pem");
	CHECK_STR(p.key, "/certs/key.pem");
	engine_place_fini(&p);
}

/* As the docker command has it. */
static void ports_that_are_not_said(void)
{
	static const char *const hosts[][3] = {
		{"tcp://far", "tcp://far:2375", "tcp://far:2376"},
		{"tcp://far:", "tcp://far:2375", "tcp://far:2376"},
		{"tcp://far:1", "tcp://far:1", "tcp://far:1"},
		{"tcp://[::1]", "tcp://[::1]:2375", "tcp://[::1]:2376"},
		{"tcp://[::1]:1", "tcp://[::1]:1", "tcp://[::1]:1"},
		{"tcp://", "tcp://", "tcp://"},
		{"unix:///far", "unix:///far", "unix:///far"},
	};
	struct engine_place p = {0};
	struct err err = {0};

	fresh();
	for (size_t tls = 0; tls < 2; tls++) {
		for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
			CHECK(docker_place_option(hosts[i][0], &p, &err) == 0);
			CHECK_STR(p.host, hosts[i][1 + tls]);
			engine_place_fini(&p);
		}
		setenv("DOCKER_TLS_VERIFY", "1", 1);
	}
	fresh();
	setenv("DOCKER_CONTEXT", "far", 1);
	puts_to(META "/meta.json", "{\"Endpoints\":{\"docker\":{\"Host\":\"tcp://far\"}}}");
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK_STR(p.host, "tcp://far:2375");
	engine_place_fini(&p);
	puts_to(TLS "/ca.pem", "x");
	CHECK(docker_place_context(NULL, &p, &err) == 0);
	CHECK_STR(p.host, "tcp://far:2376");
	engine_place_fini(&p);
}

static void usual_sockets(void)
{
	struct engine_place p = {0};
	struct err err = {0};
	char own[64];

	fresh();
	CHECK(docker_place_socket("tcp://option:1", &p, &err) == 0);
	CHECK_STR(p.host, "unix:///var/run/docker.sock");
	engine_place_fini(&p);
	setenv("XDG_RUNTIME_DIR", "/xdg", 1);
	CHECK(docker_place_podman(NULL, &p, &err) == 0);
	CHECK_STR(p.host,
		geteuid() ? "unix:///xdg/podman/podman.sock" : "unix:///run/podman/podman.sock");
	engine_place_fini(&p);
	if (geteuid() == 0 && seteuid(4242) < 0)
		return;
	CHECK(docker_place_podman(NULL, &p, &err) == 0);
	CHECK_STR(p.host, "unix:///xdg/podman/podman.sock");
	engine_place_fini(&p);
	unsetenv("XDG_RUNTIME_DIR");
	CHECK(docker_place_podman(NULL, &p, &err) == 0);
	snprintf(own, sizeof(own), "unix:///run/user/%u/podman/podman.sock", geteuid());
	CHECK_STR(p.host, own);
	engine_place_fini(&p);
	if (getuid() == 0)
		CHECK(seteuid(0) == 0);
}

int main(void)
{
	static const char *const dirs[] = {
		"contexts", "contexts/meta", META, "contexts/tls", "contexts/tls/" FAR, TLS};

	snprintf(top, sizeof(top), "/tmp/sbx-places.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdir(at(dirs[i]), 0700) < 0)
			return 1;
	TEST(no_context);
	TEST(good_context);
	TEST(context_with_tls);
	TEST(bad_names);
	TEST(bad_config);
	TEST(bad_meta);
	TEST(named_by_the_user);
	TEST(ports_that_are_not_said);
	TEST(usual_sockets);
	fresh();
	for (size_t i = sizeof(dirs) / sizeof(*dirs); i-- > 0;)
		rmdir(at(dirs[i]));
	rmdir(top);
	return check_done();
}
