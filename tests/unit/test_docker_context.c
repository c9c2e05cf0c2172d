/* SPDX-License-Identifier: MIT */
/* A build's context packed, its log cut into lines, the registries that it names; and credentials
 * from a file and from helper programs. All in a directory of its own. */
#include "common/cleanup.h"
#include "docker/build.h"
#include "docker/context.h"
#include "docker/credentials.h"
#include "tests/unit/check.h"

#include <archive.h>
#include <archive_entry.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

static char top[64];

/* A path beneath the directory. Of the last eight calls each has its own. */
static const char *at(const char *name)
{
	static char paths[8][128];
	static unsigned next;
	char *p = paths[next++ % 8];

	snprintf(p, sizeof(paths[0]), "%s/%s", top, name);
	return p;
}

static void put(const char *name, const void *p, size_t n)
{
	cleanup_close int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
}

static void puts_to(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

/* The members' names, types, modes and the length of their content, as they come from a context
 * read n bytes at a time. */
static int pack(const char *dockerfile, size_t n, struct buf *list, struct err *err)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	struct context *c = NULL;
	struct buf tar;
	char chunk[8192];
	ssize_t got;
	int rc = context_open(at("ctx"), dockerfile, -1, &c, err);

	buf_init(&tar, 64u << 20);
	if (rc == 0) {
		while ((got = context_read(c, chunk, n, err)) > 0)
			buf_append(&tar, chunk, (size_t)got);
		rc = (int)got;
		context_close(c);
	}
	archive_read_support_format_tar(a);
	if (rc == 0)
		CHECK(archive_read_open_memory(a, tar.data, tar.len) == 0);
	while (rc == 0 && archive_read_next_header(a, &e) == ARCHIVE_OK) {
		const char *link = archive_entry_symlink(e);

		CHECK(archive_entry_uid(e) == 0 && archive_entry_gid(e) == 0);
		buf_printf(list, "%s %o %lld%s%s\n", archive_entry_pathname(e),
			archive_entry_mode(e), (long long)archive_entry_size(e), link ? " -> " : "",
			link ? link : "");
	}
	archive_read_free(a);
	buf_fini(&tar);
	return rc;
}

static bool has(const struct buf *list, const char *line)
{
	const char *p = list->len ? strstr((char *)list->data, line) : NULL;

	return p && (p == (char *)list->data || p[-1] == '\n');
}

static void a_tree(void)
{
	struct buf list, again;
	char *big = calloc(1, 300000), name[201];

	memset(name, 'n', 200);
	name[200] = 0;
	mkdir(at("ctx"), 0755);
	mkdir(at("ctx/sub"), 0750);
	mkdir(at("ctx/secret"), 0755);
	puts_to("outside", "not yours");
	puts_to("ctx/Dockerfile", "FROM x\n");
	puts_to("ctx/empty", "");
	put("ctx/sub/big", big, 300000);
	puts_to("ctx/secret/key", "key");
	puts_to("ctx/secret/public", "public");
	CHECK(symlink("../../outside", at("ctx/sub/climb")) == 0);
	CHECK(symlink("/", at("ctx/root")) == 0);
	CHECK(mkfifo(at("ctx/fifo"), 0600) == 0);
	CHECK(mkdir(at("ctx/sub/deep"), 0755) == 0);
	snprintf(big, 300000, "ctx/sub/deep/%s", name);
	{
		char *path = NULL;

		CHECK(asprintf(&path, "%s/%s", top, big) > 0);
		CHECK(mkdir(path, 0755) == 0); /* a name that needs a member of its own */
		free(path);
	}
	free(big);
	puts_to("ctx/.dockerignore", "*\n!sub\n!fifo\n!root\n!secret/public\nDockerfile\n");
	buf_init(&list, 1 << 20);
	buf_init(&again, 1 << 20);
	CHECK(pack("Dockerfile", 8192, &list, NULL) == 0);
	CHECK(has(&list, "Dockerfile 100644 7\n") && has(&list, ".dockerignore 100644 "));
	CHECK(has(&list, "sub/ 40750 0\n") || has(&list, "sub 40750 0\n"));
	CHECK(has(&list, "sub/big 100644 300000\n") && has(&list, "fifo 10600 0\n"));
	CHECK(has(&list, "sub/climb 120777 0 -> ../../outside\n") &&
		has(&list, "root 120777 0 -> /\n"));
	CHECK(has(&list, "secret/public 100644 6\n"));
	CHECK(!has(&list, "secret/key") && !has(&list, "empty") && !has(&list, "root/"));
	CHECK(strstr((char *)list.data, name));
	CHECK(pack("Dockerfile", 1, &again, NULL) == 0);
	CHECK(again.len == list.len && !memcmp(again.data, list.data, list.len));
	buf_fini(&list);
	buf_fini(&again);
}

static void bad_contexts(void)
{
	struct context *c = NULL;
	struct err err = {0};
	struct buf list;

	buf_init(&list, 1 << 20);
	CHECK(context_open(at("none"), "Dockerfile", -1, &c, &err) == -ENOENT);
	CHECK(strstr(err.msg, "/none: "));
	CHECK(context_open(at("outside"), "Dockerfile", -1, &c, &err) == -ENOTDIR);
	CHECK(symlink("ctx", at("link")) == 0);
	CHECK(context_open(at("link"), "Dockerfile", -1, &c, &err) == -ELOOP);
	puts_to("ctx/.dockerignore", "[");
	CHECK(pack("Dockerfile", 8192, &list, &err) == -EINVAL);
	CHECK(strstr(err.msg, ".dockerignore, line 1: "));
	CHECK(unlink(at("ctx/.dockerignore")) == 0);
	CHECK(symlink("../outside", at("ctx/.dockerignore")) == 0);
	CHECK(pack("Dockerfile", 8192, &list, &err) == -EINVAL && strstr(err.msg, "link"));
	CHECK(unlink(at("ctx/.dockerignore")) == 0);
	buf_fini(&list);
}

/* Between two reads: shorter, gone, a link in its place. Nothing from outside is ever read. */
static void changes_meanwhile(void)
{
	struct context *c = NULL;
	struct err err = {0};
	char chunk[512];
	ssize_t n;

	CHECK(context_open(at("ctx"), "Dockerfile", -1, &c, &err) == 0);
	CHECK(truncate(at("ctx/sub/big"), 10) == 0);
	while ((n = context_read(c, chunk, sizeof(chunk), &err)) > 0)
		;
	CHECK(n == 0); /* it was not begun yet: all is well */
	CHECK(truncate(at("ctx/sub/big"), 300000) == 0);
	CHECK(context_rewind(c, &err) == 0);
	while ((n = context_read(c, chunk, sizeof(chunk), &err)) > 0)
		if (!strncmp(chunk, "sub/big", 8))
			CHECK(truncate(at("ctx/sub/big"), 10) == 0);
	CHECK(n == -EIO && strstr(err.msg, "sub/big became shorter"));
	context_close(c);
}

/* Nothing of it is sent: whoever waits for the next bytes must not wait for the whole walk. */
static void a_walk_can_be_stopped(void)
{
	int stop = eventfd(1, EFD_CLOEXEC);
	struct context *c = NULL;
	struct err err = {0};
	char name[32], chunk[512];

	CHECK(mkdir(at("wide"), 0755) == 0);
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "wide/%d", i);
		puts_to(name, "");
	}
	puts_to("wide/.dockerignore", "*\n");
	CHECK(context_open(at("wide"), "Dockerfile", stop, &c, &err) == 0);
	for (int i = 0; i < 8; i++) {
		ssize_t n = context_read(c, chunk, sizeof(chunk), &err);

		CHECK(n != 0);
		if (n < 0)
			break;
	}
	CHECK(err.code == EINTR);
	context_close(c);
	close(stop);
}

static void keep_line(void *arg, const char *line)
{
	buf_printf(arg, "<%s>", line);
}

static void log_lines(void)
{
	struct build_log l = {0};
	struct engine_fetcher f = {.built = keep_line};
	char longer[BUILD_LINE_MAX + 10];
	struct buf out;

	buf_init(&out, 1 << 20);
	f.arg = &out;
	l.fetcher = &f;
	build_log_text(&l, "Step 1");
	build_log_text(&l, "/2\n\n\x1b[91mred\x1b[0m\tx\r\nhalf");
	CHECK_STR((char *)out.data, "<Step 1/2><red x>");
	CHECK_STR(l.last, "red x");
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	build_log_text(&l, longer);
	build_log_text(&l, "\n");
	CHECK(out.len == strlen("<Step 1/2><red x>") + 4 + sizeof(longer) - 1 + 4);
	buf_fini(&out);
}

static void registries_of_a_dockerfile(void)
{
	char *got[4] = {0};
	size_t n =
		build_registries("# FROM no.example/a\nfrom  r.example:5/a AS b\nRUN FROM x.y/z\n"
				 "\tFROM --platform=$P r.example:5/c\nFROM busybox\nFROMx.y/z\n"
				 "FROM $BASE/x\nFROM localhost/a",
			got, 4);

	CHECK(n == 3);
	CHECK_STR(got[0], "r.example:5");
	CHECK_STR(got[1], "docker.io");
	CHECK_STR(got[2], "localhost");
	for (size_t i = 0; i < n; i++)
		free(got[i]);
}

static void stages_of_a_dockerfile(void)
{
	char *got[4] = {0};
	size_t n = build_registries("FROM $X AS one\nFROM r.example/a as Two\nFROM scratch\n"
				    "FROM one\nFROM two AS three\nFROM  three  \n",
		got, 4);

	CHECK(n == 1);
	CHECK_STR(got[0], "r.example");
	free(got[0]);
	n = build_registries("FROM one\nFROM x.y/z AS one\n", got, 4); /* not yet one */
	CHECK(n == 2);
	CHECK_STR(got[0], "docker.io");
	free(got[0]);
	free(got[1]);
}

/* A head's value as JSON again; ends the buffer. */
static cJSON *decoded(struct buf *b)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char text[4096];
	size_t n = 0;
	unsigned bits = 0, v = 0;
	cJSON *j;

	CHECK(b->len % 4 == 0);
	for (size_t i = 0; i < b->len && b->data[i] != '='; i++) {
		CHECK(strchr(set, b->data[i]));
		v = v << 6 | (unsigned)(strchr(set, b->data[i]) - set);
		bits += 6;
		if (bits >= 8)
			text[n++] = (char)(v >> (bits -= 8));
	}
	j = n ? cJSON_ParseWithLength(text, n) : NULL;
	CHECK(!n || j);
	buf_fini(b);
	return j;
}

/* What is kept for a registry. */
static cJSON *kept(const char *registry, int *rc, struct err *err)
{
	struct buf b;

	buf_init(&b, 65536);
	*err = (struct err){0};
	*rc = credentials_header(at("config.json"), registry, -1, &b, err);
	return decoded(&b);
}

static void is_kept(const char *registry, const char *want)
{
	struct err err;
	int rc;
	cJSON *j = kept(registry, &rc, &err);
	char *text = j ? cJSON_PrintUnformatted(j) : NULL;

	CHECK(rc == 0);
	CHECK_STR(text ? text : "none", want);
	cJSON_free(text);
	cJSON_Delete(j);
}

static void fails_to_keep(const char *registry, int code, const char *words)
{
	struct err err;
	int rc;
	cJSON *j = kept(registry, &rc, &err);

	CHECK(!j && rc == -code);
	CHECK(strstr(err.msg, words) && !strstr(err.msg, "hush"));
}

static void config(const char *text)
{
	puts_to("config.json", text);
}

static void credentials_from_the_file(void)
{
	unlink(at("config.json"));
	is_kept("r:5", "none");
	config("{\"auths\":{\"https://r:5/v2/\":{\"auth\":\"am86czpl\"},\"t.example\":"
	       "{\"identitytoken\":\"tok\"},\"https://index.docker.io/v1/\":{\"username\":\"u\","
	       "\"password\":\"p>?\"},\"bad\":{\"auth\":\"am8=\"},\"worse\":{\"auth\":\"!!\"}}}");
	is_kept("r:5", "{\"username\":\"jo\",\"password\":\"s:e\",\"serveraddress\":\"r:5\"}");
	is_kept("r:50", "none");
	is_kept("r", "none");
	is_kept("t.example", "{\"identitytoken\":\"tok\",\"serveraddress\":\"t.example\"}");
	is_kept("docker.io", "{\"username\":\"u\",\"password\":\"p>?\",\"serveraddress\":"
			     "\"https://index.docker.io/v1/\"}");
	fails_to_keep("bad", EINVAL, "no USER:PASSWORD");
	fails_to_keep("worse", EINVAL, "no USER:PASSWORD");
	/* The name itself before an address with it in it, whatever the order. */
	config("{\"auths\":{\"https://r:5/v1/\":{\"identitytoken\":\"old\"},\"r:5\":"
	       "{\"identitytoken\":\"new\"}}}");
	is_kept("r:5", "{\"identitytoken\":\"new\",\"serveraddress\":\"r:5\"}");
	config("{\"auths\":");
	fails_to_keep("r:5", EINVAL, "config.json is not JSON");
	config("{\"auths\":[1],\"credsStore\":7,\"credHelpers\":{\"r:5\":{}}}");
	is_kept("r:5", "none");
}

static void helper(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "docker-credential-%s", name);
	puts_to(path, text);
	CHECK(chmod(at(path), 0755) == 0);
}

static void credentials_from_helpers(void)
{
	helper("good",
		"#!/bin/sh\nread s || :\necho '{\"Username\":\"'$1'\",\"Secret\":\"'$s'\"}'\n");
	helper("token", "#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"t\"}'\n");
	helper("none", "#!/bin/sh\necho credentials not found in native keychain\nexit 1\n");
	helper("broken", "#!/bin/sh\necho oh dear\nexit 3\n");
	helper("leaky", "#!/bin/sh\necho '{\"Secret\":\"hush\"}'\nexit 2\n");
	helper("liar", "#!/bin/sh\necho hello\n");
	helper("endless", "#!/bin/sh\nexec yes\n");
	config("{\"credHelpers\":{\"t\":\"token\",\"n\":\"none\",\"b\":\"broken\",\"l\":\"liar\","
	       "\"e\":\"endless\",\"m\":\"missing\",\"p\":\"../"
	       "good\",\"k\":\"leaky\"},\"credsStore\":\"good\","
	       "\"auths\":{\"n\":{\"auth\":\"am86czpl\"}}}");
	is_kept("r:5", "{\"username\":\"get\",\"password\":\"r:5\",\"serveraddress\":\"r:5\"}");
	is_kept("t", "{\"identitytoken\":\"t\",\"serveraddress\":\"t\"}");
	is_kept("n", "none");
	fails_to_keep("b", EIO, "docker-credential-broken failed with exit code 3: oh dear");
	fails_to_keep("k", EIO, "docker-credential-leaky failed with exit code 2");
	fails_to_keep("l", EPROTO, "gives no Username and Secret");
	fails_to_keep("e", EPROTO, "says too much");
	fails_to_keep("m", ENOPKG, "docker-credential-missing is not installed");
	fails_to_keep("p", EINVAL, "no credential helper's name");
}

/* For a build: what one helper cannot give takes nothing from the others. */
static void credentials_of_several(void)
{
	char names[][4] = {"b", "r:5", "m", "n"},
	     *list[] = {names[0], names[1], names[2], names[3], NULL};
	struct err err = {0};
	struct buf b;
	char *text;
	cJSON *j;

	buf_init(&b, 65536);
	CHECK(credentials_config(at("config.json"), list, -1, &b, &err) == -EIO);
	CHECK(strstr(err.msg, "docker-credential-broken failed"));
	j = decoded(&b);
	text = j ? cJSON_PrintUnformatted(j) : NULL;
	CHECK_STR(text, "{\"r:5\":{\"username\":\"get\",\"password\":\"r:5\","
			"\"serveraddress\":\"r:5\"}}");
	cJSON_free(text);
	cJSON_Delete(j);
}

static void a_helper_that_hangs_is_stopped(void)
{
	int stop = eventfd(1, EFD_CLOEXEC);
	struct err err = {0};
	struct buf b;

	helper("slow", "#!/bin/sh\nsleep 1000\n");
	config("{\"credsStore\":\"slow\"}");
	buf_init(&b, 1000);
	CHECK(credentials_header(at("config.json"), "r", stop, &b, &err) == -EINTR && b.len == 0);
	buf_fini(&b);
	close(stop);
}

static void registries(void)
{
	static const char *const names[][2] = {{"busybox", "docker.io"}, {"a/b:1", "docker.io"},
		{"localhost/a", "localhost"}, {"h:5000/a/b", "h:5000"},
		{"r.example/a", "r.example"}, {"a.b", "docker.io"}, {"Corp/a", "Corp"},
		{"corp/A", "docker.io"}, {"localhosts/a", "docker.io"},
		{"index.docker.io/a", "docker.io"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *got = credentials_registry(names[i][0]);

		CHECK_STR(got, names[i][1]);
		free(got);
	}
}

int main(void)
{
	char path[8192], command[128];

	strcpy(top, "/tmp/sbx-context.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	snprintf(path, sizeof(path), "%s:%s", top, getenv("PATH"));
	setenv("PATH", path, 1);
	TEST(a_tree);
	TEST(bad_contexts);
	TEST(changes_meanwhile);
	TEST(a_walk_can_be_stopped);
	TEST(log_lines);
	TEST(registries_of_a_dockerfile);
	TEST(stages_of_a_dockerfile);
	TEST(registries);
	TEST(credentials_from_the_file);
	TEST(credentials_from_helpers);
	TEST(credentials_of_several);
	TEST(a_helper_that_hangs_is_stopped);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	if (system(command) != 0)
		return 1;
	return check_done();
}
