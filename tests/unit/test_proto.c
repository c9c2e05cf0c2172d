/* SPDX-License-Identifier: MIT */
/* Every struct of the protocol: a new one gets a CODEC line and a sample. */
#include "common/proto.h"
#include "tests/unit/check.h"
#include "tests/unit/oom.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

union any {
	struct proto_attr attr;
	struct proto_setattr setattr;
	struct proto_statfs statfs;
	struct proto_lock lock;
	struct proto_change change;
	struct proto_dirent dirent;
	struct proto_hello hello;
	struct proto_job job;
};

struct codec {
	const char *name;
	void (*put)(struct buf *b, const union any *a);
	void (*get)(struct wire_in *in, union any *a);
	void (*fini)(union any *a);
	void (*sample)(union any *a);
};

static void fini_none(union any *a)
{
}

static void fini_hello(union any *a)
{
	proto_hello_fini(&a->hello);
}

static void fini_job(union any *a)
{
	proto_job_fini(&a->job);
}

#define CODEC(x)                                               \
	static void put_##x(struct buf *b, const union any *a) \
	{                                                      \
		proto_put_##x(b, &a->x);                       \
	}                                                      \
	static void get_##x(struct wire_in *in, union any *a)  \
	{                                                      \
		proto_get_##x(in, &a->x);                      \
	}

CODEC(attr)
CODEC(setattr)
CODEC(statfs)
CODEC(lock)
CODEC(change)
CODEC(dirent)
CODEC(hello)
CODEC(job)

static void sample_attr(union any *a)
{
	a->attr = (struct proto_attr){.dev = 1,
		.ino = UINT64_MAX,
		.mode = S_IFREG | 0644,
		.nlink = 2,
		.uid = 1000,
		.gid = UINT32_MAX,
		.size = 1ull << 40,
		.blocks = 7,
		.blksize = 4096,
		.rdev_major = 8,
		.rdev_minor = 9,
		.atime = {.sec = -1, .nsec = 999999999},
		.mtime = {.sec = INT64_MAX},
		.ctime = {.sec = 3, .nsec = 4},
		.btime = {0},
		.cache = PROTO_CACHE_ALL};
}

static void sample_setattr(union any *a)
{
	a->setattr = (struct proto_setattr){.mask = PROTO_SET_ATTR_ALL,
		.mode = 0755,
		.uid = 1,
		.gid = 2,
		.size = 3,
		.atime = {.sec = 4, .nsec = 5},
		.mtime = {.sec = 6, .nsec = 7}};
}

static void sample_statfs(union any *a)
{
	a->statfs = (struct proto_statfs){.blocks = 1,
		.bfree = 2,
		.bavail = 3,
		.files = 4,
		.ffree = 5,
		.bsize = 6,
		.frsize = 7,
		.namelen = 255};
}

static void sample_lock(union any *a)
{
	a->lock = (struct proto_lock){
		.type = PROTO_LOCK_WRITE, .start = 1, .end = INT64_MAX, .pid = 7};
}

static void sample_change(union any *a)
{
	a->change = (struct proto_change){
		.kind = PROTO_CHANGE_NAME, .node = 9, .name = (const uint8_t *)"x", .name_len = 1};
}

static void sample_dirent(union any *a)
{
	union any attr;

	sample_attr(&attr);
	a->dirent = (struct proto_dirent){.ino = 1,
		.next = 2,
		.type = S_IFREG,
		.name = (const uint8_t *)"name\xff",
		.name_len = 5,
		.has_attr = true,
		.attr = attr.attr};
}

static void sample_dirent_bare(union any *a)
{
	a->dirent = (struct proto_dirent){.next = 2, .name = (const uint8_t *)"...", .name_len = 3};
}

static void sample_hello(union any *a)
{
	a->hello = (struct proto_hello){.version = 1,
		.resumed = true,
		.uid = 3,
		.gid = 4,
		.agent = strdup("0.1.0"),
		.workspace = strdup("/workspace"),
		.trouble = strdup("")};
}

static void sample_job(union any *a)
{
	a->job = (struct proto_job){.job = 1,
		.result = PROTO_RESULT_EXIT_CODE,
		.exit_code = 255,
		.pid = 7,
		.wall_us = 8,
		.user_us = 9,
		.system_us = 10,
		.peak_kib = 11,
		.size = {100, 0, INT64_MAX},
		.hole_from = {50, 0, 5},
		.hole_to = {60, 0, INT64_MAX},
		.command_size = 13,
		.stdin_size = 14,
		.name = strdup("build"),
		.command = strdup("make test"),
		.words = strdup("")};
}

static const struct codec codecs[] = {
	{"attr", put_attr, get_attr, fini_none, sample_attr},
	{"setattr", put_setattr, get_setattr, fini_none, sample_setattr},
	{"statfs", put_statfs, get_statfs, fini_none, sample_statfs},
	{"lock", put_lock, get_lock, fini_none, sample_lock},
	{"change", put_change, get_change, fini_none, sample_change},
	{"dirent", put_dirent, get_dirent, fini_none, sample_dirent},
	{"bare dirent", put_dirent, get_dirent, fini_none, sample_dirent_bare},
	{"hello", put_hello, get_hello, fini_hello, sample_hello},
	{"job", put_job, get_job, fini_job, sample_job},
};

#define N_CODECS (sizeof(codecs) / sizeof(*codecs))

static void encode_sample(const struct codec *c, struct buf *b)
{
	union any a;

	memset(&a, 0, sizeof(a));
	c->sample(&a);
	buf_init(b, PROTO_MAX_BODY);
	c->put(b, &a);
	CHECK(b->error == 0);
	c->fini(&a);
}

/* Whether p is a whole message; if so, writing it again must give the same bytes: nothing that is
 * accepted was misread. p is copied to a block of its own, so that a sanitizer sees an overrun. */
static bool accepts(const struct codec *c, const uint8_t *p, size_t n)
{
	uint8_t *own = malloc(n ? n : 1);
	struct wire_in in;
	union any a;
	struct buf b;
	bool ok;

	CHECK(own);
	if (n)
		memcpy(own, p, n);
	memset(&a, 0, sizeof(a));
	in = wire_in(own, n);
	c->get(&in, &a);
	ok = wire_end(&in);
	if (ok) {
		buf_init(&b, PROTO_MAX_BODY);
		c->put(&b, &a);
		CHECK(b.error == 0 && b.len == n && memcmp(b.data, p, n) == 0);
		buf_fini(&b);
	}
	c->fini(&a);
	free(own);
	return ok;
}

static void structs_round_trip(void)
{
	struct buf b;

	for (size_t i = 0; i < N_CODECS; i++) {
		encode_sample(&codecs[i], &b);
		CHECK(accepts(&codecs[i], b.data, b.len));
		buf_fini(&b);
	}
}

static void every_truncation_is_detected(void)
{
	struct buf b;

	for (size_t i = 0; i < N_CODECS; i++) {
		encode_sample(&codecs[i], &b);
		for (size_t n = 0; n < b.len; n++)
			CHECK(!accepts(&codecs[i], b.data, n));
		wire_u8(&b, 0);
		CHECK(!accepts(&codecs[i], b.data, b.len)); /* and a byte too many */
		buf_fini(&b);
	}
}

static void every_corruption_is_detected_or_harmless(void)
{
	struct buf b;

	for (size_t i = 0; i < N_CODECS; i++) {
		encode_sample(&codecs[i], &b);
		for (size_t at = 0; at < b.len; at++) {
			uint8_t was = b.data[at];

			for (unsigned v = 0; v < 256; v++) {
				b.data[at] = (uint8_t)v;
				accepts(&codecs[i], b.data, b.len);
			}
			b.data[at] = was;
		}
		buf_fini(&b);
	}
}

static void no_memory_leaks_nothing(void)
{
	long before = oom_live();
	struct buf b;

	for (size_t i = 0; i < N_CODECS; i++) {
		encode_sample(&codecs[i], &b);
		for (long nth = 0;; nth++) {
			struct wire_in in = wire_in(b.data, b.len);
			union any a;

			memset(&a, 0, sizeof(a));
			oom_arm(nth);
			codecs[i].get(&in, &a);
			oom_arm(-1);
			codecs[i].fini(&a);
			if (wire_end(&in))
				break;
			CHECK(nth < 10);
		}
		buf_fini(&b);
	}
	CHECK(oom_live() == before);
}

static void job_values_are_checked(void)
{
	struct proto_job good = {.result = PROTO_RESULT_SUCCESS,
		.name = strdup("1"),
		.command = strdup(""),
		.words = strdup("")};
	struct proto_job bad[] = {good, good, good, good, good, good, good, good, good};
	struct buf b;

	bad[0].exit_code = 9999;
	bad[1].exit_code = -2;
	bad[2].result = 77;
	bad[3].size[0] = (uint64_t)INT64_MAX + 1;
	bad[4].hole_to[1] = 1; /* beyond the size */
	bad[5].size[2] = 9, bad[5].hole_from[2] = 5, bad[5].hole_to[2] = 4;
	bad[6].command_size = UINT64_MAX;
	bad[7].stdin_size = UINT64_MAX;
	bad[8].name = (char[]){".."};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		buf_init(&b, 10000);
		proto_put_job(&b, &bad[i]);
		CHECK(b.error == 0 && !accepts(&codecs[N_CODECS - 1], b.data, b.len));
		buf_fini(&b);
	}
	free(good.name);
	free(good.command);
	free(good.words);
}

static void names_are_one_component(void)
{
	uint8_t all[256];

	memset(all, 'x', sizeof(all));
	CHECK(proto_name_ok(all, 255) && !proto_name_ok(all, 256) && !proto_name_ok(all, 0));
	for (unsigned c = 0; c < 256; c++) {
		all[3] = (uint8_t)c;
		CHECK(proto_name_ok(all, 7) == (c != 0 && c != '/'));
	}
	CHECK(!proto_name_ok((const uint8_t *)".", 1) && !proto_name_ok((const uint8_t *)"..", 2));
	CHECK(proto_name_ok((const uint8_t *)"...", 3) && proto_name_ok((const uint8_t *)".a", 2));
}

static void get_name_takes_only_names(void)
{
	static const struct {
		const char *s;
		size_t n;
		bool ok;
	} t[] = {{"a", 1, true}, {"", 0, false}, {".", 1, false}, {"..", 2, false},
		{"a/b", 3, false}, {"a\0b", 3, false}, {"\n", 1, true}};
	long before = oom_live();

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct wire_in in;
		struct buf b;
		char *s;

		buf_init(&b, 1000);
		wire_bytes(&b, t[i].s, t[i].n);
		in = wire_in(b.data, b.len);
		s = proto_get_name(&in);
		CHECK((s != NULL) == t[i].ok && in.bad == !t[i].ok);
		free(s);
		buf_fini(&b);
	}
	CHECK(oom_live() == before);
}

static void frames(void)
{
	struct proto_head h;
	struct buf b;
	size_t at;

	buf_init(&b, 4u << 20);
	wire_u8(&b, 99); /* frames may begin anywhere in a buffer */
	at = proto_begin(&b, PROTO_READ | PROTO_REPLY, 5, UINT64_MAX, 7, 8);
	wire_u32(&b, 0x01020304);
	CHECK(at == 1 && proto_end(&b, at) == 0 && b.len == 1 + PROTO_HEAD + 4);
	CHECK(proto_head(b.data + 1, &h) == 0);
	CHECK(h.len == 4 && h.type == (PROTO_READ | PROTO_REPLY) && h.error == 5);
	CHECK(h.id == UINT64_MAX && h.uid == 7 && h.gid == 8);
	buf_reset(&b);
	at = proto_begin(&b, 1, 0, 1, 0, 0);
	CHECK(buf_reserve(&b, PROTO_MAX_BODY));
	memset(b.data + b.len, 0, PROTO_MAX_BODY);
	b.len += PROTO_MAX_BODY;
	CHECK(proto_end(&b, at) == 0 && proto_head(b.data, &h) == 0 && h.len == PROTO_MAX_BODY);
	wire_u8(&b, 0);
	CHECK(proto_end(&b, at) == -E2BIG);
	memset(b.data, 0xff, 4);
	CHECK(proto_head(b.data, &h) == -EMSGSIZE);
	buf_fini(&b);
}

static void results_have_names(void)
{
	CHECK_STR(proto_result_name(PROTO_RESULT_SUCCESS), "success");
	CHECK_STR(proto_result_name(PROTO_RESULT_LOST), "lost");
	CHECK_STR(proto_result_name(200), "lost");
}

static void paths_are_as_they_should_be(void)
{
	static const char *const good[] = {"/", "/workspace", "/a/b/c", "/...", "/a b"};
	static const char *const bad[] = {"", "a", "//", "/a/", "/a//b", "/.", "/..", "/a/../b",
		"/a/.", "//a", "./a", "../a"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(proto_path_ok(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!proto_path_ok(bad[i]));
}

int main(void)
{
	TEST(structs_round_trip);
	TEST(every_truncation_is_detected);
	TEST(every_corruption_is_detected_or_harmless);
	TEST(no_memory_leaks_nothing);
	TEST(job_values_are_checked);
	TEST(names_are_one_component);
	TEST(get_name_takes_only_names);
	TEST(frames);
	TEST(results_have_names);
	TEST(paths_are_as_they_should_be);
	return check_done();
}
