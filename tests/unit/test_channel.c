/* SPDX-License-Identifier: MIT */
/* The client end of the protocol, with a test in the agent's place at the other end of a socket. */
#include "sandbox/channel.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t pipe_read(struct stream *s, void *p, size_t n)
{
	ssize_t r = recv(s->fd, p, n, MSG_DONTWAIT);

	return r < 0 ? -errno : r;
}

static _Atomic bool stalled;

static ssize_t pipe_write(struct stream *s, const void *p, size_t n)
{
	ssize_t r;

	if (stalled)
		return -EAGAIN;
	r = send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return r < 0 ? -errno : r;
}

static const char *pipe_words(struct stream *s)
{
	return "words from the far end";
}

static void pipe_close(struct stream *s)
{
	close(s->fd);
	free(s);
}

/* One connection: ours is the channel, `fd` is the agent's end. */
static struct {
	struct loop *loop;
	struct channel *ch;
	int fd;
	sem_t answered, gone;
	_Atomic int lost, lost_unsent, owed, downs;
	uint8_t owed_byte[8]; /* the first of each one's body */
	bool broke;
	struct err err;
} t;

struct ask {
	struct call c;
	int err;
	bool bad; /* done() is to call the body malformed */
	uint8_t body[64];
	size_t len;
	char words[64];
};

static bool ask_done(struct call *c, int err, struct wire_in *body)
{
	struct ask *a = (struct ask *)c;

	a->err = err;
	if (body) {
		a->len = (size_t)(body->end - body->p);
		memcpy(a->body, body->p, a->len < 64 ? a->len : 64);
	}
	snprintf(a->words, sizeof(a->words), "%s", c->words ? c->words : "");
	call_fini(c);
	sem_post(&t.answered);
	return !a->bad;
}

static void on_down(void *arg, bool broke, const struct err *err)
{
	t.downs++;
	t.broke = broke;
	t.err = *err;
}

static void on_lost(void *arg, struct call *c)
{
	t.lost++;
	t.lost_unsent += !call_was_sent(c);
	call_fini(c);
}

static void on_owed(void *arg, struct call *c)
{
	if (t.owed < 8)
		t.owed_byte[t.owed] = c->frame.data[PROTO_HEAD];
	t.owed++;
	oneway_free(c);
}

static void on_gone(void *arg)
{
	sem_post(&t.gone);
}

static void up(void)
{
	struct channel_events ev = {
		.down = on_down, .lost = on_lost, .owed = on_owed, .gone = on_gone};
	struct stream *s = calloc(1, sizeof(*s));
	int fds[2];

	CHECK(s && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	*s = (struct stream){fds[0], pipe_read, pipe_write, pipe_words, pipe_close};
	t.fd = fds[1];
	t.lost = t.lost_unsent = t.owed = t.downs = 0;
	t.broke = false;
	sem_init(&t.answered, 0, 0);
	sem_init(&t.gone, 0, 0);
	CHECK(loop_new(2, &t.loop) == 0);
	CHECK(channel_new(t.loop, s, &ev, &t.ch) == 0);
}

static void wait_sem(sem_t *s)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 20;
	CHECK(sem_timedwait(s, &end) == 0);
}

static void down(void)
{
	channel_close(t.ch);
	channel_close(t.ch);
	wait_sem(&t.gone);
	channel_put(t.ch);
	loop_free(t.loop);
	close(t.fd);
}

static int try_ask(struct ask *a, uint16_t type)
{
	memset(a, 0, sizeof(*a));
	call_begin(&a->c, type, 1, 2);
	wire_u64(&a->c.frame, 42);
	a->c.done = ask_done;
	return channel_send(t.ch, &a->c);
}

static void ask(struct ask *a, uint16_t type)
{
	CHECK(try_ask(a, type) == 0);
}

static void read_exactly(void *p, size_t n)
{
	for (size_t got = 0; got < n;) {
		struct pollfd pfd = {.fd = t.fd, .events = POLLIN};
		ssize_t r;

		CHECK(poll(&pfd, 1, 20000) == 1);
		r = read(t.fd, (uint8_t *)p + got, n - got);
		CHECK(r > 0);
		got += (size_t)r;
	}
}

static struct proto_head next_request(void)
{
	static uint8_t raw[PROTO_HEAD + PROTO_MAX_BODY];
	struct proto_head h;

	read_exactly(raw, PROTO_HEAD);
	CHECK(proto_head(raw, &h) == 0);
	read_exactly(raw, h.len);
	return h;
}

static void answer(uint16_t type, uint16_t error, uint64_t id, const char *body)
{
	struct buf b;
	size_t at;

	buf_init(&b, 4096);
	at = proto_begin(&b, type, error, id, 0, 0);
	buf_puts(&b, body);
	CHECK(proto_end(&b, at) == 0);
	CHECK(write(t.fd, b.data, b.len) == (ssize_t)b.len);
	buf_fini(&b);
}

static void asks_and_is_answered(void)
{
	struct ask a;
	struct proto_head h;

	up();
	ask(&a, PROTO_GETATTR);
	h = next_request();
	CHECK(h.type == PROTO_GETATTR && h.uid == 1 && h.gid == 2 && h.len == 8 && h.id);
	answer(PROTO_GETATTR | PROTO_REPLY, 0, h.id, "yes");
	wait_sem(&t.answered);
	CHECK(a.err == 0 && a.len == 3 && memcmp(a.body, "yes", 3) == 0);
	ask(&a, PROTO_PING);
	h = next_request();
	answer(PROTO_PING | PROTO_REPLY, ENOENT, h.id, "why not");
	wait_sem(&t.answered);
	CHECK(a.err == -ENOENT);
	CHECK_STR(a.words, "why not");
	down();
	CHECK(t.lost == 0 && t.downs == 0);
}

static void answers_may_come_in_any_order(void)
{
	static struct ask a[1000];
	static uint64_t id[1000];
	char text[16];

	up();
	for (int i = 0; i < 1000; i++)
		ask(&a[i], PROTO_PING);
	for (int i = 0; i < 1000; i++)
		id[i] = next_request().id;
	for (int i = 0; i < 1000; i++) {
		int k = (i * 617 + 5) % 1000;

		snprintf(text, sizeof(text), "%d", k);
		answer(PROTO_PING | PROTO_REPLY, 0, id[k], text);
	}
	for (int i = 0; i < 1000; i++)
		wait_sem(&t.answered);
	for (int i = 0; i < 1000; i++)
		CHECK(a[i].err == 0 && atoi((char *)a[i].body) == i);
	down();
}

static void no_more_than_the_limit_is_outstanding(void)
{
	static struct ask a[PROTO_INFLIGHT + 10];
	struct pollfd pfd = {.events = POLLIN};
	uint64_t first = 0;

	up();
	for (unsigned i = 0; i < PROTO_INFLIGHT + 10; i++)
		ask(&a[i], PROTO_PING);
	for (unsigned i = 0; i < PROTO_INFLIGHT; i++) {
		uint64_t id = next_request().id;

		first = i ? first : id;
	}
	pfd.fd = t.fd;
	CHECK(poll(&pfd, 1, 100) == 0);
	answer(PROTO_PING | PROTO_REPLY, 0, first, "");
	next_request();
	wait_sem(&t.answered);
	CHECK(poll(&pfd, 1, 100) == 0);
	down();
	CHECK(t.lost == PROTO_INFLIGHT + 9);
}

static void a_slow_agent_is_understood(void)
{
	static uint8_t raw[64];
	struct ask a;
	struct buf b;
	size_t at;

	up();
	ask(&a, PROTO_PING);
	buf_init(&b, sizeof(raw));
	at = proto_begin(&b, PROTO_PING | PROTO_REPLY, 0, next_request().id, 0, 0);
	buf_puts(&b, "drip");
	proto_end(&b, at);
	for (size_t i = 0; i < b.len; i++) {
		CHECK(write(t.fd, b.data + i, 1) == 1);
		usleep(300);
	}
	wait_sem(&t.answered);
	CHECK(a.err == 0 && a.len == 4);
	buf_fini(&b);
	down();
}

static void errno_is_never_what_harms(void)
{
	static const struct {
		uint16_t said;
		int got;
	} e[] = {{512, -EIO}, {38, -EOPNOTSUPP}, {134, -EIO}, {65535, -EIO}, {13, -EACCES}};
	struct ask a;

	up();
	for (size_t i = 0; i < sizeof(e) / sizeof(*e); i++) {
		ask(&a, PROTO_PING);
		answer(PROTO_PING | PROTO_REPLY, e[i].said, next_request().id, "");
		wait_sem(&t.answered);
		CHECK(a.err == e[i].got);
	}
	down();
}

/* After what lie() sends, the channel must be down, with words, and the call lost, not answered. */
static void breaks(void (*lie)(uint64_t id), bool answered)
{
	struct ask a;

	up();
	ask(&a, PROTO_PING);
	lie(next_request().id);
	wait_sem(&t.gone);
	CHECK(t.downs == 1 && t.broke && t.err.code == EPROTO && strlen(t.err.msg) > 10);
	CHECK(t.lost == (answered ? 0 : 1));
	sem_post(&t.gone); /* for down() */
	down();
}

static void lie_id(uint64_t id)
{
	answer(PROTO_PING | PROTO_REPLY, 0, id + 1, "");
}

static void lie_id_0(uint64_t id)
{
	answer(PROTO_PING | PROTO_REPLY, 0, 0, "");
}

static void lie_type(uint64_t id)
{
	answer(PROTO_GETATTR | PROTO_REPLY, 0, id, "");
}

static void lie_request(uint64_t id)
{
	answer(PROTO_PING, 0, id, "");
}

static void lie_oversize(uint64_t id)
{
	CHECK(write(t.fd, "\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24) == 24);
}

static void lie_garbage(uint64_t id)
{
	uint8_t junk[4096];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 167 + 13);
	CHECK(write(t.fd, junk, sizeof(junk)) == sizeof(junk));
}

static void lie_twice(uint64_t id)
{
	answer(PROTO_PING | PROTO_REPLY, 0, id, "");
	answer(PROTO_PING | PROTO_REPLY, 0, id, "");
}

static void lies_end_the_connection(void)
{
	breaks(lie_id, false);
	breaks(lie_id_0, false);
	breaks(lie_type, false);
	breaks(lie_request, false);
	breaks(lie_oversize, false);
	breaks(lie_garbage, false);
	breaks(lie_twice, true);
}

static void a_malformed_body_ends_the_connection(void)
{
	struct ask a;

	up();
	ask(&a, PROTO_PING);
	a.bad = true;
	answer(PROTO_PING | PROTO_REPLY, 0, next_request().id, "x");
	wait_sem(&t.gone);
	CHECK(t.downs == 1 && t.broke && t.lost == 0);
	sem_post(&t.gone);
	down();
}

/* Enough to fill the socket, so that a request stays half sent. */
static void an_answer_before_the_question_ends_the_connection(void)
{
	static struct ask a[4];
	static uint8_t data[PROTO_MAX_DATA];

	up();
	for (int i = 0; i < 4; i++) {
		memset(&a[i], 0, sizeof(a[i]));
		call_begin(&a[i].c, PROTO_WRITE, 0, 0);
		wire_bytes(&a[i].c.frame, data, sizeof(data));
		a[i].c.done = ask_done;
		channel_send(t.ch, &a[i].c);
	}
	answer(PROTO_WRITE | PROTO_REPLY, 0, 1, "");
	wait_sem(&t.gone);
	CHECK(t.broke && t.lost == 4);
	sem_post(&t.gone);
	down();
}

static void large_requests_arrive_whole(void)
{
	static struct ask a[4];
	static uint8_t data[PROTO_MAX_DATA];

	up();
	for (int i = 0; i < 4; i++) {
		memset(&a[i], 0, sizeof(a[i]));
		call_begin(&a[i].c, PROTO_WRITE, 0, 0);
		wire_bytes(&a[i].c.frame, data, sizeof(data));
		a[i].c.done = ask_done;
		channel_send(t.ch, &a[i].c);
	}
	for (int i = 0; i < 4; i++) {
		struct proto_head h = next_request();

		CHECK(h.type == PROTO_WRITE && h.len == sizeof(data) + 4);
		answer(PROTO_WRITE | PROTO_REPLY, 0, h.id, "");
		wait_sem(&t.answered);
	}
	down();
}

/* More bulk than the stream takes; what is asked afterwards comes before what has not begun. */
static void bulk_waits_for_all_else(void)
{
	static struct ask bulk[16], small[2];
	static uint8_t data[PROTO_PORT_DATA];
	unsigned before = 0, seen = 0;
	struct proto_head h;

	up();
	for (size_t i = 0; i < 16; i++) {
		memset(&bulk[i], 0, sizeof(bulk[i]));
		call_begin(&bulk[i].c, PROTO_PORT_WRITE, 0, 0);
		wire_u64(&bulk[i].c.frame, i);
		wire_bytes(&bulk[i].c.frame, data, sizeof(data));
		bulk[i].c.done = ask_done;
		bulk[i].c.bulk = true;
		channel_send(t.ch, &bulk[i].c);
	}
	ask(&small[0], PROTO_PING);
	ask(&small[1], PROTO_GETATTR);
	for (int i = 0; i < 18; i++) {
		h = next_request();
		if (h.type == PROTO_PORT_WRITE)
			before += seen < 2;
		else
			CHECK(h.type == (seen++ ? PROTO_GETATTR : PROTO_PING));
		answer(h.type | PROTO_REPLY, 0, h.id, "");
		wait_sem(&t.answered);
	}
	/* The one that had begun, and what the socket had taken. */
	CHECK(seen == 2 && before < 8);
	down();
	CHECK(t.lost == 0 && t.downs == 0);
}

/* TLS may have begun with what it did not take: nothing may overtake it. */
static void what_was_refused_is_offered_again(void)
{
	static struct ask bulk, small[2];
	struct proto_head h;

	up();
	stalled = true;
	memset(&bulk, 0, sizeof(bulk));
	call_begin(&bulk.c, PROTO_PORT_WRITE, 0, 0);
	bulk.c.done = ask_done;
	bulk.c.bulk = true;
	channel_send(t.ch, &bulk.c);
	ask(&small[0], PROTO_PING);
	stalled = false;
	ask(&small[1], PROTO_GETATTR);
	for (int i = 0; i < 3; i++) {
		static const uint16_t want[] = {PROTO_PORT_WRITE, PROTO_PING, PROTO_GETATTR};

		h = next_request();
		CHECK(h.type == want[i]);
		answer(h.type | PROTO_REPLY, 0, h.id, "");
		wait_sem(&t.answered);
	}
	down();
}

static void an_end_in_a_frame_loses_the_call(void)
{
	struct ask a;

	up();
	ask(&a, PROTO_PING);
	next_request();
	CHECK(write(t.fd, "\5\0\0\0\2", 5) == 5);
	shutdown(t.fd, SHUT_RDWR);
	wait_sem(&t.gone);
	CHECK(t.lost == 1 && t.downs == 1 && !t.broke);
	CHECK(strstr(t.err.msg, "words from the far end"));
	/* Nobody would tell of another one: it stays the caller's. */
	CHECK(try_ask(&a, PROTO_PING) == -EPIPE && t.lost == 1);
	call_fini(&a.c);
	sem_post(&t.gone);
	down();
}

/* Whoever has them again can tell what the agent may have done from what it cannot have got. */
static void what_was_not_sent_is_known(void)
{
	static uint8_t data[1 << 20];
	struct ask a, large, b;

	up();
	ask(&a, PROTO_PING);
	next_request();
	memset(&large, 0, sizeof(large));
	call_begin(&large.c, PROTO_WRITE, 1, 2);
	wire_bytes(&large.c.frame, data, sizeof(data));
	large.c.done = ask_done;
	CHECK(channel_send(t.ch, &large.c) == 0);
	CHECK(large.c.sent && large.c.sent < large.c.frame.len); /* more than a socket takes */
	ask(&b, PROTO_PING);
	shutdown(t.fd, SHUT_RDWR);
	wait_sem(&t.gone);
	CHECK(t.lost == 3 && t.lost_unsent == 2);
	CHECK(try_ask(&a, PROTO_PING) == -EPIPE && !call_was_sent(&a.c));
	call_fini(&a.c);
	sem_post(&t.gone);
	down();
}

static int give_close(uint64_t fh)
{
	struct call *c;
	struct buf b;
	int r;

	buf_init(&b, PROTO_HEAD + 8);
	proto_begin(&b, PROTO_CLOSE, 0, 0, 0, 0);
	wire_u64(&b, fh);
	c = oneway_new(&b);
	CHECK(c);
	r = channel_give(t.ch, c);
	if (r < 0)
		oneway_free(c);
	buf_fini(&b);
	return r;
}

/* A one-way frame has come when a request is answered that was sent after it; the others are
 * handed back when the connection ends. */
static void what_was_given_is_owed_until_it_has_come(void)
{
	struct proto_head before, after;
	struct ask a, b, c;

	up();
	ask(&a, PROTO_PING);
	before = next_request();
	CHECK(give_close(1) == 0 && next_request().type == PROTO_CLOSE);
	ask(&b, PROTO_PING);
	after = next_request();
	CHECK(give_close(2) == 0 && next_request().type == PROTO_CLOSE);
	answer(PROTO_PING | PROTO_REPLY, 0, after.id, "");
	wait_sem(&t.answered);
	CHECK(give_close(3) == 0 && next_request().type == PROTO_CLOSE);
	answer(PROTO_PING | PROTO_REPLY, 0, before.id, ""); /* says nothing of 2 and 3 */
	wait_sem(&t.answered);
	stalled = true;
	ask(&c, PROTO_PING);
	CHECK(give_close(4) == 0); /* not even sent */
	channel_cancel(t.ch, &c.c);
	shutdown(t.fd, SHUT_RDWR);
	wait_sem(&t.gone);
	stalled = false;
	CHECK(t.owed == 3 && t.lost == 1);
	CHECK(t.owed_byte[0] == 2 && t.owed_byte[1] == 3 && t.owed_byte[2] == 4);
	CHECK(give_close(5) == -EPIPE);
	sem_post(&t.gone);
	down();
}

/* An agent that answers nothing for long costs bounded memory. */
static void not_all_is_owed(void)
{
	enum { MANY = 20000 };

	up();
	for (int i = 0; i < MANY; i++) {
		CHECK(give_close(1) == 0);
		next_request();
	}
	shutdown(t.fd, SHUT_RDWR);
	wait_sem(&t.gone);
	CHECK(t.owed > 100 && t.owed < MANY / 2);
	sem_post(&t.gone);
	down();
}

static void cancel_names_the_request(void)
{
	struct proto_head asked, cancel;
	struct ask a;

	up();
	ask(&a, PROTO_JOB_WAIT);
	asked = next_request();
	channel_cancel(t.ch, &a.c);
	cancel = next_request();
	CHECK(cancel.type == PROTO_CANCEL && cancel.id == 0 && cancel.len == 8);
	answer(PROTO_JOB_WAIT | PROTO_REPLY, EINTR, asked.id, "");
	wait_sem(&t.answered);
	CHECK(a.err == -EINTR);
	down();
}

static void *many(void *arg)
{
	struct ask *a = arg;

	for (int i = 0; i < 200; i++)
		ask(&a[i], PROTO_PING);
	return NULL;
}

static void many_threads_may_send(void)
{
	static struct ask a[4][200];
	pthread_t th[4];

	up();
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&th[i], NULL, many, a[i]) == 0);
	for (int i = 0; i < 800; i++)
		answer(PROTO_PING | PROTO_REPLY, 0, next_request().id, "");
	for (int i = 0; i < 800; i++)
		wait_sem(&t.answered);
	for (int i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	down();
}

int main(void)
{
	TEST(asks_and_is_answered);
	TEST(answers_may_come_in_any_order);
	TEST(no_more_than_the_limit_is_outstanding);
	TEST(a_slow_agent_is_understood);
	TEST(errno_is_never_what_harms);
	TEST(lies_end_the_connection);
	TEST(a_malformed_body_ends_the_connection);
	TEST(an_answer_before_the_question_ends_the_connection);
	TEST(large_requests_arrive_whole);
	TEST(bulk_waits_for_all_else);
	TEST(what_was_refused_is_offered_again);
	TEST(an_end_in_a_frame_loses_the_call);
	TEST(what_was_not_sent_is_known);
	TEST(what_was_given_is_owed_until_it_has_come);
	TEST(not_all_is_owed);
	TEST(cancel_names_the_request);
	TEST(many_threads_may_send);
	return check_done();
}
