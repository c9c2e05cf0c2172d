/* SPDX-License-Identifier: MIT */
/* What the agent says of changes: nothing that it told may become untrue unheard, and what the
 * daemon did itself is no news. */
#include "test_agent_watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/prctl.h>

static void files_and_names(void)
{
	unsigned long long f;
	struct proto_attr attr;

	put_file("f", "one");
	hear();
	f = look("f", &attr);
	CHECK(keeps(&attr) == PROTO_CACHE_ALL);
	CHECK(do_lookup(&c, 2, "none", next_node++, &attr) == ENOENT); /* cached: see do_lookup */
	CHECK(*hear() == 0);
	put_file("f", "two");
	hear();
	CHECK(did("data %llu, size 2 f", f));
	put_file("f", "three");
	CHECK(*hear() == 0); /* nothing was told since */
	CHECK(do_getattr(&c, f, 0, &attr) == 0 && attr.size == 5 &&
		keeps(&attr) == PROTO_CACHE_ALL);
	CHECK(chmod(path("f"), 0600) == 0);
	hear();
	CHECK(did("attr %llu, size 2 f", f));
	put_file("none", "");
	hear();
	CHECK(has("name 2 none"));
	CHECK(do_getattr(&c, f, 0, &attr) == 0);
	CHECK(rename(path("none"), path("f")) == 0);
	hear();
	CHECK(has("name 2 f") && has("name 2 none") && has("attr %llu", f));
	CHECK(do_getattr(&c, f, 0, &attr) == ESTALE);
	CHECK(unlink(path("f")) == 0);
	hear();
	CHECK(has("name 2 f"));
}

static void own_operations_are_no_news(void)
{
	uint64_t dir = next_node++, file = next_node++, fh = next_fh++;
	struct proto_attr attr;
	uint32_t n;

	hear();
	CHECK(do_make(&c, PROTO_MKDIR, 2, "d", dir, 0755) == 0);
	CHECK(do_create(&c, dir, "x", file, fh, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(keeps(&attr) == PROTO_CACHE_ALL);
	CHECK(do_write(&c, fh, 0, "hello", 5, &n) == 0);
	CHECK(do_setattr(&c, file, 0,
		      &(struct proto_setattr){.mask = PROTO_SET_ATTR_MODE, .mode = 0600},
		      &attr) == 0);
	CHECK(do_setattr(&c, file, fh,
		      &(struct proto_setattr){.mask = PROTO_SET_ATTR_SIZE, .size = 2}, &attr) == 0);
	do_close(&c, fh);
	CHECK(hears_nothing_of(dir) && hears_nothing_of(file));
	CHECK(do_rename(&c, dir, "x", 2, "y", 0) == 0);
	CHECK(do_getattr(&c, file, 0, &attr) == 0 && attr.size == 2);
	CHECK(do_remove(&c, PROTO_UNLINK, 2, "y") == 0);
	CHECK(do_remove(&c, PROTO_RMDIR, 2, "d") == 0);
	hear();
	CHECK(!strstr(heard, "name"));
	/* But what others did before our own is not forgotten over it. */
	put_file("z", "1111");
	CHECK(chown(path("z"), 1234, 4321) == 0);
	CHECK(do_lookup(&c, 2, "z", file = next_node++, &attr) == 0);
	CHECK(do_open(&c, file, fh = next_fh++, PROTO_O_WRITE) == 0);
	put_file("z", "2222");
	CHECK(do_setattr(&c, file, 0,
		      &(struct proto_setattr){.mask = PROTO_SET_ATTR_MODE, .mode = 0600},
		      &attr) == 0);
	hear();
	CHECK(has("data %llu", (unsigned long long)file));
	do_close(&c, fh);
}

static atomic_int write_now; /* what the other thread is to write; 0: it has; -1: the end */

static void *write_bytes(void *arg)
{
	int fd = *(int *)arg, v;

	while ((v = write_now) >= 0) {
		if (!v)
			continue;
		for (volatile int i = rand() % 30000; i > 0; i--)
			;
		if (pwrite(fd, &v, sizeof(v), 0) != sizeof(v))
			break;
		atomic_compare_exchange_strong(&write_now, &v, 0);
	}
	return NULL;
}

static bool reads(uint64_t fh, int *v)
{
	const uint8_t *p;
	size_t n;

	if (do_read(&c, fh, 0, sizeof(*v), &p, &n) != 0 || n != sizeof(*v))
		return false;
	memcpy(v, p, n);
	return true;
}

/* Sets the mode, or the times, while the other writes k. */
static bool set_beside(uint64_t f, int k)
{
	struct proto_setattr chmod_it = {.mask = PROTO_SET_ATTR_MODE, .mode = 0600};
	struct proto_setattr touch_it = {
		.mask = PROTO_SET_ATTR_MTIME, .mtime = {.sec = 1000000000}};
	struct proto_attr attr;
	bool ok = true;

	write_now = k;
	for (int i = 0; i < 2; i++)
		ok = ok && do_setattr(&c, f, 0, k % 2 ? &touch_it : &chmod_it, &attr) == 0;
	while (write_now > 0)
		;
	return ok;
}

/* Whenever another writes, also while we set the file's mode or times: it is heard. */
static void written_beside_our_own(void)
{
	int fd = open(path("beside"), O_RDWR | O_CREAT | O_TRUNC, 0644), had = 1, k;
	uint64_t fh = next_fh++, f;
	struct proto_attr attr;
	pthread_t other;
	char data[32];
	bool kept = false, good = true;

	CHECK(fd >= 0 && pwrite(fd, &had, sizeof(had), 0) == sizeof(had));
	CHECK(fchown(fd, 1234, 4321) == 0);
	f = look("beside", &attr);
	snprintf(data, sizeof(data), "data %llu", (unsigned long long)f);
	CHECK(do_open(&c, f, fh, PROTO_O_READ | PROTO_O_WRITE) == 0);
	hear();
	write_now = 0;
	CHECK(pthread_create(&other, NULL, write_bytes, &fd) == 0);
	for (k = 2; k < 1500 && good; k++) {
		if (!kept) /* what a kernel does that must ask */
			good = do_getattr(&c, f, fh, &attr) == 0 && reads(fh, &had);
		good = good && set_beside(f, k);
		kept = !strstr(hear(), data);
		if (kept && had != k)
			break;
	}
	write_now = -1;
	pthread_join(other, NULL);
	close(fd);
	do_close(&c, fh);
	CHECK(good && k == 1500);
}

static uint32_t open_says(uint64_t node)
{
	uint64_t fh = next_fh++;
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_OPEN);
	uint32_t says;

	wire_u64(&b, node);
	wire_u64(&b, fh);
	wire_u32(&b, PROTO_O_READ);
	CHECK(client_call(&c, &b, at) == 0);
	says = wire_get_u32(&c.in);
	CHECK(wire_end(&c.in));
	do_close(&c, fh);
	return says;
}

static void bytes_that_may_be_kept(void)
{
	uint64_t own = next_node++, fh = next_fh++, other;
	struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	struct proto_attr attr;
	uint32_t n;

	CHECK(do_create(&c, 2, "own", own, fh, PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(do_write(&c, fh, 0, "hello", 5, &n) == 0);
	do_close(&c, fh);
	CHECK(open_says(own) == PROTO_OPENED_KEEP);
	put_file("own", "other");
	CHECK(open_says(own) == 0); /* and a mapping may be at work */
	CHECK(do_getattr(&c, own, 0, &attr) == 0);
	CHECK(open_says(own) == 0);
	put_file("old", "other");
	CHECK(utimensat(AT_FDCWD, path("old"), old, 0) == 0);
	hear();
	other = look("old", &attr);
	CHECK(open_says(other) == PROTO_OPENED_KEEP);
	hear();
}

static void several_links(void)
{
	unsigned long long f;
	struct proto_attr attr;

	put_file("l1", "x");
	CHECK(link(path("l1"), path("l2")) == 0);
	f = look("l1", &attr);
	CHECK(attr.nlink == 2 && keeps(&attr) == 0);
	hear();
	CHECK(unlink(path("l2")) == 0);
	hear();
	CHECK(has("name 2 l2"));
	CHECK(do_getattr(&c, f, 0, &attr) == 0 && attr.nlink == 1);
	CHECK(keeps(&attr) == PROTO_CACHE_ALL);
}

static void directories_are_watched_when_asked_for(void)
{
	unsigned long long d;
	struct proto_attr attr;

	CHECK(mkdir(path("dir"), 0755) == 0);
	d = look("dir", &attr);
	CHECK(keeps(&attr) == PROTO_CACHE_NAME);
	CHECK(do_getattr(&c, d, 0, &attr) == 0 && keeps(&attr) == PROTO_CACHE_ALL);
	hear();
	put_file("dir/in", "");
	hear();
	CHECK(has("name %llu in", d) && has("attr %llu", d));
	CHECK(do_lookup(&c, d, "in", next_node++, &attr) == 0);
	CHECK(keeps(&attr) == PROTO_CACHE_ALL);
	hear();
	CHECK(rename(path("dir"), path("moved")) == 0);
	hear();
	CHECK(has("name 2 dir") && has("name 2 moved"));
	/* It is followed, and still watched. */
	CHECK(do_getattr(&c, d, 0, &attr) == 0);
	CHECK(unlink(path("moved/in")) == 0);
	hear();
	CHECK(has("name %llu in", d));
	CHECK(rmdir(path("moved")) == 0);
	hear();
	CHECK(has("name 2 moved"));
}

/* Names that are kept are not looked up, so nobody asks whether they still may be. */
static void rights_of_a_directory(void)
{
	unsigned long long d;
	struct proto_attr attr;

	CHECK(mkdir(path("rights"), 0755) == 0);
	put_file("rights/in", "");
	d = look("rights", &attr);
	CHECK(do_lookup(&c, d, "in", next_node++, &attr) == 0);
	CHECK(do_getattr(&c, d, 0, &attr) == 0);
	hear();
	put_file("rights/other", "");
	hear();
	CHECK(!strstr(heard, " in"));
	CHECK(chmod(path("rights"), 0700) == 0);
	hear();
	CHECK(has("size %llu in", d));
	CHECK(do_lookup(&c, d, "in", next_node++, &attr) == EACCES);
}

static void a_job_is_a_barrier(void)
{
	unsigned long long f;
	struct proto_attr attr;
	struct proto_job j;
	uint64_t seq;

	put_file("job", "old");
	CHECK(chown(path("job"), 1234, 4321) == 0);
	hear();
	f = look("job", &attr);
	run_text(&c, "cd ../ws 2>/dev/null; echo new! > job", &j); /* waits for it */
	seq = proto_seq(&c.head);
	proto_job_fini(&j);
	CHECK(seq > told);
	hear();
	CHECK(has("data %llu", f));
	/* Closed after writing: told at the end whatever the stat, for the sake of mappings. */
	CHECK(do_getattr(&c, f, 0, &attr) == 0);
}

/* All that happened before the reply with that count, in `heard`: without a question that would
 * make the agent look at its events. */
static void hear_up_to(uint64_t seq)
{
	heard[0] = 0;
	while (told < seq) {
		ask(&c, told);
		CHECK(client_recv(&c) && c.head.id == c.next_id && c.head.error == 0);
		read_changes(&c);
	}
}

/* Granted after a wait or at once, of either kind: its reply counts what was done under the lock
 * before. */
static void a_lock_is_a_barrier(void)
{
	unsigned long long f, g, fh = next_fh++;
	struct proto_attr attr;
	char name[32];
	int fd;

	put_file("lock", "");
	put_file("under", "0000");
	put_file("beside", "");
	CHECK(chmod(path("lock"), 0666) == 0);
	CHECK(do_open(&c, look("lock", &attr), fh, PROTO_O_READ | PROTO_O_WRITE) == 0);
	f = look("under", &attr);
	g = look("beside", &attr);
	fd = open(path("lock"), O_RDWR);
	for (int i = 0; i < 200; i++) {
		struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		bool flocks = i % 2, waits = i % 4 < 2;
		uint64_t id = 0;

		CHECK(do_getattr(&c, f, 0, &attr) == 0 && do_getattr(&c, g, 0, &attr) == 0);
		snprintf(name, sizeof(name), "made%d", i);
		CHECK(do_lookup(&c, 2, name, next_node++, &attr) == ENOENT);
		hear();
		CHECK((flocks ? flock(fd, LOCK_EX) : fcntl(fd, F_SETLK, &fl)) == 0);
		if (waits)
			id = flocks ? send_flock(&c, fh, PROTO_LOCK_WRITE, 1)
				    : send_lock(&c, fh, 1, PROTO_LOCK_WRITE, 0, INT64_MAX, 1);
		put_file(name, "");
		CHECK(chmod(path("beside"), i % 2 ? 0600 : 0644) == 0);
		append_text(path("under"), "more");
		fl.l_type = F_UNLCK;
		CHECK((flocks ? flock(fd, LOCK_UN) : fcntl(fd, F_SETLK, &fl)) == 0);
		if (!waits)
			id = flocks ? send_flock(&c, fh, PROTO_LOCK_WRITE, 0)
				    : send_lock(&c, fh, 1, PROTO_LOCK_WRITE, 0, INT64_MAX, 0);
		CHECK(client_recv(&c) && c.head.id == id && c.head.error == 0);
		hear_up_to(proto_seq(&c.head));
		CHECK(has("data %llu", f) && has("attr %llu", g) && has("name 2 %s", name));
		id = flocks ? send_flock(&c, fh, PROTO_LOCK_NONE, 0)
			    : send_lock(&c, fh, 1, PROTO_LOCK_NONE, 0, INT64_MAX, 0);
		CHECK(client_recv(&c) && c.head.id == id && c.head.error == 0);
	}
	close(fd);
	do_close(&c, fh);
	hear();
}

static void nothing_is_lost_with_a_connection(void)
{
	struct client d;
	struct proto_hello h = {0};
	struct proto_attr attr;
	unsigned long long f;
	uint64_t was = told;

	put_file("lost", "1");
	client_open(&d, &a, "lost");
	CHECK(do_lookup(&d, 2, "lost", 5000, &attr) == 0);
	f = 5000;
	ask(&d, 0);
	put_file("lost", "22");
	CHECK(client_recv(&d) && d.head.error == 0); /* told, but we die before it is dealt with */
	client_close(&d);
	CHECK(client_hello(&d, &a, "lost", &h) == 0 && h.resumed);
	proto_hello_fini(&h);
	ask(&d, 0);
	CHECK(client_recv(&d) && d.head.error == 0);
	heard[0] = 0;
	read_changes(&d);
	CHECK(has("data %llu", f));
	/* A second question replaces the first. */
	ask(&d, told);
	ask(&d, told);
	CHECK(client_recv(&d) && d.head.id == d.next_id - 1 && d.head.error == EINTR);
	client_close(&d);
	told = was;
	hear();
}

static void too_many_are_all(void)
{
	uint64_t dir = next_node++;
	char name[32];

	CHECK(do_make(&c, PROTO_MKDIR, 2, "many", dir, 0777) == 0);
	hear();
	CHECK(do_lookup(&c, dir, "x", next_node++, &(struct proto_attr){0}) == ENOENT);
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		put_file(name, "");
	}
	hear();
	CHECK(has("all 0"));
	put_file("many/one more", "");
	hear();
	CHECK(did("name %llu one more", (unsigned long long)dir));
}

static void groups_of_the_caller(void)
{
	struct proto_attr attr;
	struct buf b;
	size_t at;

	put_file("g", "secret");
	CHECK(chown(path("g"), 0, 777) == 0 && chmod(path("g"), 0040) == 0);
	uint64_t f = look("g", &attr);

	CHECK(do_open(&c, f, next_fh++, PROTO_O_READ) == EACCES);
	buf_init(&b, 4096);
	at = proto_begin(&b, PROTO_OPEN, 2, ++c.next_id, c.uid, c.gid);
	wire_u32(&b, 776);
	wire_u32(&b, 777);
	wire_u64(&b, f);
	wire_u64(&b, next_fh++);
	wire_u32(&b, PROTO_O_READ);
	CHECK(client_call(&c, &b, at) == 0);
	CHECK(do_open(&c, f, next_fh++, PROTO_O_READ) == EACCES);
	hear();
}

/* Changes as fast as they are made keep nobody from being answered. */
static void a_busy_writer(void)
{
	struct proto_attr attr;
	pid_t writer[3];
	double t;
	int fd;

	put_file("busy", "x");
	look("busy", &attr);
	hear();
	for (int i = 0; i < 3; i++) {
		fflush(stdout);
		writer[i] = fork();
		if (writer[i])
			continue;
		fd = open(path("busy"), O_WRONLY);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (pwrite(fd, "y", 1, 0) == 1)
			;
		_exit(1);
	}
	t = seconds();
	for (int i = 0; i < 100; i++) {
		CHECK(do_open(&c, dummy, next_fh, PROTO_O_READ) == 0);
		do_close(&c, next_fh++);
	}
	t = seconds() - t;
	printf("# 100 opens beside them: %.3f s\n", t);
	CHECK(t < 30);
	for (int i = 0; i < 3; i++) {
		kill(writer[i], SIGKILL);
		CHECK(waitpid(writer[i], NULL, 0) == writer[i]);
	}
	hear();
}
int main(void)
{
	if (!may_test())
		return 77;
	start();
	TEST(files_and_names);
	TEST(own_operations_are_no_news);
	TEST(written_beside_our_own);
	TEST(bytes_that_may_be_kept);
	TEST(several_links);
	TEST(directories_are_watched_when_asked_for);
	TEST(rights_of_a_directory);
	TEST(a_job_is_a_barrier);
	TEST(a_lock_is_a_barrier);
	TEST(nothing_is_lost_with_a_connection);
	TEST(too_many_are_all);
	TEST(groups_of_the_caller);
	TEST(a_busy_writer);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
