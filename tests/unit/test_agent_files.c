/* SPDX-License-Identifier: MIT */
/* The agent's files, through the real protocol: names, attributes, bytes, directories, rights. */
#include "test_agent_files.h"
#include "test_agent_jobs.h"

#include <grp.h>

static struct agent a;
static struct client c;
static uint64_t next_node = 1000, next_fh = 1;

static char *path(const char *name)
{
	return ws_path(&a, name);
}

static void put_file(const char *name, const char *text)
{
	put_text(path(name), text);
}

static void hello_says_who(void)
{
	struct proto_hello h = {0};
	struct client d;
	struct stat st;

	CHECK(client_hello(&d, &a, "other", &h) == 0);
	CHECK(h.version == PROTO_VERSION && !h.resumed && h.uid == 1234 && h.gid == 4321);
	CHECK(strcmp(h.trouble, "") == 0);
	CHECK(strstr(h.workspace, "/ws"));
	proto_hello_fini(&h);
	client_close(&d);
	CHECK(stat(path(""), &st) == 0 && st.st_uid == 1234 && st.st_gid == 4321);
}

static void create_write_read(void)
{
	struct proto_attr attr;
	uint64_t node = next_node++, fh = next_fh++;
	const uint8_t *p;
	uint32_t done;
	size_t n;

	CHECK(do_create(&c, 2, "new", node, fh, PROTO_O_READ | PROTO_O_WRITE, 0640, &attr) == 0);
	CHECK((attr.mode & 07777) == 0640 && S_ISREG(attr.mode) && attr.uid == 1234);
	CHECK(attr.cache == (getenv("AGENT_NO_WATCH") ? PROTO_CACHE_BRIEF : PROTO_CACHE_ALL));
	CHECK(do_create(&c, 2, "new2", node, fh + 1, PROTO_O_WRITE, 0640, &attr) == EEXIST);
	CHECK(do_open(&c, node, fh, PROTO_O_READ) == EEXIST);
	CHECK(do_write(&c, fh, 0, "hello", 5, &done) == 0 && done == 5);
	CHECK(do_write(&c, fh, 5, " world", 6, &done) == 0 && done == 6);
	CHECK(do_read(&c, fh, 0, 100, &p, &n) == 0 && n == 11 && memcmp(p, "hello world", 11) == 0);
	CHECK(do_read(&c, fh, 6, 3, &p, &n) == 0 && n == 3 && memcmp(p, "wor", 3) == 0);
	CHECK(do_read(&c, fh, 11, 3, &p, &n) == 0 && n == 0);
	CHECK(do_getattr(&c, node, 0, &attr) == 0 && attr.size == 11);
	CHECK(do_getattr(&c, node, fh, &attr) == 0 && attr.size == 11 && attr.btime.sec);
	/* Unlinked but open. */
	CHECK(do_remove(&c, PROTO_UNLINK, 2, "new") == 0);
	CHECK(do_getattr(&c, node, 0, &attr) == 0 && attr.nlink == 0);
	CHECK(do_read(&c, fh, 0, 100, &p, &n) == 0 && n == 11);
	CHECK(do_setattr(&c, node, 0,
		      &(struct proto_setattr){.mask = PROTO_SET_ATTR_MODE, .mode = 0600},
		      &attr) == 0);
	CHECK((attr.mode & 07777) == 0600);
	do_close(&c, fh);
	CHECK(do_getattr(&c, node, 0, &attr) == ESTALE);
	CHECK(do_read(&c, fh, 0, 100, &p, &n) == EBADF);
}

static int write_as(uint64_t fh, uint64_t offset, uint8_t append, const char *text)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_WRITE_AS);

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_u8(&b, append);
	wire_str(&b, text);
	return client_call(&c, &b, at);
}

static void large_and_append(void)
{
	static uint8_t data[PROTO_MAX_DATA];
	struct proto_attr attr;
	uint64_t node = next_node++, fh = next_fh++;
	const uint8_t *p;
	uint32_t done;
	size_t n;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	CHECK(do_create(&c, 2, "big", node, fh, PROTO_O_READ | PROTO_O_WRITE, 0644, &attr) == 0);
	CHECK(do_write(&c, fh, 0, data, sizeof(data), &done) == 0 && done == sizeof(data));
	CHECK(do_write(&c, fh, sizeof(data), data, 70000, &done) == 0 && done == 70000);
	CHECK(do_read(&c, fh, 0, PROTO_MAX_DATA, &p, &n) == 0 && n == sizeof(data));
	CHECK(memcmp(p, data, n) == 0);
	CHECK(do_read(&c, fh, 1000, PROTO_MAX_DATA, &p, &n) == 0 && n == sizeof(data));
	CHECK(do_read(&c, fh, sizeof(data), PROTO_MAX_DATA, &p, &n) == 0 && n == 70000);
	CHECK(do_read(&c, fh, 0, PROTO_MAX_DATA + 1, &p, &n) == EINVAL);
	do_close(&c, fh);
	fh = next_fh++;
	CHECK(do_open(&c, node, fh, PROTO_O_WRITE | PROTO_O_APPEND) == 0);
	CHECK(do_write(&c, fh, 0, "end", 3, &done) == 0);
	CHECK(do_getattr(&c, node, 0, &attr) == 0 && attr.size == sizeof(data) + 70003);
	/* However it was opened: in its place, and at the end. */
	CHECK(write_as(fh, 2, 0, "in") == 0);
	CHECK(do_getattr(&c, node, 0, &attr) == 0 && attr.size == sizeof(data) + 70003);
	do_close(&c, fh);
	fh = next_fh++;
	CHECK(do_open(&c, node, fh, PROTO_O_READ | PROTO_O_WRITE) == 0);
	CHECK(do_read(&c, fh, 1, 4, &p, &n) == 0 && n == 4);
	CHECK(p[0] == data[1] && p[1] == 'i' && p[2] == 'n' && p[3] == data[4]);
	CHECK(write_as(fh, 2, 1, "at the end") == 0);
	CHECK(do_read(&c, fh, sizeof(data) + 70000, 99, &p, &n) == 0 && n == 13);
	CHECK(memcmp(p, "endat the end", 13) == 0);
	CHECK(write_as(fh, 2, 2, "?") == EINVAL && write_as(fh + 1000, 2, 0, "?") == EBADF);
	do_close(&c, fh);
	fh = next_fh++;
	CHECK(do_open(&c, node, fh, PROTO_O_READ) == 0);
	CHECK(write_as(fh, 2, 0, "not for writing") == EBADF);
	do_close(&c, fh);
	fh = next_fh++;
	CHECK(do_open(&c, node, fh, PROTO_O_WRITE | PROTO_O_TRUNC) == 0);
	CHECK(do_getattr(&c, node, 0, &attr) == 0 && attr.size == 0);
	do_close(&c, fh);
}

static void names_and_links(void)
{
	struct proto_attr attr;
	uint64_t dir = next_node++, sub = next_node++, file = next_node++, link = next_node++;
	struct buf b;
	size_t at;

	CHECK(do_make(&c, PROTO_MKDIR, 2, "d", dir, 0755) == 0);
	CHECK(do_make(&c, PROTO_MKDIR, 2, "d", next_node++, 0755) == EEXIST);
	CHECK(do_make(&c, PROTO_MKDIR, dir, "sub", sub, 0755) == 0);
	CHECK(do_make(&c, PROTO_MKNOD, sub, "f", file, S_IFREG | 0644) == 0);
	CHECK(do_make(&c, PROTO_MKNOD, sub, "fifo", next_node++, S_IFIFO | 0644) == 0);
	CHECK(do_make(&c, PROTO_MKNOD, sub, "sock", next_node++, S_IFSOCK | 0644) == 0);
	CHECK(do_make(&c, PROTO_MKNOD, sub, "dev", next_node++, S_IFCHR | 0644) == EPERM);
	CHECK(do_make(&c, PROTO_MKDIR, 2, "..", next_node++, 0755) == EINVAL);
	CHECK(do_make(&c, PROTO_MKDIR, 2, "a/b", next_node++, 0755) == EINVAL);
	CHECK(do_lookup(&c, 2, "none", next_node++, &attr) == ENOENT);
	CHECK(do_lookup(&c, 2, "d", PROTO_NODE_WORKSPACE, &attr) == EEXIST);
	CHECK(do_lookup(&c, 99999, "d", next_node++, &attr) == ESTALE);
	/* A rename takes the nodes along, below it too. */
	CHECK(do_rename(&c, 2, "d", 2, "moved", 0) == 0);
	CHECK(do_getattr(&c, file, 0, &attr) == 0 && attr.size == 0);
	CHECK(do_rename(&c, sub, "f", 2, "g", 0) == 0);
	CHECK(do_getattr(&c, file, 0, &attr) == 0);
	put_file("h", "other");
	CHECK(chown(path("h"), 1234, 4321) == 0);
	CHECK(do_rename(&c, 2, "g", 2, "h", PROTO_RENAME_NOREPLACE) == EEXIST);
	CHECK(do_lookup(&c, 2, "h", link, &attr) == 0);
	CHECK(do_rename(&c, 2, "g", 2, "h", PROTO_RENAME_EXCHANGE) == 0);
	CHECK(do_getattr(&c, link, 0, &attr) == 0 && attr.size == 5);
	CHECK(do_getattr(&c, file, 0, &attr) == 0 && attr.size == 0);
	/* Links. */
	at = client_begin(&c, &b, PROTO_LINK);
	wire_u64(&b, link);
	wire_u64(&b, sub);
	wire_str(&b, "hard");
	CHECK(client_call(&c, &b, at) == 0);
	proto_get_attr(&c.in, &attr);
	CHECK(attr.nlink == 2);
	at = client_begin(&c, &b, PROTO_SYMLINK);
	wire_u64(&b, sub);
	wire_str(&b, "soft");
	wire_u64(&b, 500);
	wire_str(&b, "/etc/passwd");
	CHECK(client_call(&c, &b, at) == 0);
	proto_get_attr(&c.in, &attr);
	CHECK(S_ISLNK(attr.mode) && attr.uid == 1234);
	CHECK(do_u64(&c, PROTO_READLINK, 500) == 0);
	CHECK(c.head.len == 4 + 11 && memcmp(c.frame.data + 4, "/etc/passwd", 11) == 0);
	CHECK(do_u64(&c, PROTO_READLINK, sub) == EINVAL);
	CHECK(do_open(&c, 500, next_fh++, PROTO_O_READ) == ELOOP);
	CHECK(do_create(&c, sub, "soft", next_node++, next_fh++, PROTO_O_WRITE, 0644, &attr) ==
		ELOOP);
	CHECK(do_create(&c, sub, "fifo", next_node++, next_fh++, PROTO_O_WRITE, 0644, &attr) ==
		ENXIO);
	CHECK(do_create(&c, 2, "moved", next_node++, next_fh++, PROTO_O_READ, 0644, &attr) ==
		EISDIR);
	CHECK(do_remove(&c, PROTO_RMDIR, 2, "moved") == ENOTEMPTY);
	CHECK(do_remove(&c, PROTO_UNLINK, 2, "moved") == EISDIR);
}

static void attributes(void)
{
	struct proto_setattr set = {.mask = PROTO_SET_ATTR_MODE, .mode = 04751};
	struct proto_attr attr;
	uint64_t node = next_node++, soft = next_node++;

	put_file("attr", "0123456789");
	CHECK(chown(path("attr"), 1234, 4321) == 0);
	CHECK(symlink("attr", path("attrlink")) == 0);
	CHECK(lchown(path("attrlink"), 1234, 4321) == 0);
	CHECK(do_lookup(&c, 2, "attr", node, &attr) == 0);
	CHECK(do_lookup(&c, 2, "attrlink", soft, &attr) == 0);
	CHECK(do_setattr(&c, node, 0, &set, &attr) == 0 && (attr.mode & 07777) == 04751);
	CHECK(do_setattr(&c, soft, 0, &set, &attr) == EOPNOTSUPP);
	set = (struct proto_setattr){.mask = PROTO_SET_ATTR_SIZE, .size = 4};
	CHECK(do_setattr(&c, node, 0, &set, &attr) == 0 && attr.size == 4);
	set = (struct proto_setattr){.mask = PROTO_SET_ATTR_ATIME | PROTO_SET_ATTR_MTIME,
		.atime = {-5, 7},
		.mtime = {1000000000, 123456789}};
	CHECK(do_setattr(&c, node, 0, &set, &attr) == 0);
	CHECK(attr.mtime.sec == 1000000000 && attr.mtime.nsec == 123456789 && attr.atime.sec == -5);
	CHECK(do_setattr(&c, soft, 0, &set, &attr) == 0 && S_ISLNK(attr.mode));
	CHECK(attr.mtime.sec == 1000000000);
	set = (struct proto_setattr){.mask = PROTO_SET_ATTR_UID, .uid = 0};
	CHECK(do_setattr(&c, node, 0, &set, &attr) == EPERM);
	c.uid = c.gid = 0;
	set = (struct proto_setattr){
		.mask = PROTO_SET_ATTR_UID | PROTO_SET_ATTR_GID, .uid = 7, .gid = 8};
	CHECK(do_setattr(&c, node, 0, &set, &attr) == 0 && attr.uid == 7 && attr.gid == 8);
	CHECK(do_setattr(&c, soft, 0, &set, &attr) == 0 && attr.uid == 7);
	c.uid = 1234;
	c.gid = 4321;
	set = (struct proto_setattr){.mask = PROTO_SET_ATTR_SIZE, .size = 1};
	CHECK(do_setattr(&c, node, 0, &set, &attr) == EACCES);
	set.mask = 1u << 20;
	CHECK(do_setattr(&c, node, 0, &set, &attr) == EINVAL);
}

static void rights_of_the_caller(void)
{
	struct proto_attr attr;
	uint64_t node = next_node++, dir = next_node++;

	put_file("secret", "x");
	CHECK(chmod(path("secret"), 0600) == 0);
	CHECK(mkdir(path("closed"), 0700) == 0);
	CHECK(do_lookup(&c, 2, "secret", node, &attr) == 0);
	CHECK(do_lookup(&c, 2, "closed", dir, &attr) == 0);
	CHECK(do_open(&c, node, next_fh++, PROTO_O_READ) == EACCES);
	CHECK(do_lookup(&c, dir, "x", next_node++, &attr) == EACCES);
	CHECK(do_make(&c, PROTO_MKDIR, 1, "forbidden-by-rights", next_node++, 0755) == EACCES);
	c.uid = 0;
	c.gid = 0;
	CHECK(do_open(&c, node, next_fh++, PROTO_O_READ) == 0);
	CHECK(do_create(&c, dir, "x", next_node++, next_fh++, PROTO_O_WRITE, 0600, &attr) == 0);
	CHECK(attr.uid == 0);
	c.uid = 77;
	c.gid = 78;
	CHECK(chmod(path(""), 0777) == 0);
	CHECK(do_create(&c, 2, "of77", next_node++, next_fh++, PROTO_O_WRITE, 0600, &attr) == 0);
	CHECK(attr.uid == 77 && attr.gid == 78);
	c.uid = 1234;
	c.gid = 4321;
}

static void another_in_its_place(void)
{
	struct proto_attr attr;
	uint64_t node = next_node++, dir = next_node++, in = next_node++;
	const uint8_t *p;
	size_t n;

	put_file("swap", "one");
	CHECK(mkdir(path("sd"), 0755) == 0);
	put_file("sd/in", "x");
	CHECK(do_lookup(&c, 2, "swap", node, &attr) == 0);
	CHECK(do_lookup(&c, 2, "sd", dir, &attr) == 0);
	CHECK(do_lookup(&c, dir, "in", in, &attr) == 0);
	CHECK(rename(path("swap"), path("swap.old")) == 0);
	put_file("swap", "two");
	CHECK(do_getattr(&c, node, 0, &attr) == ESTALE);
	/* What was looked up can be opened, whatever has its name by then. */
	CHECK(do_open(&c, node, next_fh, PROTO_O_READ) == 0);
	CHECK(do_read(&c, next_fh, 0, 10, &p, &n) == 0 && n == 3 && memcmp(p, "one", 3) == 0);
	do_close(&c, next_fh++);
	/* An open directory is followed. */
	CHECK(rename(path("sd"), path("sd2")) == 0);
	CHECK(symlink("/etc", path("sd")) == 0);
	CHECK(do_getattr(&c, in, 0, &attr) == 0);
	/* A FIFO in the place of a file neither blocks nor passes. */
	CHECK(unlink(path("swap")) == 0 && mkfifo(path("swap"), 0666) == 0);
	CHECK(do_open(&c, node, next_fh, PROTO_O_READ) == 0);
	CHECK(do_read(&c, next_fh, 0, 10, &p, &n) == 0 && n == 3);
	do_close(&c, next_fh++);
}

static size_t list(uint64_t fh, uint32_t size, uint32_t n_new, uint64_t new, unsigned *seen,
	unsigned *with_attr)
{
	uint64_t offset = 0;
	size_t total = 0;

	for (;;) {
		struct buf b;
		size_t at = client_begin(&c, &b, PROTO_READDIR), n = 0;

		wire_u64(&b, fh);
		wire_u64(&b, offset);
		wire_u32(&b, size);
		wire_u64(&b, new);
		wire_u32(&b, n_new);
		CHECK(client_call(&c, &b, at) == 0);
		CHECK(c.head.len <= size);
		while (!c.in.bad && c.in.p < c.in.end) {
			struct proto_dirent d;
			char name[256];

			proto_get_dirent(&c.in, &d);
			CHECK(!c.in.bad);
			snprintf(name, sizeof(name), "%.*s", (int)d.name_len, d.name);
			if (strncmp(name, "file", 4) == 0)
				seen[atoi(name + 4)]++;
			if (d.has_attr) {
				++*with_attr;
				CHECK(S_ISREG(d.attr.mode));
			}
			offset = d.next;
			n++;
		}
		if (!n)
			return total;
		total += n;
		new += n;
		CHECK(!n_new || n <= n_new);
	}
}

static void directories(void)
{
	enum { FILES = 3000 };
	static unsigned seen[FILES];
	unsigned with_attr = 0;
	struct proto_attr attr;
	uint64_t dir = next_node++;
	char name[32];

	CHECK(mkdir(path("many"), 0755) == 0);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "many/file%d", i);
		put_file(name, "");
	}
	CHECK(do_lookup(&c, 2, "many", dir, &attr) == 0);
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_OPENDIR);

	wire_u64(&b, dir);
	wire_u64(&b, 9000);
	CHECK(client_call(&c, &b, at) == 0);
	CHECK(list(9000, 4096, 0, 0, seen, &with_attr) == FILES && with_attr == 0);
	CHECK(list(9000, 60000, 100, 100000, seen, &with_attr) == FILES && with_attr == FILES);
	for (int i = 0; i < FILES; i++)
		CHECK(seen[i] == 2);
	CHECK(do_getattr(&c, 100000 + FILES - 1, 0, &attr) == 0);
	/* FORGET, one-way, in bulk. */
	buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
	at = proto_begin(&b, PROTO_FORGET, 0, 0, 0, 0);
	wire_u32(&b, FILES);
	for (int i = 0; i < FILES; i++)
		wire_u64(&b, 100000 + (uint64_t)i);
	client_send(&c, &b, at);
	CHECK(do_getattr(&c, 100000, 0, &attr) == ESTALE);
	do_close(&c, 9000);
	at = client_begin(&c, &b, PROTO_OPENDIR);
	wire_u64(&b, 100000);
	wire_u64(&b, 9001);
	CHECK(client_call(&c, &b, at) == ESTALE);
}

/* More directories than the agent keeps open, and a deep path. */
static void evicted_nodes_are_found_again(void)
{
	enum { DIRS = 1300, DEPTH = 200 };
	struct proto_attr attr;
	uint64_t first = 200000, parent = 2;
	char name[32];

	for (uint64_t i = 0; i < DIRS; i++) {
		snprintf(name, sizeof(name), "e%d", (int)i);
		CHECK(do_make(&c, PROTO_MKDIR, 2, name, first + i, 0755) == 0);
		CHECK(do_lookup(&c, first + i, "none", next_node++, &attr) == ENOENT);
	}
	for (uint64_t i = 0; i < DEPTH; i++) {
		CHECK(do_make(&c, PROTO_MKDIR, parent, "deep", 300000 + i, 0755) == 0);
		parent = 300000 + i;
	}
	for (uint64_t i = 0; i < DIRS; i++)
		CHECK(do_lookup(&c, first + i, "none", next_node++, &attr) == ENOENT);
	CHECK(do_getattr(&c, 300000 + DEPTH - 1, 0, &attr) == 0);
	CHECK(do_lookup(&c, 300000 + DEPTH - 1, "none", next_node++, &attr) == ENOENT);
}

static void rest(void)
{
	struct proto_statfs st;
	struct proto_attr attr;
	uint64_t node = next_node++, fh = next_fh++;
	struct buf b;
	size_t at;

	CHECK(do_u64(&c, PROTO_STATFS, 2) == 0);
	proto_get_statfs(&c.in, &st);
	CHECK(wire_end(&c.in) && st.blocks && st.namelen == 255);
	CHECK(do_create(&c, 2, "sync", node, fh, PROTO_O_WRITE, 0644, &attr) == 0);
	at = client_begin(&c, &b, PROTO_FSYNC);
	wire_u64(&b, fh);
	wire_u8(&b, 1);
	CHECK(client_call(&c, &b, at) == 0);
	at = client_begin(&c, &b, 126);
	CHECK(client_call(&c, &b, at) == EOPNOTSUPP);
	at = client_begin(&c, &b, 0x7fff);
	CHECK(client_call(&c, &b, at) == EOPNOTSUPP);
	at = client_begin(&c, &b, PROTO_PING);
	CHECK(client_call(&c, &b, at) == 0);
	at = client_begin(&c, &b, PROTO_LOOKUP);
	wire_u64(&b, 2);
	CHECK(client_call(&c, &b, at) == EINVAL);
}

static void sessions_resume(void)
{
	struct proto_hello h = {0};
	struct proto_attr attr;
	struct client d;
	bool resumed = true;

	client_open(&d, &a, "resume");
	CHECK(do_lookup(&d, 1, "etc", 16, &attr) == 0);
	client_close(&d);
	CHECK(client_hello(&d, &a, "resume", &h) == 0 && h.resumed);
	proto_hello_fini(&h);
	CHECK(do_getattr(&d, 16, 0, &attr) == 0);
	client_close(&d);
	/* The oldest of more than eight without a connection goes, once the agent has seen them
	 * end. */
	for (unsigned us = 50000; resumed && us < 20000000; us *= 2) {
		for (int i = 0; i < 9; i++) {
			char name[16];

			snprintf(name, sizeof(name), "s%d", i);
			client_open(&d, &a, name);
			client_close(&d);
		}
		usleep(us);
		CHECK(client_hello(&d, &a, "resume", &h) == 0);
		resumed = h.resumed;
		proto_hello_fini(&h);
		client_close(&d);
	}
	CHECK(!resumed);
}

/* How many entries come with an attr. */
static unsigned list_again(struct client *d, uint64_t fh, uint64_t new)
{
	struct proto_dirent e;
	unsigned n = 0;
	struct buf b;
	size_t at = client_begin(d, &b, PROTO_READDIR);

	wire_u64(&b, fh);
	wire_u64(&b, 0);
	wire_u32(&b, 4096);
	wire_u64(&b, new);
	wire_u32(&b, 10);
	CHECK(client_call(d, &b, at) == 0);
	while (!d->in.bad && d->in.p < d->in.end) {
		proto_get_dirent(&d->in, &e);
		n += e.has_attr;
	}
	CHECK(!d->in.bad);
	return n;
}

/* A connection is lost with its answers: the same is asked again, with the same numbers. */
static void asked_again(void)
{
	struct proto_hello h = {0};
	struct proto_attr attr;
	struct client d, e;
	struct buf b;
	size_t at;

	CHECK(mkdir(path("again"), 0755) == 0);
	put_file("again/a", "a");
	put_file("again/b", "bb");
	client_open(&d, &a, "again");
	CHECK(do_lookup(&d, 2, "again", 20, &attr) == 0);
	CHECK(do_lookup(&d, 20, "a", 21, &attr) == 0);
	at = client_begin(&d, &b, PROTO_OPENDIR);
	wire_u64(&b, 20);
	wire_u64(&b, 1);
	CHECK(client_call(&d, &b, at) == 0);
	CHECK(list_again(&d, 1, 30) == 2);
	CHECK(do_getattr(&d, 31, 0, &attr) == 0);

	CHECK(client_hello(&e, &a, "again", &h) == 0 && h.resumed);
	proto_hello_fini(&h);
	CHECK(do_lookup(&e, 20, "a", 21, &attr) == 0 && attr.size == 1);
	CHECK(list_again(&e, 1, 30) == 2);
	CHECK(do_getattr(&e, 30, 0, &attr) == 0 && do_getattr(&e, 31, 0, &attr) == 0);
	/* What is no longer there has no number any more either. */
	CHECK(unlink(path("again/a")) == 0 && unlink(path("again/b")) == 0);
	put_file("again/c", "ccc");
	CHECK(list_again(&e, 1, 30) == 1);
	CHECK(do_getattr(&e, 30, 0, &attr) == 0 && attr.size == 3);
	CHECK(do_getattr(&e, 31, 0, &attr) == ESTALE);
	CHECK(do_lookup(&e, 20, "a", 21, &attr) == ENOENT);
	CHECK(do_getattr(&e, 21, 0, &attr) == ESTALE);
	/* What is still to come on the first connection has no effect: it has ended. */
	CHECK(!client_recv(&d));
	client_close(&d);
	client_close(&e);
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "1234:4321");
	client_open(&c, &a, "files");
	c.uid = 1234;
	c.gid = 4321;
	TEST(hello_says_who);
	TEST(create_write_read);
	TEST(large_and_append);
	TEST(names_and_links);
	TEST(attributes);
	TEST(rights_of_the_caller);
	TEST(another_in_its_place);
	TEST(directories);
	TEST(evicted_nodes_are_found_again);
	TEST(rest);
	TEST(sessions_resume);
	TEST(asked_again);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
