/* SPDX-License-Identifier: MIT */
#include "sandbox/template.h"
#include "tests/unit/check.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct spec spec;
static struct err err;

static int parse_as(const char *name, const char *text)
{
	spec_fini(&spec);
	err = (struct err){0};
	return template_parse(name, text, strlen(text), NULL, &spec, &err);
}

static int parse(const char *text)
{
	return parse_as("default", text);
}

static void fails(const char *text, int code, const char *words)
{
	int r = parse(text);

	if (r != -code || !strstr(err.msg, words) || err.code != code)
		printf("# %s: got %d \"%s\"\n", text, r, err.msg);
	CHECK(r == -code);
	CHECK(strstr(err.msg, words));
}

static char *shown(const char *key)
{
	static char text[4096];
	cJSON *j = cJSON_Parse(spec.config);
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);

	text[0] = 0;
	if (item)
		CHECK(cJSON_PrintPreallocated(
			cJSON_GetObjectItemCaseSensitive(j, key), text, sizeof(text), 0));
	cJSON_Delete(j);
	return text;
}

static void splits_names(void)
{
	static const struct {
		const char *dir, *template;
		bool snapshot;
	} good[] = {{"demo", "default", false}, {"python@demo", "python", false},
		{"demo:s1@copy", "demo:s1", true}, {"0_.-", "default", false},
		{"a.b-c_d@E", "a.b-c_d", false}};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		char *t = NULL;
		bool snap = !good[i].snapshot;

		CHECK(template_split(good[i].dir, &t, &snap, &err) == 0);
		CHECK_STR(t, good[i].template);
		CHECK(snap == good[i].snapshot);
		free(t);
	}
}

static void refuses_bad_names(void)
{
	static const char *const bad[] = {"", "@", "@a", "a@", "a@b@c", "a:b", "a:b@c:d", ":b@c",
		"a:@c", "a:b:c@d", ".a", "-a", "_a", "a b", "a/b", "a\nb", "\xc3\xa9", "a@.b",
		"-a@b", "a:-b@c", "a@b:c"};
	char *t = (char *)1;
	char longest[130];
	bool snap;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		err = (struct err){0};
		CHECK(template_split(bad[i], &t, &snap, &err) == -EINVAL);
		CHECK(t == (char *)1 && err.code == EINVAL && err.msg[0]);
	}
	memset(longest, 'a', 129);
	longest[129] = 0;
	CHECK(template_split(longest, &t, &snap, &err) == -EINVAL);
	longest[128] = 0;
	CHECK(template_split(longest, &t, &snap, &err) == 0);
	free(t);
}

static void has_safe_defaults(void)
{
	CHECK(parse("{}") == 0);
	CHECK_STR(spec.image, "debian:stable-slim");
	CHECK_STR(spec.template, "default");
	CHECK_STR(spec.pull_policy, "missing");
	CHECK_STR(spec.working_dir, "/workspace");
	CHECK_STR(spec.network_mode, "none");
	CHECK(spec.mem_limit == 1ull << 30 && spec.cpus_milli == 2000 && spec.pids_limit == 512);
	CHECK(!spec.user && !spec.command && !spec.hostname && !spec.read_only);
	CHECK(!spec.namespace && !spec.name && spec.owner == 0);
	CHECK_STR(shown("network_mode"), "\"none\"");
	CHECK_STR(shown("mem_limit"), "1073741824");
	CHECK_STR(shown("cpus"), "2");
	CHECK_STR(shown("cap_add"), "[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\","
				    "\"SETGID\",\"SETUID\",\"SYS_CHROOT\",\"SETFCAP\"]");
	CHECK_STR(shown("cap_drop"), "[\"ALL\"]");
	CHECK_STR(shown("security_opt"), "[\"no-new-privileges\"]");
}

/* What is shown is what holds, however the template says it. */
static void shows_what_holds(void)
{
	CHECK(parse("{\"cap_add\":[\"CAP_NET_RAW\",\"chown\"],\"cap_drop\":[\"KILL\",\"SETFCAP\"],"
		    "\"security_opt\":[\"no-new-privileges:false\"]}") == 0);
	CHECK_STR(shown("cap_add"), "[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"SETGID\","
				    "\"SETUID\",\"NET_RAW\",\"SYS_CHROOT\"]");
	CHECK_STR(shown("cap_drop"), "[\"ALL\"]");
	CHECK_STR(shown("security_opt"), "[\"no-new-privileges=false\"]");
	CHECK(parse("{\"cap_add\":[\"SYS_PTRACE\",\"KILL\"],\"cap_drop\":[\"ALL\"]}") == 0);
	CHECK_STR(shown("cap_add"), "[\"KILL\",\"SYS_PTRACE\"]");
	CHECK(parse("{\"cap_add\":[\"ALL\"],\"cap_drop\":[\"SYS_ADMIN\"]}") == 0);
	CHECK_STR(shown("cap_add"), "[\"ALL\"]");
	CHECK_STR(shown("cap_drop"), "[\"SYS_ADMIN\"]");
}

static void slashes_that_mean_nothing_go(void)
{
	CHECK(parse("{\"working_dir\":\"//src//a/\",\"tmpfs\":[\"/t//u/:size=1m,x=/\"],"
		    "\"volumes\":[\"v:/v/\",{\"type\":\"tmpfs\",\"target\":\"/w//\"}],"
		    "\"x-sandboxfs\":{\"files\":{\"/etc//a/\":\"\"},"
		    "\"users\":[{\"name\":\"u\",\"home\":\"/srv/u/\"}]}}") == 0);
	CHECK_STR(spec.working_dir, "/src/a");
	CHECK_STR(spec.tmpfs[0], "/t/u:size=1m,x=/");
	CHECK_STR(spec.volumes[0].target, "/v");
	CHECK_STR(spec.volumes[1].target, "/w");
	CHECK_STR(spec.x.files[0].path, "/etc/a");
	CHECK_STR(spec.x.users[0].home, "/srv/u");
	CHECK(parse("{\"working_dir\":\"///\"}") == 0);
	CHECK_STR(spec.working_dir, "/");
}

static void hooks_are_measured(void)
{
	char *text = malloc(200000);
	int n = sprintf(text, "{\"x-sandboxfs\":{\"post_start\":[{\"command\":[\"");

	memset(text + n, 'x', 140000);
	strcpy(text + n + 140000, "\"]}]}}");
	fails(text, EINVAL, "key x-sandboxfs.post_start[0].command: one text is longer");
	free(text);
}

static void the_mounts_image_is_for_those_without(void)
{
	struct template_rules mine = {.image = "mine:1"};
	struct spec s;

	CHECK(template_parse("default", "{}", 2, &mine, &s, &err) == 0);
	CHECK_STR(s.image, "mine:1");
	spec_fini(&s);
	CHECK(template_parse("default", "{\"image\":\"x\"}", 13, &mine, &s, &err) == 0);
	CHECK_STR(s.image, "x");
	spec_fini(&s);
	CHECK(template_parse("other", "{}", 2, &mine, &s, &err) == 0);
	CHECK_STR(s.image, "mine:1");
	CHECK_STR(s.template, "other");
	spec_fini(&s);
	CHECK(template_parse("../x", "{}", 2, NULL, &s, &err) == -EINVAL);
	CHECK(template_parse("other", "{", 1, NULL, &s, NULL) == -EINVAL);
}

static void takes_all_keys(void)
{
	CHECK(parse_as("py",
		      " {\"image\": \"python:3\", \"pull_policy\": \"never\",\n"
		      "\"entrypoint\": [\"/init\"], \"command\": \"serve 'a b' \\\"c\\\\\\\"d\\\" "
		      "e\\\\ f\","
		      "\"environment\": [\"A=1\", \"B=\"], \"working_dir\": \"/src\","
		      "\"user\": \"1000:100\", \"volumes\": [\"/anon\", \"v:/v\", \"w:/w:ro\", "
		      "\"x:/x:rw\"],"
		      "\"tmpfs\": [\"/run\", \"/tmp:size=1m\"], \"network_mode\": \"bridge\","
		      "\"cap_add\": [\"SYS_PTRACE\"], \"cap_drop\": [\"ALL\"], \"read_only\": true,"
		      "\"mem_limit\": \"512m\", \"cpus\": \"1.5\", \"pids_limit\": 64,"
		      "\"hostname\": \"box\"}\n\n") == 0);
	CHECK_STR(spec.image, "python:3");
	CHECK_STR(spec.pull_policy, "never");
	CHECK_STR(spec.command[0], "/init");
	CHECK_STR(spec.command[1], "serve");
	CHECK_STR(spec.command[2], "a b");
	CHECK_STR(spec.command[3], "c\"d");
	CHECK_STR(spec.command[4], "e f");
	CHECK(!spec.command[5]);
	CHECK_STR(spec.environment[0], "A=1");
	CHECK_STR(spec.environment[1], "B=");
	CHECK(!spec.environment[2]);
	CHECK_STR(spec.working_dir, "/src");
	CHECK_STR(spec.user, "1000:100");
	CHECK(spec.n_volumes == 4 && !spec.volumes[0].source && !spec.volumes[1].read_only);
	CHECK_STR(spec.volumes[0].target, "/anon");
	CHECK_STR(spec.volumes[2].source, "w");
	CHECK_STR(spec.volumes[2].target, "/w");
	CHECK(spec.volumes[2].read_only && !spec.volumes[3].read_only);
	CHECK_STR(spec.tmpfs[1], "/tmp:size=1m");
	CHECK_STR(spec.network_mode, "bridge");
	CHECK_STR(spec.cap_add[0], "SYS_PTRACE");
	CHECK_STR(spec.cap_drop[0], "ALL");
	CHECK(spec.read_only && spec.mem_limit == 512u << 20 && spec.cpus_milli == 1500);
	CHECK(spec.pids_limit == 64);
	CHECK_STR(spec.hostname, "box");
	CHECK_STR(shown("volumes"),
		"[{\"type\":\"volume\",\"target\":\"/anon\"},"
		"{\"type\":\"volume\",\"source\":\"v\",\"target\":\"/v\"},"
		"{\"type\":\"volume\",\"source\":\"w\",\"target\":\"/w\",\"read_only\":true},"
		"{\"type\":\"volume\",\"source\":\"x\",\"target\":\"/x\"}]");
	CHECK_STR(shown("command"), "[\"/init\",\"serve\",\"a b\",\"c\\\"d\",\"e f\"]");
	CHECK_STR(shown("template"), "\"py\"");
	CHECK_STR(shown("read_only"), "true");
}

static void environment_comes_from_the_daemon_masked(void)
{
	setenv("TEST_SECRET", "hush", 1);
	unsetenv("TEST_ABSENT");
	CHECK(parse("{\"environment\":{\"TEST_SECRET\":null,\"N\":5,\"F\":1.5,\"T\":true,"
		    "\"TEST_ABSENT\":null,\"S\":\"a=b\",\"BIG\":9007199254740992}}") == 0);
	CHECK_STR(spec.environment[0], "TEST_SECRET=hush");
	CHECK_STR(spec.environment[1], "N=5");
	CHECK_STR(spec.environment[2], "F=1.5");
	CHECK_STR(spec.environment[3], "T=true");
	CHECK_STR(spec.environment[4], "S=a=b");
	CHECK_STR(spec.environment[5], "BIG=9007199254740992");
	CHECK(!spec.environment[6]);
	CHECK(!strstr(spec.config, "hush"));
	CHECK(strstr(shown("environment"), "\"TEST_SECRET\":\"***\""));
	CHECK(parse("{\"environment\":[\"TEST_SECRET\"]}") == 0);
	CHECK_STR(spec.environment[0], "TEST_SECRET=hush");
	CHECK(!strstr(spec.config, "hush"));
	CHECK(parse("{\"environment\":{}}") == 0 && !spec.environment);
	fails("{\"environment\":[\"A=1\",\"A=2\"]}", EINVAL, "environment[1]");
	fails("{\"environment\":{\"A\":1,\"A\":2}}", EINVAL, "environment.A");
	fails("{\"environment\":[\"=1\"]}", EINVAL, "environment[0]");
	fails("{\"environment\":{\"A=B\":1}}", EINVAL, "environment.A=B");
	fails("{\"environment\":{\"A\":[]}}", EINVAL, "environment.A");
	fails("{\"environment\":{\"A\":1e300}}", EINVAL, "environment.A");
	fails("{\"environment\":\"A=1\"}", EINVAL, "environment");
}

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} t[] = {{"0", 0}, {"1048576", 1 << 20}, {"\"512m\"", 512u << 20}, {"\"1g\"", 1 << 30},
		{"\"1gb\"", 1 << 30}, {"\"1G\"", 1 << 30}, {"\"10b\"", 10}, {"\"7\"", 7},
		{"\"2k\"", 2048}, {"\"2KB\"", 2048}, {"\"1.5k\"", 1536}, {"\"1t\"", 1ull << 40}};
	static const char *const bad[] = {"-1", "1.5", "\"\"", "\"m\"", "\"1x\"", "\"1mm\"",
		"\"1mbb\"", "\"-1m\"", "\"1e3\"", "\" 1m\"", "\"99999999999t\"", "1e300", "true",
		"null", "[]", "\"1bb\"", "\"0x10\"", "\"nan\"", "\"inf\""};
	char text[64];

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(text, sizeof(text), "{\"shm_size\":%s}", t[i].text);
		CHECK(parse(text) == 0 && spec.shm_size == t[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "{\"shm_size\":%s}", bad[i]);
		fails(text, EINVAL, "key shm_size");
	}
}

static void numbers(void)
{
	CHECK(parse("{\"cpus\":0.5}") == 0 && spec.cpus_milli == 500);
	CHECK(parse("{\"cpus\":\"2\"}") == 0 && spec.cpus_milli == 2000);
	CHECK(parse("{\"cpus\":0}") == 0 && spec.cpus_milli == 0);
	fails("{\"cpus\":-1}", EINVAL, "key cpus");
	fails("{\"cpus\":0.001}", EINVAL, "key cpus");
	fails("{\"cpus\":1e9}", EINVAL, "key cpus");
	fails("{\"cpus\":\"1.5x\"}", EINVAL, "key cpus");
	fails("{\"cpus\":\"\"}", EINVAL, "key cpus");
	fails("{\"cpus\":[1]}", EINVAL, "key cpus");
	CHECK(parse("{\"pids_limit\":-1}") == 0 && spec.pids_limit == 0);
	fails("{\"pids_limit\":-2}", EINVAL, "key pids_limit");
	fails("{\"pids_limit\":1.5}", EINVAL, "key pids_limit");
	fails("{\"pids_limit\":\"5\"}", EINVAL, "key pids_limit");
	fails("{\"pids_limit\":1e10}", EINVAL, "key pids_limit");
}

static void host_paths_are_refused(void)
{
	fails("{\"volumes\":[\"/etc:/etc\"]}", EPERM, "volumes[0]");
	fails("{\"volumes\":[\"v:/v\",\"./x:/x\"]}", EPERM, "volumes[1]");
	fails("{\"volumes\":[\"../x:/x\"]}", EPERM, "host path");
	fails("{\"volumes\":[\"~/x:/x\"]}", EPERM, "host path");
	fails("{\"volumes\":[\"~:/x\"]}", EPERM, "host path");
	fails("{\"volumes\":[\".:/x\"]}", EPERM, "host path");
	fails("{\"volumes\":[\"v:/.sandboxfs\"]}", EPERM, "agent");
	fails("{\"volumes\":[\"v://.sandboxfs/bin\"]}", EPERM, "agent");
	fails("{\"tmpfs\":\"/.sandboxfs/state\"}", EPERM, "agent");
	fails("{\"working_dir\":\"/.sandboxfs\"}", EPERM, "agent");
}

static void bad_forms_name_the_key(void)
{
	fails("{\"volumes\":\"v:/v\"}", EINVAL, "key volumes: must be a list");
	fails("{\"volumes\":[\"v:/v\",1]}", EINVAL,
		"key volumes[1]: must be a string or a map, not a number");
	fails("{\"volumes\":[{\"type\":\"volume\"}]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v:v\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v:/v:z\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v:/v:ro:x\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v:/\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"v:/a/../.sandboxfs\"]}", EINVAL, "volumes[0]");
	fails("{\"tmpfs\":\"run\"}", EINVAL, "key tmpfs");
	fails("{\"tmpfs\":[\"/\"]}", EINVAL, "key tmpfs[0]");
	fails("{\"tmpfs\":{}}", EINVAL, "key tmpfs");
	fails("{\"image\":5}", EINVAL, "key image: must be a string, not a number");
	fails("{\"image\":\"\"}", EINVAL, "key image");
	fails("{\"image\":\"a b\"}", EINVAL, "key image");
	fails("{\"image\":\"-x\"}", EINVAL, "key image");
	fails("{\"pull_policy\":\"build\"}", EINVAL, "key pull_policy");
	fails("{\"pull_policy\":null}", EINVAL, "key pull_policy");
	fails("{\"command\":\"a 'b\"}", EINVAL, "key command");
	fails("{\"command\":[\"a\",[]]}", EINVAL, "key command[1]: must be a string, not a list");
	fails("{\"command\":{}}", EINVAL, "key command: must be a string or a list");
	fails("{\"entrypoint\":[\"\"]}", EINVAL, "key entrypoint");
	fails("{\"working_dir\":\"x\"}", EINVAL, "key working_dir");
	fails("{\"working_dir\":\"/a/../b\"}", EINVAL, "key working_dir");
	fails("{\"user\":1000}", EINVAL, "key user");
	fails("{\"user\":\"a b\"}", EINVAL, "key user");
	fails("{\"network_mode\":\"container:x\"}", EINVAL, "key network_mode");
	fails("{\"cap_add\":[\"A B\"]}", EINVAL, "key cap_add[0]");
	fails("{\"cap_drop\":\"ALL\"}", EINVAL, "key cap_drop");
	fails("{\"cap_add\":[\"SYS_EVERYTHING\"]}", EINVAL, "key cap_add[0]");
	fails("{\"cap_drop\":[\"all\",\"cap_kill\",\"SYS_CHROT\"]}", EINVAL, "key cap_drop[2]");
	fails("{\"read_only\":\"yes\"}", EINVAL,
		"key read_only: must be true or false, not a string");
	fails("{\"hostname\":\"a b\"}", EINVAL, "key hostname");
}

static void empty_command_is_none(void)
{
	CHECK(parse("{\"command\":\"\",\"entrypoint\":[]}") == 0 && !spec.command);
	CHECK(parse("{\"command\":\"  \"}") == 0 && !spec.command);
	CHECK(parse("{\"command\":\"'' x\"}") == -EINVAL);
	CHECK(parse("{\"entrypoint\":\"/e\"}") == 0 && !spec.command[1]);
	CHECK(parse("{\"command\":\"a '' \\\"\\\"\"}") == 0);
	CHECK_STR(spec.command[2], "");
	CHECK(!spec.command[3]);
}

static void unknown_keys(void)
{
	fails("{\"privileged\":true}", EINVAL, "unknown key privileged");
	fails("{\"Image\":\"x\"}", EINVAL, "unknown key Image");
	fails("{\"\":1}", EINVAL, "unknown key");
	fails("{\"image\":\"x\",\"image\":\"y\"}", EINVAL, "key image stands there twice");
}

static void bad_json(void)
{
	static const char nul[] = "{\"image\":\"x\0y\"}";
	static const char *const bad[] = {"", " ", "{", "[]", "null", "5", "{} x", "{}{}",
		"{\"a\"}", "{\"image\":\"x}", "{\"image\":\"x\\u0000y\"}",
		"{\"image\":\"\\ud800\"}", "{\"user\":\"\xff\"}", "{\"user\":\"\xc0\x80\"}",
		"{\"user\":\"\xed\xa0\x80\"}", "{\"user\":\"\xe2\x82", "{\"user\":\"\\"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		fails(bad[i], EINVAL, "template default: ");
	fails("{\n\n\"image\": }", EINVAL, "line 3");
	CHECK(template_parse("default", nul, sizeof(nul) - 1, NULL, &spec, &err) == -EINVAL);
	CHECK(parse("{\"environment\":[\"A=\\\\u0000\"]}") == 0);
	CHECK_STR(spec.environment[0], "A=\\u0000");
	CHECK(parse("{\"environment\":[\"A=\xc3\xa9\xf0\x9f\x98\x80\"]}") == 0);
}

static void caps_hold(void)
{
	size_t len = (1u << 20) + 1;
	char *text = malloc(len + 1);

	memset(text, ' ', len);
	memcpy(text, "{}", 2);
	text[len] = 0;
	fails(text, EINVAL, "1 MiB");
	text[len - 1] = 0;
	CHECK(parse(text) == 0);
	memset(text, '[', len - 1);
	fails(text, EINVAL, "not JSON");
	strcpy(text, "{\"cap_add\":[\"A\"");
	for (int i = 0; i < 4096; i++)
		memcpy(text + 15 + 4 * i, ",\"A\"", 4);
	strcpy(text + 15 + 4 * 4096, "]}");
	fails(text, EINVAL, "too many");
	free(text);
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	CHECK(f);
	fputs(text, f);
	fclose(f);
}

static void finds_files(void)
{
	char a[] = "/tmp/test-template-a-XXXXXX", b[] = "/tmp/test-template-b-XXXXXX", cmd[200];
	const char *dirs[4] = {"/nonexistent", NULL, NULL, NULL};
	struct template_rules rules = {.dirs = dirs}, img = {.dirs = dirs, .image = "img"};
	struct spec s;

	CHECK(mkdtemp(a) && mkdtemp(b));
	dirs[1] = a;
	dirs[2] = b;
	write_file(a, "one.json", "{\"image\":\"first\"}");
	write_file(b, "one.json", "{\"image\":\"second\"}");
	write_file(b, "two.json", "{\"image\":\"two\"}");
	write_file(b, "bad.json", "{\"imag\":1}");
	snprintf(cmd, sizeof(cmd), "%s/fifo.json", b);
	CHECK(mkfifo(cmd, 0600) == 0);
	CHECK(template_resolve("one", &rules, &s, &err) == 0);
	CHECK_STR(s.image, "first");
	spec_fini(&s);
	CHECK(template_resolve("two", &rules, &s, &err) == 0);
	CHECK_STR(s.template, "two");
	spec_fini(&s);
	CHECK(template_resolve("bad", &rules, &s, &err) == -EINVAL);
	CHECK(strstr(err.msg, "bad") && strstr(err.msg, "imag"));
	CHECK(template_resolve("fifo", &rules, &s, &err) == -EINVAL);
	CHECK(template_resolve("none", &rules, &s, &err) == -ENOENT);
	CHECK(strstr(err.msg, "none"));
	CHECK(template_resolve("../two", &rules, &s, &err) == -EINVAL);
	CHECK(template_resolve("default", &img, &s, &err) == 0);
	CHECK_STR(s.image, "img");
	spec_fini(&s);
	CHECK(template_resolve("default", NULL, &s, &err) == 0);
	spec_fini(&s);
	write_file(b, "default.json", "{\"user\":\"u\"}");
	CHECK(template_resolve("default", &img, &s, &err) == 0);
	CHECK_STR(s.user, "u");
	CHECK_STR(s.image, "img");
	spec_fini(&s);
	snprintf(cmd, sizeof(cmd), "rm -r %s %s", a, b);
	CHECK(system(cmd) == 0);
}

int main(void)
{
	TEST(splits_names);
	TEST(refuses_bad_names);
	TEST(has_safe_defaults);
	TEST(shows_what_holds);
	TEST(slashes_that_mean_nothing_go);
	TEST(hooks_are_measured);
	TEST(the_mounts_image_is_for_those_without);
	TEST(takes_all_keys);
	TEST(environment_comes_from_the_daemon_masked);
	TEST(sizes);
	TEST(numbers);
	TEST(host_paths_are_refused);
	TEST(bad_forms_name_the_key);
	TEST(empty_command_is_none);
	TEST(unknown_keys);
	TEST(bad_json);
	TEST(caps_hold);
	TEST(finds_files);
	spec_fini(&spec);
	return check_done();
}
