/* SPDX-License-Identifier: MIT */
/* What engines say: streams of objects, descriptions of containers, archives, references. */
#include "docker/box.h"
#include "docker/http.h"
#include "docker/images.h"
#include "docker/log_time.h"
#include "docker/objects.h"
#include "docker/sha256.h"
#include "docker/tar.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int count(void *arg, const cJSON *o)
{
	const cJSON *n = cJSON_GetObjectItem(o, "n");

	*(int *)arg = *(int *)arg * 10 + (n ? n->valueint : 9);
	return 0;
}

static void objects_at_every_split(void)
{
	static const char s[] =
		"{\"n\":1}\r\n {\"n\":2,\"s\":\"}\\\"{\\\\\"}{\"n\":3,\"o\":{\"p\":{}}}\n";

	for (size_t a = 0; a < sizeof(s); a++) {
		struct objects o;
		int seen = 0;

		objects_init(&o, count, &seen);
		CHECK(objects_feed(&o, s, a) == 0);
		CHECK(objects_feed(&o, s + a, sizeof(s) - 1 - a) == 0);
		CHECK(seen == 123);
		objects_fini(&o);
	}
}

static void objects_that_are_none(void)
{
	static const char *const bad[] = {"x", "[1]", "{\"a\":}", "{]}", "}", "{\"n\":1}]"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct objects o;
		int seen = 0;

		objects_init(&o, count, &seen);
		CHECK(objects_feed(&o, bad[i], strlen(bad[i])) == -EPROTO);
		objects_fini(&o);
	}
}

static void objects_have_a_cap(void)
{
	struct objects o;
	char *big = calloc(1, OBJECTS_MAX);
	int seen = 0;

	memset(big, ' ', OBJECTS_MAX);
	objects_init(&o, count, &seen);
	CHECK(objects_feed(&o, "{", 1) == 0);
	CHECK(objects_feed(&o, big, OBJECTS_MAX - 1) == 0);
	CHECK(objects_feed(&o, big, 1) == -EPROTO);
	objects_fini(&o);
	free(big);
}

static void times(void)
{
	CHECK(box_time("1970-01-01T00:00:00Z") == 0);
	CHECK(box_time("2026-11-16T04:40:01.123456789Z") == 1794804001);
	CHECK(box_time("2026-11-16T05:40:01+01:00") == 1794804001);
	CHECK(box_time("2026-11-16T03:10:01.5-01:30") == 1794804001);
	CHECK(box_time(NULL) == -1 && box_time("") == -1 && box_time("2026-11-16") == -1);
	CHECK(box_time("2026-11-16T04:40:01") == -1 && box_time("2026-11-16T04:40:01Zx") == -1);
}

static void times_of_a_log(void)
{
	static const char text[] = "2026-11-16T05:40:01+01:00 one\n"
				   "2026-11-16T03:10:01.5-01:30 two  \n"
				   "2026-11-16T04:40:01Z three\n"
				   "no time at all\n\n2026-11-16T04:40:01 \n"
				   "2026-11-16T05:40:01+01:00 no end";
	struct buf in, out;

	buf_init(&in, sizeof(text));
	buf_init(&out, 2 * sizeof(text));
	buf_puts(&in, text);
	log_time_utc(&in, &out);
	buf_append(&out, "", 1);
	CHECK(!out.error);
	CHECK(!strcmp((char *)out.data, "2026-11-16T04:40:01Z one\n"
					"2026-11-16T04:40:01.5Z two  \n"
					"2026-11-16T04:40:01Z three\n"
					"no time at all\n\n2026-11-16T04:40:01 \n"
					"2026-11-16T04:40:01Z no end"));
	buf_fini(&in);
	buf_fini(&out);
}

static const char inspect[] =
	"{\"Id\":\"" ID "\",\"Name\":\"/sandboxfs-ns-de__mo_s\",\"Image\":\"sha256:ab\","
	"\"Created\":\"2026-11-16T04:40:01.1Z\",\"State\":{\"Status\":\"exited\",\"ExitCode\":137,"
	"\"OOMKilled\":true,\"Error\":\"why\"},\"Config\":{\"Labels\":{\"sandboxfs.namespace\":"
	"\"ns\",\"sandboxfs.owner\":\"1000\",\"sandboxfs.template\":\"t\",\"sandboxfs.config\":"
	"\"{}\"}}}";

static void a_container_inspected(void)
{
	cJSON *j = cJSON_Parse(inspect);
	struct engine_box b;

	CHECK(box_from_inspect(j, "ns", &b, NULL) == 0);
	CHECK_STR(b.id, ID);
	CHECK_STR(b.name, "de_mo");
	CHECK_STR(b.template, "t");
	CHECK_STR(b.config, "{}");
	CHECK_STR(b.image_id, "sha256:ab");
	CHECK_STR(b.error, "why");
	CHECK(b.mark == ENGINE_MARK_STOPPED && b.state == ENGINE_EXITED && b.owner == 1000);
	CHECK(b.exit_code == 137 && b.oom && b.detailed && b.created == 1794804001);
	engine_box_fini(&b);
	CHECK(box_from_inspect(j, "other", &b, NULL) == -ENOENT);
	cJSON_Delete(j);
}

static void ports_and_limits(void)
{
	cJSON *j = cJSON_Parse(inspect), *host, *ports;
	struct engine_box b, copy;

	host = cJSON_AddObjectToObject(j, "HostConfig");
	CHECK(box_from_inspect(j, "ns", &b, NULL) == 0);
	CHECK(!b.n_ports && !b.limits.memory && !b.limits.pids && !b.limits.cpu_quota_us);
	engine_box_fini(&b);

	cJSON_AddNumberToObject(host, "Memory", 1024);
	cJSON_AddNumberToObject(host, "MemorySwap", 1024);
	cJSON_AddNumberToObject(host, "NanoCpus", 1500000000);
	cJSON_AddNumberToObject(host, "PidsLimit", 7);
	ports = cJSON_Parse(
		"{\"Ports\":{\"80/tcp\":[{\"HostIp\":\"0.0.0.0\",\"HostPort\":\"4000\"},"
		"{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"4001\"}],\"53/udp\":[{\"HostIp\":"
		"\"127.0.0.1\",\"HostPort\":\"4002\"}],\"81/tcp\":null,\"82/tcp\":[{\"HostIp\":"
		"\"::1\",\"HostPort\":\"4003\"}],\"83/tcp\":[{\"HostIp\":\"a b\",\"HostPort\":"
		"\"1\"},{\"HostIp\":\"\",\"HostPort\":\"70000\"},7],\"0/tcp\":[{}],\"x\":[]}}");
	cJSON_AddItemToObject(j, "NetworkSettings", ports);
	CHECK(box_from_inspect(j, "ns", &b, NULL) == 0);
	CHECK(b.limits.memory == 1024 && b.limits.pids == 7);
	CHECK(b.limits.cpu_quota_us == 150000 && b.limits.cpu_period_us == 100000);
	CHECK(engine_box_copy(&copy, &b) == 0);
	engine_box_fini(&b);
	CHECK(copy.n_ports == 2 && copy.ports[0].port == 80 && copy.ports[1].port == 82);
	CHECK_STR(copy.ports[0].address, "127.0.0.1:4001");
	CHECK_STR(copy.ports[1].address, "[::1]:4003");
	engine_box_fini(&copy);

	/* More swap than memory: how "max" is written. */
	cJSON_ReplaceItemInObject(host, "MemorySwap", cJSON_CreateNumber(1125899906842624.0));
	cJSON_ReplaceItemInObject(host, "PidsLimit", cJSON_CreateNumber(-1));
	CHECK(box_from_inspect(j, "ns", &b, NULL) == 0 && !b.limits.memory && !b.limits.pids);
	engine_box_fini(&b);
	cJSON_Delete(j);
}

/* Every byte of a good answer replaced in turn: never a crash, a leak, or a half-filled box. */
static void lies(void)
{
	static const char with[] = "\"{}[]:,0x\\";
	size_t n = sizeof(inspect) - 1;
	char *s = malloc(n + 1);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(with) - 1; k++) {
			struct engine_box b = {0};
			cJSON *j;

			memcpy(s, inspect, n + 1);
			s[i] = with[k];
			j = cJSON_ParseWithLength(s, n);
			if (box_from_inspect(j, "ns", &b, NULL))
				CHECK(!b.id && !b.name);
			else
				engine_box_fini(&b);
			CHECK(box_from_list(j, "ns", &b, NULL) < 0);
			cJSON_Delete(j);
		}
	}
	free(s);
}

static void a_container_listed(void)
{
	cJSON *j = cJSON_Parse(
		"{\"Id\":\"" ID "\",\"Names\":[\"/other/alias\",\"/sandboxfs-ns-_x0123456789ab\"],"
		"\"ImageID\":\"i\",\"Created\":5,\"State\":\"dead\",\"Labels\":{"
		"\"sandboxfs.namespace\":\"ns\",\"sandboxfs.owner\":\"0\"}}");
	struct engine_box b;

	CHECK(box_from_list(j, "ns", &b, NULL) == 0);
	CHECK_STR(b.name, "");
	CHECK(b.mark == ENGINE_MARK_REMOVING && b.state == ENGINE_GONE && b.created == 5);
	CHECK(!b.detailed && !b.n_ports);
	engine_box_fini(&b);
	cJSON_AddItemToObject(j, "Ports",
		cJSON_Parse("[{\"IP\":\"127.0.0.1\",\"PrivatePort\":80,\"PublicPort\":4001,"
			    "\"Type\":\"tcp\"},{\"PrivatePort\":81,\"Type\":\"tcp\"},7]"));
	CHECK(box_from_list(j, "ns", &b, NULL) == 0 && b.n_ports == 1);
	CHECK_STR(b.ports[0].address, "127.0.0.1:4001");
	engine_box_fini(&b);
	cJSON_ReplaceItemInObject(j, "State", cJSON_CreateString("melted"));
	CHECK(box_from_list(j, "ns", &b, NULL) == 0 && b.state == ENGINE_EXITED);
	engine_box_fini(&b);
	cJSON_DeleteItemFromObject(j, "State");
	CHECK(box_from_list(j, "ns", &b, NULL) == -EPROTO);
	cJSON_Delete(j);
}

static void hashes(void)
{
	char hex[SHA256_HEX + 1], million[1000];

	sha256_hex("", 0, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256_hex("abc", 3, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	CHECK_STR(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(million, 'a', sizeof(million));
	sha256_hex(million, sizeof(million), hex);
	CHECK_STR(hex, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

static void archives(void)
{
	struct buf tar, out;
	mode_t mode = 0;

	buf_init(&tar, 1 << 20);
	buf_init(&out, 1 << 20);
	CHECK(tar_make("agent", 0555, "content", 7, &tar, NULL) == 0);
	CHECK(tar.len % 512 == 0);
	CHECK(tar_read(tar.data, tar.len, &out, &mode, NULL) == 0);
	CHECK(out.len == 7 && !memcmp(out.data, "content", 7) && mode == 0555);
	CHECK(tar_read(tar.data, 300, &out, &mode, NULL) < 0);
	CHECK(tar_read("nonsense", 8, &out, &mode, NULL) < 0);
	CHECK(tar_read("", 0, &out, &mode, NULL) < 0);
	buf_fini(&tar);
	buf_fini(&out);
}

static void split(const char *image, const char *name, const char *tag)
{
	char *n = NULL, *t = NULL;

	CHECK(image_split(image, &n, &t) == 0);
	CHECK_STR(n, name);
	CHECK_STR(t, tag);
	free(n);
	free(t);
}

static void references(void)
{
	split("busybox", "busybox", "latest");
	split("busybox:1", "busybox", "1");
	split("busybox:", "busybox", "latest");
	split("h:5000/a/b", "h:5000/a/b", "latest");
	split("h:5000/a/b:c", "h:5000/a/b", "c");
	split("a@sha256:00", "a@sha256:00", "");
}

static int status(long code, const char *body, const char *want)
{
	struct err err = {0};
	int rc = http_status_err(code, body, strlen(body), &err);

	if (want)
		CHECK_STR(err.msg, want);
	return rc;
}

static void words_of_failures(void)
{
	CHECK(status(200, "", NULL) == 0 && status(304, "", NULL) == 0);
	CHECK(status(404, "{\"message\":\"No such\\nimage\"}", "No such image") == -ENOENT);
	CHECK(status(409, "{\"message\":\"m\"}", "m") == -EBUSY);
	CHECK(status(500, "{\"message\":\"a: No space left on device\"}", NULL) == -ENOSPC);
	CHECK(status(400, "{\"message\":7}", NULL) == -EINVAL);
	CHECK(status(500, "oh", "the engine answered with status 500: oh") == -EIO);
	CHECK(status(301, "", "the engine answered with status 301") == -EPROTO);
}

static void escapes(void)
{
	struct buf b;

	buf_init(&b, 100);
	http_escape(&b, "a/b:c@d", true);
	http_escape(&b, "?&% \377a/b:", false);
	CHECK_STR((char *)b.data, "a/b:c@d%3F%26%25%20%FFa%2Fb%3A");
	buf_fini(&b);
}

int main(void)
{
	TEST(objects_at_every_split);
	TEST(objects_that_are_none);
	TEST(objects_have_a_cap);
	TEST(times);
	TEST(times_of_a_log);
	TEST(a_container_inspected);
	TEST(a_container_listed);
	TEST(ports_and_limits);
	TEST(lies);
	TEST(hashes);
	TEST(archives);
	TEST(references);
	TEST(words_of_failures);
	TEST(escapes);
	return check_done();
}
