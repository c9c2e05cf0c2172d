/* SPDX-License-Identifier: MIT */
/* The forms of each key, and the corpus of templates with one fault each (argument 1). */
#include "sandbox/template.h"
#include "tests/unit/check.h"
#include "tests/unit/oom.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct spec spec;
static struct err err;
static const struct template_rules *rules;
static const char *corpus;

static int parse(const char *text)
{
	spec_fini(&spec);
	err = (struct err){0};
	return template_parse("t", text, strlen(text), rules, &spec, &err);
}

static void good(const char *text)
{
	int r = parse(text);

	if (r)
		printf("# %s: got %d \"%s\"\n", text, r, err.msg);
	CHECK(r == 0);
}

static void fails(const char *text, int code, const char *words)
{
	int r = parse(text);

	if (r != -code || !strstr(err.msg, words) || err.code != code)
		printf("# %s: got %d \"%s\"\n", text, r, err.msg);
	CHECK(r == -code);
	CHECK(strstr(err.msg, words));
}

static void port_is(size_t i, unsigned target, unsigned first, unsigned last, const char *ip,
	const char *protocol)
{
	const struct spec_port *p = &spec.ports[i];

	CHECK(i < spec.n_ports && p->target == target && p->published == first &&
		p->published_last == last);
	CHECK_STR(p->protocol, protocol);
	CHECK_STR(p->host_ip ? p->host_ip : "-", ip);
}

static void ports(void)
{
	good("{\"network_mode\":\"bridge\",\"ports\":[\"80\",81,\"8080:82/udp\",\"1.2.3.4::83\","
	     "\"0.0.0.0:90-91:84-85\",\"[::1]:86:86/sctp\",\"9000-9009:87\","
	     "{\"target\":88,\"published\":\"9100-9101\",\"host_ip\":\"127.0.0.2\","
	     "\"protocol\":\"udp\",\"mode\":\"host\",\"name\":\"web\"},{\"target\":89,"
	     "\"published\":89}]}");
	CHECK(spec.n_ports == 10);
	port_is(0, 80, 0, 0, "-", "tcp");
	port_is(1, 81, 0, 0, "-", "tcp");
	port_is(2, 82, 8080, 8080, "-", "udp");
	port_is(3, 83, 0, 0, "1.2.3.4", "tcp");
	port_is(4, 84, 90, 90, "0.0.0.0", "tcp");
	port_is(5, 85, 91, 91, "0.0.0.0", "tcp");
	port_is(6, 86, 86, 86, "::1", "sctp");
	port_is(7, 87, 9000, 9009, "-", "tcp");
	port_is(8, 88, 9100, 9101, "127.0.0.2", "udp");
	port_is(9, 89, 89, 89, "-", "tcp");
	CHECK(strstr(spec.config, "\"host_ip\":\"127.0.0.1\""));
	good("{\"network_mode\":\"bridge\",\"ports\":[]}");
	fails("{\"network_mode\":\"bridge\",\"ports\":[\"1-65535\"]}", EINVAL, "too many");
}

static void names_and_addresses(void)
{
	good("{\"dns\":\"1.1.1.1\",\"extra_hosts\":[\"a:1.2.3.4\",\"b=::1\",\"c:[::2]\","
	     "\"d:host-gateway\"],\"group_add\":[\"audio\",44],\"labels\":{\"a\":\"b\",\"n\":5,"
	     "\"e\":null},\"platform\":\"linux/arm64/v8\",\"runtime\":\"runsc\"}");
	CHECK_STR(spec.dns[0], "1.1.1.1");
	CHECK_STR(spec.extra_hosts[0], "a:1.2.3.4");
	CHECK_STR(spec.extra_hosts[1], "b:::1");
	CHECK_STR(spec.extra_hosts[2], "c:::2");
	CHECK_STR(spec.extra_hosts[3], "d:host-gateway");
	CHECK_STR(spec.group_add[1], "44");
	CHECK_STR(spec.labels[1], "n=5");
	CHECK_STR(spec.labels[2], "e=");
	CHECK_STR(spec.platform, "linux/arm64/v8");
	CHECK_STR(spec.runtime, "runsc");
	good("{\"dns\":[\"1.1.1.1\",\"2606:4700::1\"],\"extra_hosts\":{\"a\":[\"1.2.3.4\","
	     "\"1.2.3.5\"],\"b\":\"::1\"},\"labels\":[\"x=y\",\"z\"]}");
	CHECK_STR(spec.extra_hosts[1], "a:1.2.3.5");
	CHECK_STR(spec.extra_hosts[2], "b:::1");
	CHECK_STR(spec.labels[1], "z=");
}

static void limits_and_devices(void)
{
	good("{\"shm_size\":\"64m\",\"ulimits\":{\"nofile\":1024,\"core\":{\"soft\":0,\"hard\":-1}}"
	     ","
	     "\"storage_opt\":{\"size\":\"10g\"},\"devices\":[\"/dev/fuse\",\"/dev/a:/dev/b:rw\","
	     "\"/dev/c:r\",{\"source\":\"/dev/d\",\"target\":\"/dev/e\",\"permissions\":\"m\"},"
	     "\"vendor.com/class=one\"],\"security_opt\":[\"seccomp:unconfined\","
	     "\"no-new-privileges:false\",\"label=type:x\",\"systempaths=unconfined\"]}");
	CHECK(spec.shm_size == 64u << 20 && spec.n_ulimits == 2 && spec.n_devices == 5);
	CHECK(spec.ulimits[0].soft == 1024 && spec.ulimits[0].hard == 1024);
	CHECK(spec.ulimits[1].soft == 0 && spec.ulimits[1].hard == -1);
	CHECK_STR(spec.storage_opt[0], "size=10g");
	CHECK_STR(spec.devices[0].target, "/dev/fuse");
	CHECK_STR(spec.devices[1].target, "/dev/b");
	CHECK_STR(spec.devices[1].permissions, "rw");
	CHECK_STR(spec.devices[2].target, "/dev/c");
	CHECK_STR(spec.devices[2].permissions, "r");
	CHECK_STR(spec.devices[3].permissions, "m");
	CHECK(!spec.devices[4].target);
	CHECK_STR(spec.security_opt[0], "seccomp=unconfined");
	CHECK_STR(spec.security_opt[2], "label=type:x");
	good("{\"gpus\":\"all\"}");
	CHECK(spec.n_gpus == 1 && spec.gpus[0].count == -1);
	good("{\"gpus\":[{\"driver\":\"nvidia\",\"count\":2,\"capabilities\":[\"utility\"]},"
	     "{\"device_ids\":[\"0\",\"3\"]},{\"count\":\"all\"}]}");
	CHECK(spec.n_gpus == 3 && spec.gpus[0].count == 2 && spec.gpus[1].count == 0);
	CHECK_STR(spec.gpus[1].device_ids[1], "3");
	CHECK(spec.gpus[2].count == -1);
}

static void times(void)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} t[] = {{"0", 0}, {"30", 30000}, {"0.5", 500}, {"\"90\"", 90000}, {"\"30s\"", 30000},
		{"\"5m\"", 300000}, {"\"1h30m\"", 5400000}, {"\"1h0m1s\"", 3601000},
		{"\"500ms\"", 500}, {"\"1.5h\"", 5400000}, {"\"2m0.5s\"", 120500}};
	static const char *const bad[] = {"-1", "\"\"", "\"s\"", "\"5\\u0020s\"", "\"1m1h\"",
		"\"5s5s\"", "\"1d\"", "\"m5\"", "\"1m5\"", "1e30", "\"99999999999h\"", "null",
		"\"-5s\"", "0.0001"};
	char text[100];

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(text, sizeof(text), "{\"x-sandboxfs\":{\"ttl\":%s}}", t[i].text);
		good(text);
		CHECK(spec.x.ttl_ms == t[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "{\"x-sandboxfs\":{\"ttl\":%s}}", bad[i]);
		fails(text, EINVAL, "key x-sandboxfs.ttl");
	}
}

static void our_own_settings(void)
{
	const struct spec_x *x = &spec.x;

	good("{\"volumes\":[\"data:/data\"],\"x-sandboxfs\":{\"pool\":3,\"idle_timeout\":\"5m\","
	     "\"idle_action\":\"stop\",\"timeout\":60,\"max_wait\":\"10s\",\"output_limit\":\"1m\","
	     "\"files\":{\"/etc/a\":\"hi\",\"/b\":{\"content\":\"\",\"mode\":\"4755\","
	     "\"owner\":\"u:g\"}},\"users\":[\"ann\",{\"name\":\"bob\",\"uid\":7,\"gid\":8,"
	     "\"groups\":[\"w\",9],\"home\":\"/h\",\"shell\":\"/bin/sh\"}],\"groups\":[\"w\","
	     "{\"name\":\"v\",\"gid\":12}],\"volumes\":{\"data\":{\"driver\":\"local\","
	     "\"driver_opts\":{\"type\":\"tmpfs\",\"device\":\"tmpfs\"},\"labels\":[\"l=m\"]}},"
	     "\"post_start\":\"a && b\",\"pre_stop\":[\"c\",{\"command\":[\"d\",\"\"],"
	     "\"user\":\"u\",\"working_dir\":\"/w\",\"environment\":{\"E\":1}}],"
	     "\"snapshot_on_stop\":true,\"archive_exclude\":[\"node_modules\",\"*.o\"]}}");
	CHECK(x->pool == 3 && x->idle_timeout_ms == 300000 && x->idle_action == SPEC_IDLE_STOP);
	CHECK(x->timeout_ms == 60000 && x->max_wait_ms == 10000 && x->output_limit == 1 << 20);
	CHECK(x->n_files == 2 && !x->files[0].has_mode && x->files[1].mode == 04755);
	CHECK_STR(x->files[0].content, "hi");
	CHECK_STR(x->files[1].content, "");
	CHECK_STR(x->files[1].owner, "u:g");
	CHECK(x->n_users == 2 && x->users[0].uid == SPEC_ID_NONE && x->users[1].gid == 8);
	CHECK_STR(x->users[1].groups[1], "9");
	CHECK(x->n_groups == 2 && x->groups[1].gid == 12);
	CHECK(spec.volumes[0].ours);
	CHECK_STR(spec.volumes[0].driver_opts[0], "type=tmpfs");
	CHECK(x->n_post_start == 1 && x->n_pre_stop == 2);
	CHECK_STR(x->post_start[0].command[0], "sh");
	CHECK_STR(x->post_start[0].command[2], "a && b");
	CHECK_STR(x->pre_stop[1].command[1], "");
	CHECK_STR(x->pre_stop[1].environment[0], "E=1");
	CHECK(x->snapshot_on_stop && x->archive_exclude[1] && !x->archive_exclude[2]);
	CHECK(!strstr(spec.config, "\"hi\"") && strstr(spec.config, "\"size\":2"));
}

static void secrets_are_masked(void)
{
	setenv("TEST_SECRET", "hush", 1);
	good("{\"environment\":{\"A\":\"quiet\",\"B\":\"loud\",\"TEST_SECRET\":null},"
	     "\"x-sandboxfs\":{\"secrets\":[\"A\"],\"post_start\":[{\"command\":\"x\","
	     "\"environment\":[\"A=still\",\"TEST_SECRET\"]}]}}");
	CHECK_STR(spec.environment[0], "A=quiet");
	CHECK_STR(spec.environment[2], "TEST_SECRET=hush");
	CHECK_STR(spec.x.post_start[0].environment[0], "A=still");
	CHECK(strstr(spec.config, "loud"));
	CHECK(!strstr(spec.config, "quiet") && !strstr(spec.config, "hush") &&
		!strstr(spec.config, "still"));
	CHECK_STR(spec.x.secrets[1], "TEST_SECRET");
}

static void volumes(void)
{
	good("{\"volumes\":[\"v:/v:ro,nocopy\",{\"type\":\"volume\",\"source\":\"w\","
	     "\"target\":\"/w\",\"read_only\":true,\"volume\":{\"nocopy\":true,"
	     "\"subpath\":\"a/b\"}},{\"tmpfs\":{\"size\":\"1m\",\"mode\":\"0700\"},"
	     "\"type\":\"tmpfs\",\"target\":\"/t\"},{\"type\":\"volume\",\"target\":\"/x\"}]}");
	CHECK(spec.n_volumes == 4 && spec.volumes[0].read_only && spec.volumes[0].nocopy);
	CHECK_STR(spec.volumes[1].subpath, "a/b");
	CHECK(spec.volumes[2].type == SPEC_TMPFS && spec.volumes[2].tmpfs_mode == 0700);
	CHECK(!spec.volumes[3].source);
	CHECK(strstr(spec.config,
		"{\"type\":\"volume\",\"source\":\"w\",\"target\":\"/w\",\"read_only\":true,"
		"\"volume\":{\"nocopy\":true,\"subpath\":\"a/b\"}},"
		"{\"type\":\"tmpfs\",\"target\":\"/t\","
		"\"tmpfs\":{\"size\":1048576,\"mode\":\"0700\"}}"));
}

/* A directory with sub/, out -> /etc and in -> sub in it. */
static void host_paths_by_their_real_place(void)
{
	char dir[] = "/tmp/test-template-XXXXXX", text[400], path[200];
	const char *allow[] = {dir, NULL};
	struct template_rules mine = {.allow_binds = allow};

	CHECK(mkdtemp(dir) && chdir(dir) == 0 && mkdir("sub", 0700) == 0);
	CHECK(symlink("/etc", "out") == 0 && symlink("sub", "in") == 0);
	rules = &mine;
#define TRY(form, what, ...)                             \
	do {                                             \
		snprintf(text, sizeof(text), form, dir); \
		what(text, ##__VA_ARGS__);               \
	} while (0)
	TRY("{\"volumes\":[\"%s/in:/x:ro\"]}", good);
	snprintf(path, sizeof(path), "%s/sub", dir);
	CHECK(spec.volumes[0].type == SPEC_BIND && spec.volumes[0].read_only);
	CHECK_STR(spec.volumes[0].source, path);
	TRY("{\"volumes\":[{\"type\":\"bind\",\"source\":\"%s\",\"target\":\"/x\","
	    "\"bind\":{\"propagation\":\"rslave\"}}]}",
		good);
	CHECK_STR(spec.volumes[0].propagation, "rslave");
	CHECK(strstr(spec.config, "\"bind\":{\"propagation\":\"rslave\"}"));
	TRY("{\"build\":{\"context\":\"%s/in\",\"dockerfile\":\"d/D\",\"args\":[\"A=1\"],"
	    "\"target\":\"t\"},\"pull_policy\":\"build\"}",
		good);
	CHECK_STR(spec.build.context, path);
	CHECK_STR(spec.build.args[0], "A=1");
	CHECK(!strncmp(spec.image, "sandboxfs-build:t-", 18) && strlen(spec.image) == 30);
	TRY("{\"build\":\"%s\"}", good);
	TRY("{\"x-sandboxfs\":{\"files\":{\"/a\":{\"source\":\"%s/in\"}}}}", good);
	CHECK_STR(spec.x.files[0].source, path);
	TRY("{\"volumes\":[\"%s/out:/x\"]}", fails, EPERM, "key volumes[0]");
	TRY("{\"volumes\":[\"%s/../..:/x\"]}", fails, EPERM, "key volumes[0]");
	TRY("{\"volumes\":[\"%s2:/x\"]}", fails, EPERM, "key volumes[0]");
	TRY("{\"volumes\":[\"%s/none:/x\"]}", fails, EINVAL, "No such file");
	TRY("{\"volumes\":[\"%s/out/none:/x\"]}", fails, EINVAL, "No such file");
	TRY("{\"build\":\"%s/out\"}", fails, EPERM, "key build");
	TRY("{\"x-sandboxfs\":{\"files\":{\"/a\":{\"source\":\"%s/out/passwd\"}}}}", fails, EPERM,
		"source");
	fails("{\"volumes\":[\"/etc:/x\"]}", EPERM, "allow_binds");
	fails("{\"volumes\":[\"sub/..:/x\",\"./in:/x\"]}", EINVAL, "volumes[0]");
	fails("{\"volumes\":[\"./in:/x\"]}", EPERM, "absolute");
	rules = NULL;
	CHECK(chdir("/") == 0);
	snprintf(text, sizeof(text), "rm -r %s", dir);
	CHECK(system(text) == 0);
}

/* "volumes.1.target--relative.json" is at volumes[1].target. */
static void place_of(const char *file, char *place, size_t size)
{
	const char *end = strstr(file, "--");
	size_t n = 0;

	for (const char *c = file; c < end && n + 4 < size; c++) {
		if (*c == '.' && isdigit((unsigned char)c[1])) {
			place[n++] = '[';
			place[n++] = *++c;
			place[n++] = ']';
		} else {
			place[n++] = *c;
		}
	}
	place[n] = 0;
}

static size_t read_all(const char *name, char *text, size_t size)
{
	char path[1000];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	f = fopen(path, "r");
	CHECK(f);
	n = fread(text, 1, size - 1, f);
	fclose(f);
	text[n] = 0;
	return n;
}

static void each_fault_is_named(void)
{
	char text[4096], place[200];
	DIR *dir = opendir(corpus);
	struct dirent *d;
	int n = 0;

	CHECK(dir);
	while (dir && (d = readdir(dir))) {
		int r;

		if (d->d_name[0] == '.')
			continue;
		n++;
		read_all(d->d_name, text, sizeof(text));
		place_of(d->d_name, place, sizeof(place));
		r = parse(text);
		if (strcmp(place, "json") == 0)
			snprintf(place, sizeof(place), "template t: ");
		if ((r != -EINVAL && r != -EPERM) || !strstr(err.msg, place)) {
			printf("# %s: %d \"%s\"\n", d->d_name, r, err.msg);
			CHECK(!"a fault that is not named");
		}
	}
	if (dir)
		closedir(dir);
	CHECK(n >= 100);
}

static const char few[] =
	"{\"image\":\"i\",\"pull_policy\":\"always\",\"entrypoint\":[\"a\",\"b\"],"
	"\"command\":\"c 'd e'\",\"environment\":{\"A\":\"1\",\"PATH\":null,\"C\":3},"
	"\"working_dir\":\"/w\",\"user\":\"u\",\"volumes\":[\"/a\",\"v:/v:ro\"],"
	"\"tmpfs\":[\"/t\",\"/u\"],\"network_mode\":\"none\",\"cap_add\":[\"BPF\",\"KILL\"],"
	"\"cap_drop\":[\"CAP_MKNOD\"],\"read_only\":true,\"mem_limit\":\"1g\",\"cpus\":1,"
	"\"pids_limit\":5,\"hostname\":\"h\"}";

static const char many[] =
	"{\"group_add\":[\"g\",5],\"volumes\":[\"v:/v:ro\",{\"type\":\"volume\",\"source\":\"w\","
	"\"target\":\"/w\",\"volume\":{\"subpath\":\"s\"}},{\"type\":\"tmpfs\",\"target\":\"/t\"}],"
	"\"ports\":[\"1.2.3.4:80-81:80-81\",{\"target\":5,\"published\":\"6\",\"host_ip\":\"::1\"}]"
	","
	"\"network_mode\":\"n\",\"dns\":[\"1.1.1.1\"],\"extra_hosts\":{\"a\":[\"1.1.1.1\"]},"
	"\"security_opt\":[\"label:x\"],\"ulimits\":{\"core\":1,\"cpu\":{\"soft\":1,\"hard\":2}},"
	"\"storage_opt\":{\"size\":\"1\"},\"devices\":[\"/dev/a:/dev/b:r\",\"/dev/c\",\"a/b=c\"],"
	"\"gpus\":[{\"driver\":\"d\",\"device_ids\":[\"1\"],\"capabilities\":[\"c\"],"
	"\"options\":{\"o\":1}}],\"labels\":[\"a=b\"],\"platform\":\"a/b\",\"runtime\":\"r\","
	"\"environment\":{\"S\":\"1\",\"PATH\":null},\"x-sandboxfs\":{\"idle_timeout\":5,"
	"\"files\":{\"/a\":\"x\",\"/b\":{\"content\":\"y\",\"mode\":\"0600\",\"owner\":\"o\"}},"
	"\"users\":[\"a\",{\"name\":\"b\",\"groups\":[1],\"home\":\"/h\",\"shell\":\"/s\"}],"
	"\"groups\":[\"a\",{\"name\":\"b\",\"gid\":1}],\"volumes\":{\"w\":{\"driver\":\"d\","
	"\"driver_opts\":{\"a\":\"b\"},\"labels\":{\"a\":\"b\"}}},\"post_start\":\"x\","
	"\"pre_stop\":[{\"command\":[\"c\"],\"user\":\"u\",\"working_dir\":\"/w\","
	"\"environment\":[\"E=1\",\"PATH\"]}],\"archive_exclude\":[\"a\"],\"secrets\":[\"S\"]}}";

static const char *const everything[] = {few, many};

static void no_memory_leaks_nothing(void)
{
	cJSON_Hooks hooks = {.malloc_fn = malloc, .free_fn = free};

	spec_fini(&spec);
	cJSON_InitHooks(&hooks);
	for (size_t k = 0; k < sizeof(everything) / sizeof(*everything); k++) {
		const char *text = everything[k];
		long before = oom_live(), nth = 0;
		int r;

		do {
			struct spec s = {.owner = 77};

			CHECK(nth < 20000);
			oom_arm(nth++);
			r = template_parse("t", text, strlen(text), NULL, &s, &err);
			oom_arm(-1);
			if (r == 0)
				spec_fini(&s);
			else
				CHECK(s.owner == 77 && !s.image); /* untouched */
			CHECK(oom_live() == before);
		} while (r < 0);
		CHECK(nth > 80);
	}
	cJSON_InitHooks(NULL);
}

static void bad_templates_leak_nothing(void)
{
	spec_fini(&spec);
	for (size_t k = 0; k < sizeof(everything) / sizeof(*everything); k++) {
		size_t len = strlen(everything[k]);
		char *text = malloc(len + 1);
		long before = oom_live();

		CHECK(text);
		for (size_t i = 1; i < len; i++) {
			memcpy(text, everything[k], len + 1);
			text[i] = text[i] == '"' ? '7' : '"';
			parse(text);
			text[i] = text[i] == '1' ? '[' : '{';
			parse(text);
			text[i] = 0;
			parse(text);
			spec_fini(&spec);
			CHECK(oom_live() == before);
		}
		free(text);
	}
}

int main(int argc, char **argv)
{
	corpus = argc > 1 ? argv[1] : "tests/fuzz/corpus/template_bad";
	TEST(ports);
	TEST(names_and_addresses);
	TEST(limits_and_devices);
	TEST(times);
	TEST(our_own_settings);
	TEST(secrets_are_masked);
	TEST(volumes);
	TEST(host_paths_by_their_real_place);
	TEST(each_fault_is_named);
	TEST(no_memory_leaks_nothing);
	TEST(bad_templates_leak_nothing);
	spec_fini(&spec);
	return check_done();
}
