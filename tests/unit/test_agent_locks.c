/* SPDX-License-Identifier: MIT */
/* Locks through the real protocol: against each other, and against processes beside the agent, of
 * which this test is one. */
#include "test_agent_files.h"

#include <dirent.h>
#include <poll.h>
#include <sys/file.h>

#define RW  (PROTO_O_READ | PROTO_O_WRITE)
#define END INT64_MAX
#define R   PROTO_LOCK_READ
#define W   PROTO_LOCK_WRITE
#define U   PROTO_LOCK_NONE

/* A lock is passed on at once: in one of so many tries, as the machine may stall. */
#define TRIES	  50
#define AT_ONCE_S 0.1

static struct agent a;
static struct client c, d; /* two daemons */
static uint64_t next_node = 1000, next_fh = 1;
static unsigned at_rest; /* the agent's threads when nobody waits */

static char *path(const char *name)
{
	return ws_path(&a, name);
}

/* Opens a file as a new handle of that client's; makes it if it must. */
static uint64_t open_as(struct client *who, const char *name, uint32_t flags)
{
	uint64_t node = next_node++, fh = next_fh++;
	struct proto_attr attr;
	int fd = open(path(name), O_RDWR | O_CREAT, 0666);

	CHECK(fd >= 0);
	close(fd);
	chmod(path(name), 0666);
	CHECK(do_lookup(who, 2, name, node, &attr) == 0);
	CHECK(do_open(who, node, fh, flags) == 0);
	return fh;
}

/* The next reply must be that one's; its error. */
static int answer_to(struct client *who, uint64_t id)
{
	CHECK(client_recv(who));
	CHECK(who->head.id == id);
	if (!who->head.error)
		CHECK(wire_end(&who->in));
	return who->head.error;
}

static int lock(struct client *who, uint64_t fh, uint64_t owner, uint32_t type, uint64_t start,
	uint64_t end)
{
	return answer_to(who, send_lock(who, fh, owner, type, start, end, 0));
}

static int flock_as(struct client *who, uint64_t fh, uint32_t type)
{
	return answer_to(who, send_flock(who, fh, type, 0));
}

static uint64_t send_drop(struct client *who, uint64_t fh, uint64_t owner)
{
	struct buf b;
	size_t at = client_begin(who, &b, PROTO_LOCK_DROP);

	wire_u64(&b, fh);
	wire_u64(&b, owner);
	client_send(who, &b, at);
	return who->next_id;
}

static int drop(struct client *who, uint64_t fh, uint64_t owner)
{
	return answer_to(who, send_drop(who, fh, owner));
}

static struct proto_lock test(struct client *who, uint64_t fh, uint64_t owner, uint32_t type,
	uint64_t start, uint64_t end)
{
	struct buf b;
	size_t at = client_begin(who, &b, PROTO_LOCK_TEST);
	struct proto_lock l;

	wire_u64(&b, fh);
	wire_u64(&b, owner);
	proto_put_lock(&b, &(struct proto_lock){.type = type, .start = start, .end = end});
	CHECK(client_call(who, &b, at) == 0);
	proto_get_lock(&who->in, &l);
	CHECK(wire_end(&who->in));
	return l;
}

static void cancel(struct client *who, uint64_t id)
{
	struct buf b;
	size_t at;

	buf_init(&b, PROTO_HEAD + 64);
	at = proto_begin(&b, PROTO_CANCEL, 0, 0, 0, 0);
	wire_u64(&b, id);
	client_send(who, &b, at);
}

/* Whatever was sent before has been dealt with. */
static void ping(struct client *who)
{
	struct buf b;
	size_t at = client_begin(who, &b, PROTO_PING);

	CHECK(client_call(who, &b, at) == 0);
}

static bool answered(struct client *who, int ms)
{
	struct pollfd p = {.fd = who->fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* This process as one beside the agent: a POSIX lock on a descriptor, at once. */
static bool mine(int fd, short type, off_t start, off_t len)
{
	struct flock fl = {.l_type = type, .l_start = start, .l_len = len};

	return fcntl(fd, F_SETLK, &fl) == 0;
}

static unsigned threads(void)
{
	char dir[64];
	unsigned n = 0;
	DIR *t;

	snprintf(dir, sizeof(dir), "/proc/%d/task", a.pid);
	t = opendir(dir);
	CHECK(t);
	while (readdir(t))
		n++;
	closedir(t);
	return n - 2;
}

/* Is it one that only stands for a file? Those are a cache, of what was looked up. */
static bool is_path(const char *name)
{
	char path[64], line[64];
	unsigned flags = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.20s", a.pid, name);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "flags: %o", &flags) != 1)
		;
	if (f)
		fclose(f);
	return flags & O_PATH;
}

static unsigned fds(void)
{
	char dir[64];
	unsigned n = 0;
	struct dirent *e;
	DIR *t;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", a.pid);
	t = opendir(dir);
	CHECK(t);
	while ((e = readdir(t)))
		n += !is_path(e->d_name);
	closedir(t);
	return n;
}

/* Every pair of kinds, of two owners in a session and of two sessions. */
static void conflicts(void)
{
	uint64_t f = open_as(&c, "pairs", RW), g = open_as(&d, "pairs", RW);

	for (uint32_t have = R; have <= W; have++)
		for (uint32_t want = R; want <= W; want++) {
			int result = have == R && want == R ? 0 : EAGAIN;

			CHECK(lock(&c, f, 1, have, 10, 19) == 0);
			CHECK(lock(&c, f, 2, want, 19, 19) == result);
			CHECK(lock(&c, f, 2, want, 20, 29) == 0);
			CHECK(lock(&c, f, 2, want, 0, 9) == 0);
			CHECK(lock(&d, g, 1, want, 15, 15) == result); /* the number is theirs */
			CHECK(lock(&d, g, 1, want, 0, END) == result);
			/* Again, by who has it. */
			CHECK(lock(&c, f, 1, have, 12, 13) == 0);
			CHECK(drop(&d, g, 1) == 0);
			CHECK(lock(&c, f, 2, U, 0, END) == 0);
			CHECK(drop(&c, f, 1) == 0);
			CHECK(lock(&d, g, 1, W, 0, END) == 0);
			CHECK(lock(&d, g, 1, U, 0, END) == 0);
		}
	do_close(&c, f);
	do_close(&d, g);
}

static void ranges_split_and_merge(void)
{
	uint64_t f = open_as(&c, "ranges", RW);
	struct proto_lock l;

	CHECK(lock(&c, f, 1, W, 0, 99) == 0);
	CHECK(lock(&c, f, 1, U, 40, 59) == 0); /* a hole */
	CHECK(lock(&c, f, 2, W, 40, 59) == 0);
	CHECK(lock(&c, f, 2, W, 39, 39) == EAGAIN && lock(&c, f, 2, W, 60, 60) == EAGAIN);
	CHECK(lock(&c, f, 2, U, 40, 59) == 0);
	CHECK(lock(&c, f, 1, R, 20, 79) == 0); /* weaker in the middle */
	CHECK(lock(&c, f, 2, R, 20, 79) == 0);
	CHECK(lock(&c, f, 2, R, 19, 19) == EAGAIN && lock(&c, f, 2, R, 80, 80) == EAGAIN);
	l = test(&c, f, 3, W, 30, 30);
	CHECK(l.type == R && l.start == 20 && l.end == 79 && l.pid == 0);
	CHECK(lock(&c, f, 2, U, 0, END) == 0);
	CHECK(lock(&c, f, 1, W, 10, 89) == 0); /* and one again */
	l = test(&c, f, 3, R, 50, 50);
	CHECK(l.type == W && l.start == 0 && l.end == 99);
	l = test(&c, f, 3, R, 100, END);
	CHECK(l.type == U);
	l = test(&c, f, 1, W, 0, END); /* its own is in nobody's way */
	CHECK(l.type == U);
	CHECK(lock(&c, f, 1, R, 5, END) == 0);
	l = test(&c, f, 3, W, 1000, 2000);
	CHECK(l.type == R && l.start == 5 && l.end == END);
	CHECK(lock(&c, f, 2, R, INT64_MAX - 1, END) == 0);
	CHECK(lock(&c, f, 2, W, INT64_MAX - 1, END) == EAGAIN);
	do_close(&c, f);
}

static void inside_and_outside(void)
{
	uint64_t f = open_as(&c, "both", RW);
	int fd = open(path("both"), O_RDWR);
	struct flock fl = {.l_type = F_WRLCK, .l_start = 5, .l_len = 1};
	struct proto_lock l;

	CHECK(mine(fd, F_WRLCK, 0, 10));
	CHECK(lock(&c, f, 1, R, 9, 9) == EAGAIN && lock(&c, f, 1, R, 10, 10) == 0);
	l = test(&c, f, 1, R, 0, END);
	CHECK(l.type == W && l.start == 0 && l.end == 9 && l.pid == (uint32_t)getpid());
	CHECK(!mine(fd, F_WRLCK, 10, 1) && mine(fd, F_RDLCK, 10, 1));
	CHECK(lock(&c, f, 1, W, 10, 10) == EAGAIN);
	CHECK(mine(fd, F_UNLCK, 0, 0) && lock(&c, f, 1, W, 0, 10) == 0);
	CHECK(fcntl(fd, F_GETLK, &fl) == 0 && fl.l_type == F_WRLCK && fl.l_start == 0 &&
		fl.l_len == 11);
	CHECK(drop(&c, f, 1) == 0 && mine(fd, F_WRLCK, 0, 0));
	close(fd);
	do_close(&c, f);
}

static void rights_of_the_handle(void)
{
	uint64_t ro = open_as(&c, "modes", PROTO_O_READ), wo = open_as(&c, "modes", PROTO_O_WRITE);
	uint64_t dir = next_fh++;
	struct buf b;
	size_t at;

	CHECK(lock(&c, ro, 1, W, 0, 1) == EBADF && lock(&c, ro, 1, R, 0, 1) == 0);
	CHECK(lock(&c, wo, 2, R, 0, 1) == EBADF && lock(&c, wo, 2, W, 5, 6) == 0);
	CHECK(lock(&c, 999999, 1, R, 0, 1) == EBADF && drop(&c, 999999, 1) == EBADF);
	CHECK(flock_as(&c, 999999, R) == EBADF);
	CHECK(flock_as(&c, ro, W) == 0 && flock_as(&c, wo, R) == EAGAIN); /* flock asks for none */
	at = client_begin(&c, &b, PROTO_OPENDIR);
	wire_u64(&b, 2);
	wire_u64(&b, dir);
	CHECK(client_call(&c, &b, at) == 0);
	CHECK(lock(&c, dir, 1, R, 0, 1) == EBADF && flock_as(&c, dir, W) == 0);
	do_close(&c, dir);
	do_close(&c, ro);
	do_close(&c, wo);
}

/* One owner with a handle that reads and one that writes: its two descriptions are one holder. */
static void upgrade_over_two_handles(void)
{
	uint64_t ro = open_as(&c, "up", PROTO_O_READ), rw = open_as(&c, "up", RW);
	uint64_t other = open_as(&d, "up", RW), id;

	CHECK(lock(&c, ro, 1, R, 0, 99) == 0);
	CHECK(test(&c, rw, 1, W, 0, END).type == U);
	CHECK(lock(&c, rw, 1, W, 10, 19) == 0); /* up, in the middle */
	CHECK(lock(&d, other, 1, R, 0, 9) == 0 && lock(&d, other, 1, R, 10, 10) == EAGAIN);
	CHECK(lock(&c, rw, 1, W, 0, 9) == EAGAIN); /* and it still has the read lock */
	CHECK(lock(&d, other, 1, W, 0, 9) == EAGAIN);
	CHECK(test(&d, other, 1, W, 0, 9).type == R);
	CHECK(lock(&c, ro, 1, R, 10, 19) == 0); /* down again, through the one that reads */
	CHECK(lock(&d, other, 1, R, 0, 99) == 0);
	CHECK(lock(&c, ro, 1, U, 0, 49) == 0); /* either handle unlocks both */
	CHECK(lock(&d, other, 1, W, 0, 49) == 0 && lock(&d, other, 1, W, 50, 50) == EAGAIN);
	/* An upgrade that waits, and is given up. */
	CHECK(lock(&d, other, 1, U, 0, END) == 0 && lock(&d, other, 1, R, 50, 59) == 0);
	id = send_lock(&c, rw, 1, W, 50, 59, 1);
	ping(&d);
	CHECK(!answered(&c, 50));
	cancel(&c, id);
	CHECK(answer_to(&c, id) == EINTR);
	CHECK(lock(&d, other, 1, W, 50, 50) == EAGAIN); /* it has its read lock back */
	id = send_lock(&c, rw, 1, W, 50, 59, 1);
	CHECK(!answered(&c, 50));
	CHECK(lock(&d, other, 1, U, 50, 59) == 0 && answer_to(&c, id) == 0);
	CHECK(test(&d, other, 1, R, 55, 55).type == W);
	CHECK(drop(&c, ro, 1) == 0 && lock(&d, other, 1, W, 0, END) == 0);
	do_close(&c, ro);
	do_close(&c, rw);
	do_close(&d, other);
}

static void waits_until_released(void)
{
	uint64_t f = open_as(&c, "wait", RW), g = open_as(&d, "wait", RW), id;
	int fd = open(path("wait"), O_RDWR);
	bool quick = false;
	double t;

	for (int i = 0; !quick; i++) {
		CHECK(i < TRIES);
		CHECK(lock(&d, g, 7, W, 0, 9) == 0);
		id = send_lock(&c, f, 1, W, 5, 15, 1);
		CHECK(!answered(&c, 100));
		CHECK(lock(&d, g, 7, U, 0, 4) == 0 && !answered(&c, 50));
		t = seconds();
		CHECK(lock(&d, g, 7, U, 5, 9) == 0);
		CHECK(answer_to(&c, id) == 0);
		quick = seconds() - t < AT_ONCE_S;
		CHECK(!mine(fd, F_RDLCK, 10, 1));
		CHECK(lock(&c, f, 1, U, 0, END) == 0);
	}
	/* A process beside the agent has it, and ends its lock. */
	quick = false;
	for (int i = 0; !quick; i++) {
		CHECK(i < TRIES);
		CHECK(mine(fd, F_WRLCK, 100, 1));
		id = send_lock(&c, f, 1, R, 100, 100, 1);
		CHECK(!answered(&c, 50));
		t = seconds();
		CHECK(mine(fd, F_UNLCK, 100, 1));
		CHECK(answer_to(&c, id) == 0);
		quick = seconds() - t < AT_ONCE_S;
		CHECK(lock(&c, f, 1, U, 0, END) == 0);
	}
	/* One that need not wait does not. */
	id = send_lock(&c, f, 1, W, 200, 210, 1);
	CHECK(answer_to(&c, id) == 0);
	close(fd);
	do_close(&c, f);
	do_close(&d, g);
}

static void cancelled_waits_leave_nothing(void)
{
	uint64_t f = open_as(&c, "cancel", RW), g = open_as(&d, "cancel", RW), id;

	CHECK(lock(&d, g, 1, W, 0, 9) == 0 && flock_as(&d, g, W) == 0);
	CHECK_SOON(threads() == at_rest);
	id = send_lock(&c, f, 1, W, 0, 0, 1);
	CHECK(!answered(&c, 50));
	CHECK_SOON(threads() == at_rest + 1);
	cancel(&c, 424242);
	cancel(&c, id);
	CHECK(answer_to(&c, id) == EINTR);
	CHECK_SOON(threads() == at_rest);
	id = send_flock(&c, f, R, 1);
	CHECK(!answered(&c, 50));
	cancel(&d, id); /* another's number */
	ping(&d);
	CHECK(!answered(&c, 50));
	cancel(&c, id);
	CHECK(answer_to(&c, id) == EINTR);
	CHECK_SOON(threads() == at_rest);
	CHECK(drop(&d, g, 1) == 0 && lock(&d, g, 1, W, 0, END) == 0);
	CHECK(flock_as(&d, g, U) == 0 && flock_as(&d, g, W) == 0);
	CHECK(!answered(&c, 50));
	/* Cancel and unlock at the same moment, in both orders: one answer, and what it says is so.
	 */
	CHECK(drop(&d, g, 1) == 0);
	for (int i = 0; i < 300; i++) {
		int error;

		CHECK(lock(&d, g, 1, W, 0, 9) == 0);
		id = send_lock(&c, f, 1, W, 3, 3, 1);
		if (i % 3 == 0)
			ping(&d);
		if (i % 2)
			cancel(&c, id);
		CHECK(lock(&d, g, 1, U, 0, 9) == 0);
		if (i % 2 == 0)
			cancel(&c, id);
		error = answer_to(&c, id);
		CHECK(error == 0 || error == EINTR);
		CHECK(lock(&d, g, 1, W, 3, 3) == (error ? 0 : EAGAIN));
		CHECK(lock(&c, f, 1, U, 3, 3) == 0);
		CHECK(lock(&d, g, 1, U, 0, 9) == 0);
	}
	CHECK_SOON(threads() == at_rest);
	do_close(&c, f);
	do_close(&d, g);
}

static void closing_ends_locks_and_waits(void)
{
	uint64_t f = open_as(&c, "close", RW), f2 = open_as(&c, "close", RW);
	uint64_t g = open_as(&d, "close", RW), id, id2;
	unsigned n_fds = fds();

	/* A description of the host's: locked through one handle, it ends with that. */
	CHECK(lock(&c, f, 1, W, 0, 9) == 0 && flock_as(&c, f, W) == 0);
	CHECK(lock(&d, g, 1, W, 0, 9) == EAGAIN && flock_as(&d, g, R) == EAGAIN);
	do_close(&c, f);
	ping(&c);
	CHECK(lock(&d, g, 1, W, 0, 9) == 0 && flock_as(&d, g, W) == 0);
	CHECK(drop(&d, g, 1) == 0);
	/* A process of the host's: it has two handles, and has dropped its locks at the first
	 * close. The late CLOSE of that must not touch what it locked since. */
	f = open_as(&c, "close", RW);
	CHECK(lock(&c, f, 1, W, 0, 9) == 0 && drop(&c, f, 1) == 0);
	CHECK(lock(&c, f2, 1, W, 0, 9) == 0);
	do_close(&c, f);
	ping(&c);
	CHECK(lock(&d, g, 1, W, 0, 9) == EAGAIN);
	/* Locked through both: the end of one is not the end of the process. */
	f = open_as(&c, "close", RW);
	CHECK(lock(&c, f, 1, W, 20, 29) == 0);
	do_close(&c, f2);
	ping(&c);
	CHECK(lock(&d, g, 1, W, 0, 9) == EAGAIN);
	CHECK(drop(&c, f, 1) == 0 && lock(&d, g, 1, W, 0, 99) == 0);
	/* Waits. */
	id = send_lock(&c, f, 1, W, 0, 9, 1);
	id2 = send_flock(&c, f, W, 1);
	CHECK(!answered(&c, 50));
	do_close(&c, f);
	CHECK(client_recv(&c) && (c.head.id == id || c.head.id == id2) && c.head.error == EBADF);
	id = c.head.id == id ? id2 : id;
	CHECK(answer_to(&c, id) == EBADF);
	f = open_as(&c, "close", RW);
	id = send_lock(&c, f, 1, W, 0, 9, 1);
	CHECK(!answered(&c, 50));
	id2 = send_drop(&c, f, 1);
	for (int i = 0; i < 2; i++) {
		CHECK(client_recv(&c));
		CHECK(c.head.id == id ? c.head.error == EINTR
				      : c.head.id == id2 && c.head.error == 0);
	}
	do_close(&c, f);
	do_close(&d, g);
	ping(&c);
	ping(&d);
	CHECK_SOON(fds() == n_fds - 3);
}

static void lost_connections(void)
{
	struct client e, e2;
	struct proto_hello h = {0};
	uint64_t f, f2, f3, other, g = open_as(&d, "lost", RW), id;
	uint32_t done;
	double t;

	/* One that comes back at once has its locks; its waits are gone. */
	client_open(&e, &a, "leaver");
	f = open_as(&e, "lost", RW);
	CHECK(lock(&e, f, 1, W, 0, 9) == 0 && flock_as(&e, f, W) == 0);
	CHECK(lock(&d, g, 1, W, 100, 109) == 0);
	send_lock(&e, f, 1, W, 100, 109, 1);
	CHECK(!answered(&e, 50));
	CHECK_SOON(threads() == at_rest + 1);
	client_close(&e);
	CHECK_SOON(threads() == at_rest);
	CHECK(client_hello(&e2, &a, "leaver", &h) == 0 && h.resumed);
	proto_hello_fini(&h);
	CHECK(lock(&d, g, 1, W, 0, 9) == EAGAIN && flock_as(&d, g, W) == EAGAIN);
	CHECK(lock(&d, g, 1, U, 100, 109) == 0 && lock(&d, g, 1, W, 100, 109) == 0);
	CHECK(lock(&e2, f, 1, W, 0, 20) == 0 && drop(&e2, f, 1) == 0);
	CHECK(lock(&d, g, 1, W, 0, 9) == 0 && lock(&d, g, 1, U, 0, 9) == 0);
	CHECK(lock(&e2, f, 1, W, 0, 9) == 0);
	/* The file is open twice more, and locked through one of these too. */
	f2 = open_as(&e2, "lost", RW);
	f3 = open_as(&e2, "lost", RW);
	other = open_as(&e2, "lost2", RW);
	CHECK(lock(&e2, f2, 1, W, 10, 19) == 0 && lock(&e2, other, 1, W, 0, 9) == 0);
	CHECK(lock(&e2, other, 1, U, 0, 9) == 0);
	/* One that does not keeps them for ten seconds. */
	t = seconds();
	client_close(&e2);
	CHECK(lock(&d, g, 1, W, 0, 9) == EAGAIN);
	id = send_lock(&d, g, 1, W, 0, 9, 1);
	CHECK(answer_to(&d, id) == 0 && seconds() - t > 9 && seconds() - t < 40);
	CHECK(flock_as(&d, g, W) == 0);
	/* It must not go on as if it still had them, by whatever descriptor. */
	CHECK(client_hello(&e, &a, "leaver", &h) == 0 && h.resumed);
	proto_hello_fini(&h);
	CHECK(do_write(&e, f, 0, "x", 1, &done) == EBADF);
	CHECK(do_write(&e, f2, 0, "x", 1, &done) == EBADF);
	CHECK(do_write(&e, f3, 0, "x", 1, &done) == EBADF);
	CHECK(do_write(&e, other, 0, "x", 1, &done) == 0);
	f = open_as(&e, "lost", RW);
	CHECK(lock(&e, f, 1, W, 0, 9) == EAGAIN && flock_as(&e, f, R) == EAGAIN);
	client_close(&e);
	do_close(&d, g);
}

static void flocks(void)
{
	uint64_t f = open_as(&c, "fl", PROTO_O_READ), f2 = open_as(&c, "fl", RW), id;
	uint64_t g = open_as(&d, "fl", PROTO_O_WRITE);
	int fd = open(path("fl"), O_RDONLY);
	bool quick = false;
	double t;

	CHECK(flock_as(&c, f, R) == 0 && flock_as(&c, f2, R) == 0 && flock_as(&d, g, R) == 0);
	CHECK(flock(fd, LOCK_EX | LOCK_NB) < 0 && flock(fd, LOCK_SH | LOCK_NB) == 0);
	CHECK(flock(fd, LOCK_UN) == 0);
	CHECK(flock_as(&c, f2, U) == 0 && flock_as(&d, g, U) == 0);
	CHECK(flock_as(&c, f, W) == 0); /* up */
	CHECK(flock_as(&c, f2, R) == EAGAIN && flock(fd, LOCK_SH | LOCK_NB) < 0);
	CHECK(lock(&c, f2, 1, W, 0, END) == 0); /* the two kinds do not meet */
	CHECK(flock_as(&c, f, R) == 0 && flock(fd, LOCK_SH | LOCK_NB) == 0); /* down */
	for (int i = 0; !quick; i++) {
		CHECK(i < TRIES);
		id = send_flock(&c, f2, W, 1);
		CHECK(!answered(&c, 50));
		CHECK(flock_as(&d, g, U) == 0 && flock(fd, LOCK_UN) == 0);
		CHECK(!answered(&c, 50));
		t = seconds();
		do_close(&c, f);
		CHECK(answer_to(&c, id) == 0);
		quick = seconds() - t < AT_ONCE_S;
		f = open_as(&c, "fl", PROTO_O_READ);
		CHECK(flock_as(&c, f2, U) == 0 && flock_as(&c, f, R) == 0);
	}
	do_close(&c, f);
	do_close(&c, f2);
	do_close(&d, g);
	close(fd);
}

/* 256 wait; the rest is told so, in words; all that waited is served, one after another. */
static void many_waits(void)
{
	uint64_t f = open_as(&c, "many", RW), g = open_as(&d, "many", RW);
	unsigned waiting = 0, refused = 0;
	uint64_t first = 0, last = 0;

	CHECK(lock(&d, g, 1, W, 0, 9) == 0);
	for (unsigned i = 0; i < 300; i++) {
		last = send_lock(&c, f, 10 + i, W, 0, 0, 1);
		first = first ? first : last;
	}
	for (unsigned i = 0; i < 44; i++) {
		CHECK(client_recv(&c));
		CHECK(c.head.error == ENOLCK && c.head.id >= first && c.head.id <= last);
		CHECK(memmem(c.frame.data, c.frame.len, "256", 3));
		refused++;
	}
	CHECK(!answered(&c, 100));
	CHECK_SOON(threads() == at_rest + 256);
	CHECK(lock(&d, g, 1, U, 0, 9) == 0);
	while (waiting < 256) {
		CHECK(client_recv(&c) && c.head.error == 0);
		if (c.head.type != (PROTO_LOCK | PROTO_REPLY))
			continue;
		waiting++;
		/* That one lets the next have it. */
		send_drop(&c, f, 10 + c.head.id - first);
	}
	ping(&d);
	CHECK(client_recv(&c) && c.head.type == (PROTO_LOCK_DROP | PROTO_REPLY));
	CHECK_SOON(threads() == at_rest);
	CHECK(lock(&d, g, 1, W, 0, END) == 0);
	CHECK(refused == 44);
	do_close(&c, f);
	do_close(&d, g);
}

static void malformed(void)
{
	uint64_t f = open_as(&c, "bad", RW);
	struct buf b;
	size_t at;

	CHECK(lock(&c, f, 1, 3, 0, 1) == EINVAL);
	CHECK(lock(&c, f, 1, R, 5, 4) == EINVAL);
	CHECK(lock(&c, f, 1, R, 0, (uint64_t)INT64_MAX + 1) == EINVAL);
	CHECK(answer_to(&c, send_lock(&c, f, 1, R, 0, 1, 2)) == EINVAL);
	CHECK(flock_as(&c, f, 3) == EINVAL);
	at = client_begin(&c, &b, PROTO_LOCK_TEST);
	wire_u64(&b, f);
	wire_u64(&b, 1);
	proto_put_lock(&b, &(struct proto_lock){.type = U, .end = 1});
	CHECK(client_call(&c, &b, at) == EINVAL);
	do_close(&c, f);
}

/* The file may be gone by name, and the caller without the right to open it again. */
static void file_without_a_name(void)
{
	uint64_t f = open_as(&c, "gone", RW), f2 = open_as(&c, "gone", PROTO_O_READ);

	CHECK(chmod(path("gone"), 0) == 0 && unlink(path("gone")) == 0);
	CHECK(lock(&c, f, 1, W, 0, 9) == 0 && lock(&c, f2, 2, R, 0, 0) == EAGAIN);
	CHECK(lock(&c, f2, 2, R, 10, 10) == 0);
	do_close(&c, f);
	do_close(&c, f2);
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "1234:4321");
	client_open(&c, &a, "one");
	client_open(&d, &a, "two");
	c.uid = d.uid = 1234;
	c.gid = d.gid = 4321;
	at_rest = threads();
	TEST(conflicts);
	TEST(ranges_split_and_merge);
	TEST(inside_and_outside);
	TEST(rights_of_the_handle);
	TEST(upgrade_over_two_handles);
	TEST(waits_until_released);
	TEST(cancelled_waits_leave_nothing);
	TEST(closing_ends_locks_and_waits);
	TEST(flocks);
	TEST(many_waits);
	TEST(malformed);
	TEST(file_without_a_name);
	TEST(lost_connections);
	client_close(&c);
	client_close(&d);
	agent_clean(&a);
	return check_done();
}
