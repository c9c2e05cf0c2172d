/* SPDX-License-Identifier: MIT */
/* The agent as a server: frames in pieces, garbage, floods, peers that do not read. */
#include "test_agent_files.h"
#include "test_agent_jobs.h"

#include <poll.h>

static struct agent a;

static void put_hello(struct buf *b, uint64_t id, uint32_t version, uint32_t min)
{
	size_t at = proto_begin(b, PROTO_HELLO, 0, id, 0, 0);

	wire_u32(b, PROTO_MAGIC);
	wire_u32(b, version);
	wire_u32(b, min);
	buf_append(b, "0123456789abcdef", PROTO_SESSION);
	CHECK(proto_end(b, at) == 0);
}

static void put_ping(struct buf *b, uint64_t id)
{
	size_t at = proto_begin(b, PROTO_PING, 0, id, 0, 0);

	CHECK(proto_end(b, at) == 0);
}

static struct client raw(void)
{
	struct client c = {.fd = client_connect(&a)};

	CHECK(c.fd >= 0);
	buf_init(&c.frame, PROTO_HEAD + PROTO_MAX_BODY);
	return c;
}

static bool alive(void)
{
	struct client c;
	struct buf b;
	size_t at;
	int ret;

	client_open(&c, &a, "alive");
	at = client_begin(&c, &b, PROTO_PING);
	ret = client_call(&c, &b, at);
	client_close(&c);
	return ret == 0;
}

/* Nothing more comes, and the agent has hung up. */
static bool is_cut(struct client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	char byte;

	return poll(&p, 1, 20000) == 1 && read(c->fd, &byte, 1) <= 0;
}

static void every_split(void)
{
	struct buf b;

	buf_init(&b, 4096);
	put_hello(&b, 1, PROTO_VERSION, PROTO_VERSION_MIN);
	put_ping(&b, 2);
	put_ping(&b, 3);
	for (size_t cut = 1; cut < b.len; cut++) {
		struct client c = raw();

		write_all(c.fd, b.data, cut);
		usleep(300);
		write_all(c.fd, b.data + cut, b.len - cut);
		for (uint64_t id = 1; id <= 3; id++)
			CHECK(client_recv(&c) && c.head.id == id && c.head.error == 0);
		client_close(&c);
	}
	/* And byte by byte. */
	struct client c = raw();

	for (size_t i = 0; i < b.len; i++) {
		write_all(c.fd, b.data + i, 1);
		usleep(100);
	}
	for (uint64_t id = 1; id <= 3; id++)
		CHECK(client_recv(&c) && c.head.id == id);
	client_close(&c);
	buf_fini(&b);
}

/* Long frames in pieces, between short ones. */
static void long_frames(void)
{
	static uint8_t data[300000];
	struct proto_attr attr;
	struct client c;
	struct buf b, all;
	size_t at;

	client_open(&c, &a, "long");
	CHECK(do_create(&c, 2, "long", 100, 1, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	buf_init(&all, 64u << 20);
	for (int i = 0; i < 20; i++) {
		size_t n = (size_t)(i * 15000);

		at = client_begin(&c, &b, PROTO_WRITE);
		wire_u64(&b, 1);
		wire_u64(&b, (uint64_t)i * sizeof(data));
		wire_bytes(&b, data, n);
		CHECK(proto_end(&b, at) == 0);
		buf_append(&all, b.data, b.len);
		buf_fini(&b);
		put_ping(&all, ++c.next_id);
	}
	for (size_t done = 0; done < all.len; done += 7919) {
		write_all(c.fd, all.data + done, all.len - done < 7919 ? all.len - done : 7919);
		if (done % 5 == 0)
			usleep(200);
	}
	for (int i = 0; i < 40; i++)
		CHECK(client_recv(&c) && c.head.error == 0);
	buf_fini(&all);
	client_close(&c);
}

static void bad_beginnings(void)
{
	uint8_t junk[4096];
	struct buf b;
	struct client c = raw();

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 131 + 17);
	write_all(c.fd, junk, sizeof(junk));
	CHECK(is_cut(&c));
	client_close(&c);
	buf_init(&b, 4096);
	put_ping(&b, 1);
	c = raw();
	write_all(c.fd, b.data, b.len);
	CHECK(is_cut(&c));
	client_close(&c);
	/* Versions. */
	buf_reset(&b);
	put_hello(&b, 1, 0, 0);
	c = raw();
	write_all(c.fd, b.data, b.len);
	CHECK(client_recv(&c) && c.head.error == EPROTONOSUPPORT && c.head.len > 10);
	CHECK(is_cut(&c));
	client_close(&c);
	buf_reset(&b);
	put_hello(&b, 1, 1000, 999);
	c = raw();
	write_all(c.fd, b.data, b.len);
	CHECK(client_recv(&c) && c.head.error == EPROTONOSUPPORT);
	CHECK(is_cut(&c));
	client_close(&c);
	buf_reset(&b);
	put_hello(&b, 1, 1000, 1);
	c = raw();
	write_all(c.fd, b.data, b.len);
	CHECK(client_recv(&c) && c.head.error == 0);
	/* An oversized length later. */
	memset(junk, 0xff, PROTO_HEAD);
	write_all(c.fd, junk, PROTO_HEAD);
	CHECK(is_cut(&c));
	client_close(&c);
	buf_fini(&b);
	CHECK(alive());
}

/* Bodies of garbage for every message: answered with an error, never a crash. */
static void garbage_bodies(void)
{
	struct client c;
	unsigned seed = 7;

	client_open(&c, &a, "garbage");
	for (int round = 0; round < 4000; round++) {
		uint16_t type = (uint16_t)(rand_r(&seed) % 80);
		size_t n = (size_t)rand_r(&seed) % 60, at;
		struct buf b;

		if (type == PROTO_CANCEL || type == PROTO_FORGET || type == PROTO_CLOSE)
			continue; /* not answered */
		if (type == PROTO_CHANGES && n == 8)
			continue; /* not answered yet */
		at = client_begin(&c, &b, type);
		for (size_t i = 0; i < n; i++)
			wire_u8(&b, (uint8_t)(rand_r(&seed) % (round % 2 ? 256 : 3)));
		client_call(&c, &b, at);
	}
	client_close(&c);
	CHECK(alive());
}

/* Many requests at once, whose replies come in any order, each once. */
static void many_in_flight(void)
{
	enum { N = 2000 };
	static uint8_t seen[N + 100];
	static uint8_t data[100000];
	struct proto_attr attr;
	uint32_t done;
	struct client c;

	memset(seen, 0, sizeof(seen));
	client_open(&c, &a, "many");
	CHECK(do_create(&c, 2, "many", 100, 1, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(do_write(&c, 1, 0, data, sizeof(data), &done) == 0);
	uint64_t first = c.next_id + 1;
	pid_t writer = fork(); /* else both ends could wait for each other */

	for (int i = 0; i < N; i++) {
		struct buf b;
		size_t at = client_begin(&c, &b, i % 3 == 0 ? PROTO_GETATTR : PROTO_READ);

		if (i % 3 == 0) {
			wire_u64(&b, 100);
			wire_u64(&b, 0);
		} else {
			wire_u64(&b, 1);
			wire_u64(&b, 0);
			wire_u32(&b, i % 3 == 1 ? 100 : 100000);
		}
		if (writer == 0)
			client_send(&c, &b, at);
		else
			buf_fini(&b);
	}
	if (writer == 0)
		_exit(0);
	for (int i = 0; i < N; i++) {
		CHECK(client_recv(&c) && c.head.error == 0);
		CHECK(c.head.id >= first && c.head.id < first + N);
		CHECK(seen[c.head.id - first]++ == 0);
	}
	waitpid(writer, NULL, 0);
	client_close(&c);
}

static long rss_kib(void)
{
	char path[64], line[256];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", a.pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* A sanitizer has memory of its own; of two gigabytes this is still little. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FAT 10
#else
#define FAT 1
#endif

/* Asks for gigabytes and takes nothing: the agent must not keep them. */
static void a_peer_that_does_not_read(void)
{
	static uint8_t data[PROTO_MAX_DATA];
	struct proto_attr attr;
	uint32_t done;
	struct client c;
	long before;

	client_open(&c, &a, "deaf");
	CHECK(do_create(&c, 2, "deaf", 100, 1, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(do_write(&c, 1, 0, data, sizeof(data), &done) == 0);
	before = rss_kib();
	fcntl(c.fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 2000; i++) {
		struct buf b;
		size_t at = client_begin(&c, &b, PROTO_READ);

		wire_u64(&b, 1);
		wire_u64(&b, 0);
		wire_u32(&b, PROTO_MAX_DATA);
		CHECK(proto_end(&b, at) == 0);
		if (send(c.fd, b.data, b.len, MSG_NOSIGNAL) < 0)
			i = 2000;
		buf_fini(&b);
	}
	usleep(300000);
	printf("# resident: %ld KiB, then %ld KiB\n", before, rss_kib());
	CHECK(rss_kib() < before + FAT * 24 * 1024);
	CHECK(alive());
	/* And when it reads at last, all is there. */
	fcntl(c.fd, F_SETFL, 0);
	for (int i = 0; i < 50; i++)
		CHECK(client_recv(&c) && c.head.len == 4 + PROTO_MAX_DATA);
	client_close(&c);
	CHECK(alive());
}

static void too_many_waits(void)
{
	struct proto_job j;
	struct client c, d;
	uint64_t job;
	uint32_t pid;
	struct buf b;

	client_open(&c, &a, "waits");
	client_open(&d, &a, "watch");
	CHECK(do_job_open(&d, &job) == 0);
	CHECK(do_job_write(&d, job, 0, "sleep 60", 8) == 0);
	CHECK(do_job_start(&d, job, NULL, &pid) == 0);
	for (unsigned i = 0; i <= PROTO_INFLIGHT; i++) {
		size_t at = client_begin(&c, &b, PROTO_JOB_WAIT);

		wire_u64(&b, job);
		wire_u8(&b, 0);
		client_send(&c, &b, at);
	}
	CHECK(is_cut(&c));
	client_close(&c);
	CHECK(do_job_kill(&d, job, SIGTERM) == 0);
	CHECK(do_job_wait(&d, job, false, &j) == 0 && j.exit_code == 143);
	proto_job_fini(&j);
	client_close(&d);
}

/* `agent relay` between us and the socket. */
/* Asked in one piece, so that the replies wait together: the short ones must not be put where the
 * long one ends. */
static void short_replies_after_a_long_one(void)
{
	enum { LONG = 16000, SHORT = 4000, SHORTS = 20 };
	static uint8_t data[LONG];
	struct proto_attr attr;
	struct client c;
	struct buf b;
	uint32_t done;

	client_open(&c, &a, "long-short");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	CHECK(do_create(&c, 2, "long", 100, 1, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(do_write(&c, 1, 0, data, sizeof(data), &done) == 0 && done == sizeof(data));
	for (int round = 0; round < 50; round++) {
		uint64_t first = c.next_id + 1;

		buf_init(&b, 1u << 20);
		for (int i = 0; i <= SHORTS; i++) {
			size_t at = proto_begin(&b, PROTO_READ, 0, ++c.next_id, 0, 0);

			wire_u64(&b, 1);
			wire_u64(&b, (uint64_t)i);
			wire_u32(&b, i ? SHORT : LONG);
			CHECK(proto_end(&b, at) == 0);
		}
		write_all(c.fd, b.data, b.len);
		buf_fini(&b);
		for (int i = 0; i <= SHORTS; i++) {
			const uint8_t *p;
			uint64_t k;
			size_t n;

			CHECK(client_recv(&c) && c.head.error == 0);
			k = c.head.id - first;
			CHECK(k <= SHORTS);
			p = wire_get_bytes(&c.in, PROTO_MAX_DATA, &n);
			CHECK(wire_end(&c.in) && n == (k ? SHORT : LONG));
			CHECK(memcmp(p, data + k, n) == 0);
		}
	}
	client_close(&c);
	CHECK(alive());
}

static void through_the_relay(void)
{
	static uint8_t data[PROTO_MAX_DATA];
	int to[2], from[2], status;
	struct proto_attr attr;
	struct client c = {0};
	char state[96];
	struct buf b;
	uint32_t done;
	pid_t pid;

	snprintf(state, sizeof(state), "%s/state", a.dir);
	CHECK(pipe2(to, O_CLOEXEC) == 0 &&
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(from[0], 0);
		dup2(to[1], 1);
		execl(agent_path(), "agent", "relay", "--state", state, (char *)NULL);
		_exit(99);
	}
	close(from[0]);
	close(to[1]);
	buf_init(&b, 4096);
	put_hello(&b, 1, PROTO_VERSION, PROTO_VERSION);
	write_all(from[1], b.data, b.len);
	buf_fini(&b);
	buf_init(&c.frame, PROTO_HEAD + PROTO_MAX_BODY);
	c.next_id = 1;
	c.fd = to[0];
	CHECK(client_recv(&c) && c.head.error == 0);
	/* Two descriptors where the client has one. */
	for (int i = 0; i < 60; i++) {
		size_t at = client_begin(&c, &b, i ? PROTO_WRITE : PROTO_CREATE);

		if (i) {
			wire_u64(&b, 1);
			wire_u64(&b, (uint64_t)i << 20);
			wire_bytes(&b, data, sizeof(data));
		} else {
			wire_u64(&b, 2);
			wire_str(&b, "relayed");
			wire_u64(&b, 100);
			wire_u64(&b, 1);
			wire_u32(&b, PROTO_O_READ | PROTO_O_WRITE);
			wire_u32(&b, 0644);
		}
		CHECK(proto_end(&b, at) == 0);
		write_all(from[1], b.data, b.len);
		buf_fini(&b);
		CHECK(client_recv(&c) && c.head.error == 0);
		if (i) {
			done = wire_get_u32(&c.in);
			CHECK(done == sizeof(data));
		} else {
			proto_get_attr(&c.in, &attr);
		}
	}
	close(from[1]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	client_close(&c);
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "0");
	TEST(every_split);
	TEST(long_frames);
	TEST(bad_beginnings);
	TEST(garbage_bodies);
	TEST(many_in_flight);
	TEST(a_peer_that_does_not_read);
	TEST(too_many_waits);
	TEST(short_replies_after_a_long_one);
	TEST(through_the_relay);
	CHECK(waitpid(a.pid, NULL, WNOHANG) == 0); /* it lives */
	agent_clean(&a);
	return check_done();
}
