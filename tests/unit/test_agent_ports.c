/* SPDX-License-Identifier: MIT */
/* Forwarded ports, from the daemon's side of the protocol; the server inside is this program. */
#include "test_agent_jobs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

static struct agent a;
static struct client c;
static uint64_t last;

/* A listener on the loopback of that family; its number in *number. -1: no such family here. */
static int listener(int family, uint16_t *number)
{
	struct sockaddr_in6 addr = {.sin6_family = (sa_family_t)family};
	socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(addr);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (family == AF_INET)
		((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		addr.sin6_addr = in6addr_loopback;
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		return -1;
	*number = ntohs(addr.sin6_port); /* in the same place in both */
	return fd;
}

static int do_open_port(uint64_t port, uint16_t number)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_PORT_OPEN);

	wire_u64(&b, port);
	wire_u16(&b, number);
	return client_call(&c, &b, at);
}

static uint64_t send_read(uint64_t port, uint32_t size)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_PORT_READ);

	wire_u64(&b, port);
	wire_u32(&b, size);
	client_send(&c, &b, at);
	return c.next_id;
}

static uint64_t send_write(uint64_t port, const void *p, size_t n)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_PORT_WRITE);

	wire_u64(&b, port);
	wire_bytes(&b, p, n);
	client_send(&c, &b, at);
	return c.next_id;
}

/* The next answer is that request's. Its error; the bytes of a READ. */
static int answer(uint64_t id, const char **p, size_t *n)
{
	CHECK(client_recv(&c) && c.head.id == id);
	if (p && !c.head.error) {
		*p = (const char *)wire_get_bytes(&c.in, PROTO_PORT_DATA, n);
		CHECK(wire_end(&c.in));
	}
	return c.head.error;
}

static void close_port(uint64_t port)
{
	struct buf b;
	size_t at;

	buf_init(&b, PROTO_HEAD + 64);
	at = proto_begin(&b, PROTO_PORT_CLOSE, 0, 0, 0, 0);
	wire_u64(&b, port);
	client_send(&c, &b, at);
}

/* A connected pair: the daemon's number, and the server's end. */
static uint64_t connected(int *server)
{
	uint16_t number = 0;
	int l = listener(AF_INET, &number);

	CHECK(l >= 0);
	CHECK(do_open_port(++last, number) == 0);
	*server = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	CHECK(*server >= 0);
	close(l);
	return last;
}

static bool no_answer(void)
{
	struct pollfd p = {.fd = c.fd, .events = POLLIN};

	return poll(&p, 1, 100) == 0;
}

static void there_and_back(void)
{
	const char *p = NULL;
	uint64_t port, one, two;
	size_t n = 0;
	char got[8];
	int fd;

	port = connected(&fd);
	/* Reads wait, and are answered in order. */
	one = send_read(port, 3);
	two = send_read(port, 100);
	CHECK(no_answer());
	CHECK(write(fd, "abcdef", 6) == 6);
	CHECK(answer(one, &p, &n) == 0 && n == 3 && !memcmp(p, "abc", 3));
	CHECK(answer(two, &p, &n) == 0 && n == 3 && !memcmp(p, "def", 3));
	CHECK(answer(send_write(port, "123", 3), NULL, NULL) == 0);
	CHECK(read(fd, got, sizeof(got)) == 3 && !memcmp(got, "123", 3));
	/* Each way ends for itself. */
	CHECK(do_u64(&c, PROTO_PORT_SHUT, port) == 0);
	CHECK(read(fd, got, sizeof(got)) == 0);
	CHECK(answer(send_write(port, "4", 1), NULL, NULL) == EPIPE);
	CHECK(write(fd, "gh", 2) == 2);
	CHECK(answer(send_read(port, 10), &p, &n) == 0 && n == 2);
	close(fd);
	CHECK(answer(send_read(port, 10), &p, &n) == 0 && n == 0);
	CHECK(answer(send_read(port, 10), &p, &n) == 0 && n == 0);
	close_port(port);
	CHECK(answer(send_read(port, 10), NULL, NULL) == EBADF);
}

static void nobody_there(void)
{
	uint16_t number = 0;
	int fd = listener(AF_INET, &number);

	CHECK(fd >= 0);
	close(fd);
	CHECK(do_open_port(++last, number) == ECONNREFUSED);
	CHECK(do_open_port(++last, 0) == EINVAL);
	CHECK(answer(send_read(last, 10), NULL, NULL) == EBADF);
	fd = listener(AF_INET6, &number);
	CHECK(fd < 0 || do_open_port(++last, number) == 0);
	close_port(last);
	close(fd);
}

/* No answer for so long that none is to be expected. */
static bool is_stuck(void)
{
	struct pollfd p = {.fd = c.fd, .events = POLLIN};

	return poll(&p, 1, 1000) == 0;
}

/* An answer to a WRITE, to the SHUT behind it, or to something else. */
static bool next_of_three(uint64_t write, uint64_t shut, bool *written, bool *shut_down)
{
	if (!client_recv(&c) || c.head.error)
		return false;
	*written |= c.head.id == write;
	*shut_down |= c.head.id == shut;
	return *written || !*shut_down;
}

/* A server that does not read holds writes up, and what comes behind them; nothing else. */
static void a_full_server(void)
{
	static char data[PROTO_PORT_DATA], got[1 << 16];
	uint64_t port, id, ping, shut;
	size_t total = 0, sent = 0, at;
	bool written = false, shut_down = false;
	struct buf b;
	ssize_t n;
	int fd;

	port = connected(&fd);
	memset(data, 'x', sizeof(data));
	do {
		id = send_write(port, data, sizeof(data));
		sent += sizeof(data);
	} while (!is_stuck() && answer(id, NULL, NULL) == 0 && sent < (1u << 30));
	CHECK(sent < (1u << 30));
	at = client_begin(&c, &b, PROTO_PORT_SHUT);
	shut = c.next_id;
	wire_u64(&b, port);
	client_send(&c, &b, at);
	at = client_begin(&c, &b, PROTO_PING);
	ping = c.next_id;
	client_send(&c, &b, at);
	/* There may have been room for the last of them yet; the question is answered anyway. */
	do {
		CHECK(next_of_three(id, shut, &written, &shut_down));
	} while (c.head.id != ping);
	while ((n = read(fd, got, sizeof(got))) > 0)
		total += (size_t)n;
	CHECK(n == 0 && total == sent);
	while (!shut_down)
		CHECK(next_of_three(id, shut, &written, &shut_down));
	CHECK(written);
	close_port(port);
	close(fd);
}

static void too_many_wait(void)
{
	uint64_t port, first, id;
	struct buf b;
	size_t at;
	int fd;

	port = connected(&fd);
	first = send_read(port, 1);
	for (unsigned i = 1; i < PROTO_PORT_QUEUE; i++)
		send_read(port, 1);
	CHECK(answer(send_read(port, 1), NULL, NULL) == EBUSY);
	CHECK(answer(send_read(port, PROTO_PORT_DATA + 1), NULL, NULL) == EINVAL);
	CHECK(answer(send_read(port, 0), NULL, NULL) == EINVAL);
	CHECK(do_open_port(port, 80) == EEXIST);
	/* What waits is answered by a close; to the server that is a reset. */
	close_port(port);
	for (unsigned i = 0; i < PROTO_PORT_QUEUE; i++)
		CHECK(answer(first + i, NULL, NULL) == ECONNABORTED);
	CHECK(read(fd, &id, 1) < 0 && errno == ECONNRESET);
	close(fd);
	at = client_begin(&c, &b, PROTO_PING);
	CHECK(client_call(&c, &b, at) == 0);
}

/* A connection of the daemon's takes its own with it, and no other's. */
static void a_lost_daemon(void)
{
	struct client other = {0};
	uint64_t port;
	char byte;
	int mine, theirs;

	port = connected(&mine);
	other = c;
	client_open(&c, &a, "other");
	last = port - 1; /* the same number is another one there */
	CHECK(connected(&theirs) == port);
	send_read(port, 10);
	client_close(&c);
	c = other;
	CHECK(read(theirs, &byte, 1) < 0 && errno == ECONNRESET);
	CHECK(answer(send_write(port, "z", 1), NULL, NULL) == 0);
	CHECK(read(mine, &byte, 1) == 1 && byte == 'z');
	close_port(port);
	close(mine);
	close(theirs);
}

/* Much data that nobody takes stays in the sockets; a small question comes before most of it. */
static void much_data(void)
{
	static char data[1 << 20];
	const char *p = NULL;
	uint64_t port, ping;
	size_t n = 0, total = 0;
	unsigned out = 0;
	struct buf b;
	size_t at;
	int fd;
	pid_t pid;

	port = connected(&fd);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		for (int i = 0; i < 16; i++)
			write_all(fd, data, sizeof(data));
		_exit(0);
	}
	close(fd);
	for (out = 0; out < PROTO_PORT_QUEUE; out++)
		send_read(port, PROTO_PORT_DATA);
	at = client_begin(&c, &b, PROTO_PING);
	ping = c.next_id;
	client_send(&c, &b, at);
	for (bool end = false; !end || out;) {
		CHECK(client_recv(&c) && c.head.error == 0);
		if (c.head.id == ping)
			continue;
		out--;
		p = (const char *)wire_get_bytes(&c.in, PROTO_PORT_DATA, &n);
		CHECK(p && wire_end(&c.in));
		total += n;
		end |= n == 0;
		if (!end) {
			send_read(port, PROTO_PORT_DATA);
			out++;
		}
	}
	CHECK(total == 16 * sizeof(data));
	CHECK(waitpid(pid, NULL, 0) == pid);
	close_port(port);
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "0");
	client_open(&c, &a, "ports");
	TEST(there_and_back);
	TEST(nobody_there);
	TEST(a_full_server);
	TEST(too_many_wait);
	TEST(a_lost_daemon);
	TEST(much_data);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
