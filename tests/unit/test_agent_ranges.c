/* SPDX-License-Identifier: MIT */
/* The agent's extended attributes, access, space, holes and copies, through the real protocol. */
#include "test_agent_files.h"

#include <sys/xattr.h>

static struct agent a;
static struct client c;
static uint64_t next_node = 1000, next_fh = 1;

static char *path(const char *name)
{
	return ws_path(&a, name);
}

/* A file of the sandbox's user, and its node. */
static uint64_t put_file(const char *name, const char *text, uid_t uid, gid_t gid, mode_t mode)
{
	int fd = open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct proto_attr attr;
	uint64_t node = next_node++;

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(fchown(fd, uid, gid) == 0 && fchmod(fd, mode) == 0);
	close(fd);
	CHECK(do_lookup(&c, 2, name, node, &attr) == 0);
	return node;
}

static uint64_t open_node(uint64_t node, uint32_t flags)
{
	uint64_t fh = next_fh++;

	CHECK(do_open(&c, node, fh, flags) == 0);
	return fh;
}

/* GETXATTR, LISTXATTR (name NULL), REMOVEXATTR. */
static int xattr(uint16_t type, uint64_t node, const char *name, const uint8_t **p, size_t *n)
{
	struct buf b;
	size_t at = client_begin(&c, &b, type);
	int ret;

	wire_u64(&b, node);
	if (name)
		wire_str(&b, name);
	ret = client_call(&c, &b, at);
	if (!ret && p) {
		*p = wire_get_bytes(&c.in, PROTO_XATTR_MAX, n);
		CHECK(wire_end(&c.in));
	}
	return ret;
}

static int set(uint64_t node, const char *name, const void *value, size_t n, uint32_t flags)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_SETXATTR);

	wire_u64(&b, node);
	wire_str(&b, name);
	wire_bytes(&b, value, n);
	wire_u32(&b, flags);
	return client_call(&c, &b, at);
}

static bool has(uint64_t node, const char *name, const char *value)
{
	const uint8_t *p;
	size_t n;

	return xattr(PROTO_GETXATTR, node, name, &p, &n) == 0 && n == strlen(value) &&
	       memcmp(p, value, n) == 0;
}

static void attributes(void)
{
	uint64_t node = put_file("x", "x", 1234, 4321, 0600), fh;
	static const char big[PROTO_XATTR_MAX + 1];
	const uint8_t *p;
	size_t n;

	CHECK(xattr(PROTO_LISTXATTR, node, NULL, &p, &n) == 0 && n == 0);
	CHECK(xattr(PROTO_GETXATTR, node, "user.a", &p, &n) == ENODATA);
	CHECK(set(node, "user.a", "one", 3, 2) == ENODATA);
	CHECK(set(node, "user.a", "one", 3, 1) == 0);
	CHECK(set(node, "user.a", "two", 3, 1) == EEXIST);
	CHECK(has(node, "user.a", "one"));
	CHECK(set(node, "user.empty", "", 0, 0) == 0 && has(node, "user.empty", ""));
	CHECK(xattr(PROTO_LISTXATTR, node, NULL, &p, &n) == 0 && n == 7 + 11);
	CHECK(xattr(PROTO_REMOVEXATTR, node, "user.empty", NULL, NULL) == 0);
	CHECK(xattr(PROTO_REMOVEXATTR, node, "user.empty", NULL, NULL) == ENODATA);
	/* Malformed. */
	CHECK(set(node, "user.a", "x", 1, 4) == EINVAL);
	CHECK(set(node, "user.a", big, sizeof(big), 0) == EINVAL);
	CHECK(xattr(PROTO_GETXATTR, node, NULL, NULL, NULL) == EINVAL);
	CHECK(xattr(PROTO_GETXATTR, 424242, "user.a", NULL, NULL) == ESTALE);
	CHECK(has(node, "user.a", "one"));
	/* Without a name, but open. */
	fh = open_node(node, PROTO_O_READ);
	CHECK(unlink(path("x")) == 0);
	CHECK(has(node, "user.a", "one"));
	CHECK(set(node, "user.a", "ghost", 5, 0) == 0 && has(node, "user.a", "ghost"));
	CHECK(xattr(PROTO_LISTXATTR, node, NULL, &p, &n) == 0 && n == 7);
	do_close(&c, fh);
}

static void attributes_of_others(void)
{
	uint64_t node = put_file("secret", "x", 0, 0, 0640), soft = next_node++, target;
	struct proto_attr attr;
	const uint8_t *p;
	size_t n;

	CHECK(setxattr(path("secret"), "user.a", "s", 1, 0) == 0);
	CHECK(xattr(PROTO_GETXATTR, node, "user.a", &p, &n) == EACCES);
	CHECK(set(node, "user.b", "x", 1, 0) == EACCES);
	CHECK(xattr(PROTO_REMOVEXATTR, node, "user.a", NULL, NULL) == EACCES);
	/* A link is asked itself, wherever it leads. */
	target = put_file("target", "x", 1234, 4321, 0600);
	CHECK(set(target, "user.a", "t", 1, 0) == 0);
	CHECK(symlink("target", path("soft")) == 0);
	CHECK(lchown(path("soft"), 1234, 4321) == 0);
	CHECK(do_lookup(&c, 2, "soft", soft, &attr) == 0);
	CHECK(set(soft, "user.a", "x", 1, 0) == EPERM);
	CHECK(xattr(PROTO_LISTXATTR, soft, NULL, &p, &n) == 0 && n == 0);
	CHECK(has(target, "user.a", "t"));
	/* The workspace itself. */
	CHECK(set(2, "user.ws", "w", 1, 0) == 0 && has(2, "user.ws", "w"));
	/* Another file in its place is not touched. */
	CHECK(rename(path("target"), path("moved")) == 0);
	put_file("target", "y", 1234, 4321, 0600);
	CHECK(set(target, "user.new", "x", 1, 0) == 0 || c.head.error == ESTALE);
	CHECK(getxattr(path("target"), "user.new", NULL, 0) < 0 && errno == ENODATA);
}

static int may(uint64_t node, uint32_t mask)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_ACCESS);

	wire_u64(&b, node);
	wire_u32(&b, mask);
	return client_call(&c, &b, at);
}

static void access_by_the_kernel(void)
{
	uint64_t own = put_file("own", "", 1234, 0, 0640);
	uint64_t group = put_file("group", "", 0, 4321, 0460);
	uint64_t none = put_file("none", "", 0, 0, 0700), dir = next_node++, fh;
	struct proto_attr attr;

	CHECK(mkdir(path("closed"), 0700) == 0);
	CHECK(do_lookup(&c, 2, "closed", dir, &attr) == 0);
	CHECK(may(own, 0) == 0 && may(own, 6) == 0 && may(own, 1) == EACCES);
	CHECK(may(group, 6) == 0 && may(group, 7) == EACCES);
	CHECK(may(none, 0) == 0 && may(none, 4) == EACCES && may(none, 1) == EACCES);
	CHECK(may(dir, 1) == EACCES && may(2, 7) == 0 && may(1, 2) == EACCES);
	/* Root: all, but no x where nobody has it. */
	c.uid = c.gid = 0;
	CHECK(may(own, 6) == 0 && may(own, 1) == EACCES && may(none, 7) == 0 && may(dir, 7) == 0);
	/* Somebody else, then the user again: no rights stay behind. */
	c.uid = c.gid = 77;
	CHECK(may(own, 4) == EACCES && may(group, 4) == EACCES);
	CHECK(do_open(&c, own, next_fh++, PROTO_O_READ) == EACCES);
	c.uid = 1234;
	c.gid = 4321;
	CHECK(may(own, 4) == 0 && may(none, 4) == EACCES);
	CHECK(do_open(&c, none, next_fh++, PROTO_O_READ) == EACCES);
	fh = open_node(own, PROTO_O_READ);
	CHECK(unlink(path("own")) == 0 && may(own, 4) == 0 && may(own, 1) == EACCES);
	do_close(&c, fh);
	CHECK(may(own, 8) == EINVAL && may(424242, 4) == ESTALE);
}

static int allocate(uint64_t fh, uint32_t mode, uint64_t offset, uint64_t length)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_FALLOCATE);

	wire_u64(&b, fh);
	wire_u32(&b, mode);
	wire_u64(&b, offset);
	wire_u64(&b, length);
	return client_call(&c, &b, at);
}

static int seek(uint64_t fh, uint64_t offset, uint32_t whence, uint64_t *found)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_LSEEK);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_u32(&b, whence);
	ret = client_call(&c, &b, at);
	if (!ret) {
		*found = wire_get_u64(&c.in);
		CHECK(wire_end(&c.in));
	}
	return ret;
}

static void space_and_holes(void)
{
	enum { KEEP = 1, PUNCH = 2, COLLAPSE = 8, M = 1 << 20 };
	uint64_t node = put_file("space", "", 1234, 4321, 0600), at = 0, dir = next_fh++;
	uint64_t rw = open_node(node, PROTO_O_READ | PROTO_O_WRITE), ro;
	struct stat st;
	struct buf b;
	size_t begun;

	CHECK(allocate(rw, 0, 0, M) == 0);
	CHECK(stat(path("space"), &st) == 0 && st.st_size == M && st.st_blocks >= M / 512);
	CHECK(allocate(rw, KEEP, M, M) == 0);
	CHECK(stat(path("space"), &st) == 0 && st.st_size == M && st.st_blocks >= 2 * M / 512);
	CHECK(truncate(path("space"), 0) == 0 && truncate(path("space"), 4 * M) == 0);
	CHECK(seek(rw, 0, 3, &at) == ENXIO && seek(rw, 0, 4, &at) == 0 && at == 0);
	uint32_t done;

	CHECK(do_write(&c, rw, M, "data", 4, &done) == 0);
	CHECK(seek(rw, 0, 3, &at) == 0 && at <= M && at + 65536 > M);
	CHECK(seek(rw, M, 4, &at) == 0 && at >= M + 4 && at <= M + 65536);
	CHECK(allocate(rw, KEEP | PUNCH, M, 4096) == 0);
	CHECK(seek(rw, 0, 3, &at) == ENXIO);
	/* What cannot be. */
	CHECK(allocate(rw, COLLAPSE, 0, 4096) == EOPNOTSUPP && allocate(rw, 1u << 31, 0, 1) != 0);
	CHECK(allocate(rw, 0, 0, 0) == EINVAL && allocate(rw, 0, INT64_MAX, 1) == EINVAL);
	CHECK(allocate(rw, 0, UINT64_MAX, 1) == EINVAL && allocate(4242, 0, 0, 1) == EBADF);
	CHECK(seek(rw, 0, 0, &at) == EINVAL && seek(rw, UINT64_MAX, 3, &at) == EINVAL);
	CHECK(seek(rw, 5 * M, 4, &at) == ENXIO && seek(4242, 0, 3, &at) == EBADF);
	ro = open_node(node, PROTO_O_READ);
	CHECK(allocate(ro, 0, 0, 1) == EBADF && seek(ro, 0, 4, &at) == 0);
	/* A directory: its position is not for this; but it can be synced. */
	begun = client_begin(&c, &b, PROTO_OPENDIR);
	wire_u64(&b, 2);
	wire_u64(&b, dir);
	CHECK(client_call(&c, &b, begun) == 0);
	CHECK(seek(dir, 0, 3, &at) == EINVAL && allocate(dir, 0, 0, 1) == EBADF);
	for (uint8_t data_only = 0; data_only < 2; data_only++) {
		begun = client_begin(&c, &b, PROTO_FSYNC);
		wire_u64(&b, dir);
		wire_u8(&b, data_only);
		CHECK(client_call(&c, &b, begun) == 0);
	}
}

static int copy(
	uint64_t fh, uint64_t offset, uint64_t to, uint64_t offset_to, uint64_t n, uint64_t *done)
{
	struct buf b;
	size_t at = client_begin(&c, &b, PROTO_COPY);
	int ret;

	wire_u64(&b, fh);
	wire_u64(&b, offset);
	wire_u64(&b, to);
	wire_u64(&b, offset_to);
	wire_u64(&b, n);
	ret = client_call(&c, &b, at);
	if (!ret) {
		*done = wire_get_u64(&c.in);
		CHECK(wire_end(&c.in));
	}
	return ret;
}

static bool contains(uint64_t fh, const char *text)
{
	const uint8_t *p;
	size_t n;

	return do_read(&c, fh, 0, 1000, &p, &n) == 0 && n == strlen(text) &&
	       memcmp(p, text, n) == 0;
}

static void copies(void)
{
	uint64_t from = put_file("from", "0123456789", 1234, 4321, 0600), done = 0;
	uint64_t to = put_file("to", "abcdef", 1234, 4321, 0600);
	uint64_t f = open_node(from, PROTO_O_READ), t = open_node(to, PROTO_O_READ | PROTO_O_WRITE);
	uint64_t append = open_node(to, PROTO_O_WRITE | PROTO_O_APPEND);
	uint64_t both = open_node(from, PROTO_O_READ | PROTO_O_WRITE);

	CHECK(copy(f, 2, t, 1, 3, &done) == 0 && done == 3 && contains(t, "a234ef"));
	CHECK(copy(f, 5, t, 4, 1000, &done) == 0 && done == 5 && contains(t, "a23456789"));
	CHECK(copy(f, 10, t, 0, 5, &done) == 0 && done == 0);
	CHECK(copy(f, 0, t, 0, 0, &done) == 0 && done == 0);
	CHECK(copy(both, 0, both, 5, 5, &done) == 0 && done == 5 && contains(f, "0123401234"));
	CHECK(copy(both, 0, both, 4, 5, &done) == EINVAL &&
		copy(f, 4, both, 0, 5, &done) == EINVAL);
	CHECK(contains(f, "0123401234"));
	CHECK(copy(f, 0, append, 0, 1, &done) == EBADF && copy(t, 0, f, 0, 1, &done) == EBADF);
	CHECK(copy(append, 0, t, 8, 1, &done) == EBADF && copy(f, 0, 4242, 0, 1, &done) == EBADF);
	CHECK(copy(f, UINT64_MAX, t, 0, 1, &done) == EINVAL);
	CHECK(copy(f, 0, t, INT64_MAX, 1, &done) == EINVAL);
	/* Bounded: the rest is asked for again. */
	CHECK(truncate(path("from"), 40 << 20) == 0);
	CHECK(copy(f, 0, t, 0, 40 << 20, &done) == 0 && done == 16 << 20);
}

/* Files of another file system, and one that the kernel does not copy: by hand, the same bytes. */
static void copies_between_file_systems(void)
{
	static char data[700000];
	uint64_t dev = next_node++, file = next_node++, fh = next_fh++, fh2 = next_fh++, done = 0;
	uint64_t node = next_node++, total = 0;
	struct proto_attr attr;
	char name[64];
	FILE *got;
	uint32_t n;

	CHECK(do_lookup(&c, 1, "dev", dev, &attr) == 0);
	CHECK(do_lookup(&c, dev, "shm", file, &attr) == 0);
	snprintf(name, sizeof(name), "agent-test-%d", (int)getpid());
	CHECK(do_create(&c, file, name, node, fh, PROTO_O_READ | PROTO_O_WRITE, 0600, &attr) == 0);
	CHECK(do_remove(&c, PROTO_UNLINK, file, name) == 0);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31 + (i >> 9));
	CHECK(do_write(&c, fh, 0, data, sizeof(data), &n) == 0 && n == sizeof(data));
	CHECK(do_create(&c, 2, "fromshm", next_node++, fh2, PROTO_O_READ | PROTO_O_WRITE, 0600,
		      &attr) == 0);
	while (total < sizeof(data)) {
		CHECK(copy(fh, total, fh2, total, sizeof(data), &done) == 0 && done);
		total += done;
	}
	got = fopen(path("fromshm"), "r");
	CHECK(got && total == sizeof(data));
	for (size_t i = 0; i < sizeof(data); i++)
		CHECK(fgetc(got) == (unsigned char)data[i]);
	CHECK(fgetc(got) == EOF);
	fclose(got);
}

int main(void)
{
	if (!may_test())
		return 77;
	agent_start(&a, "1234:4321");
	client_open(&c, &a, "ranges");
	c.uid = 1234;
	c.gid = 4321;
	TEST(attributes);
	TEST(attributes_of_others);
	TEST(access_by_the_kernel);
	TEST(space_and_holes);
	TEST(copies);
	TEST(copies_between_file_systems);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
