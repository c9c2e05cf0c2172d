/* SPDX-License-Identifier: MIT */
/*
 * The modes.
 * In the handshake: garbage oversize wrong-version no-version workspace-climb hang close-hello.
 * In every reply: wrong-id wrong-type truncated padded close errno-512 errno-38 silent drip twice
 * unasked.
 * In names: names-slash names-dotdot names-dot names-nul names-long names-empty.
 * In attributes: type-0 type-junk flip huge-size bad-time set-old
 * huge-block.
 * In data: long-read big-write link-long link-nul link-empty link-climb.
 * In ranges: seek-far big-copy. In extended attributes: xattr-long names-open names-hollow.
 * In changes: changes-junk changes-empty changes-slash changes-flood changes-all
 * changes-names changes-seq.
 * In ports: port-long. In locks: lock-eintr. In moves: see moves.c.
 * In jobs: job-exit job-result job-size job-name (big-write: of stdin) text-long text-nul.
 */
#include "tests/liar/lies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool lie_is(const char *mode)
{
	const char *lie = getenv("LIE");

	return lie && strcmp(lie, mode) == 0;
}

void lie_attr(struct proto_attr *a, bool set)
{
	static unsigned turn;

	if (lie_is("type-0"))
		a->mode = 0644;
	if (lie_is("type-junk"))
		a->mode = 0xffffffff;
	if (lie_is("flip") && S_ISDIR(a->mode) && turn++ % 2)
		a->mode = S_IFLNK | 0777;
	if (lie_is("huge-size"))
		a->size = UINT64_MAX, a->blocks = UINT64_MAX;
	if (lie_is("set-old") && set) /* what was so a moment ago */
		a->nlink = 7;
	if (lie_is("huge-block"))
		a->blksize = 1u << 31;
	if (lie_is("bad-time"))
		a->mtime.nsec = 4000000000u;
}

void lie_dirent(struct proto_dirent *d)
{
	static const struct {
		const char *mode, *name;
		size_t len;
	} lies[] = {{"names-slash", "../../etc", 9}, {"names-dotdot", "..", 2},
		{"names-dot", ".", 1}, {"names-nul", "a\0b", 3}, {"names-empty", "", 0}};
	static uint8_t longest[300];

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++)
		if (lie_is(lies[i].mode)) {
			d->name = (const uint8_t *)lies[i].name;
			d->name_len = lies[i].len;
		}
	if (lie_is("names-long")) {
		memset(longest, 'n', sizeof(longest));
		d->name = longest;
		d->name_len = sizeof(longest);
	}
}

void lie_job(struct proto_job *j)
{
	static char climb[] = "../../x";

	if (lie_is("job-exit"))
		j->exit_code = 9999;
	if (lie_is("job-result"))
		j->result = 77;
	if (lie_is("job-size"))
		j->size[0] = UINT64_MAX, j->hole_to[1] = 5;
	if (lie_is("job-name"))
		j->name = climb;
}

void lie_readlink(struct buf *b, const char *truth)
{
	if (lie_is("link-long")) {
		wire_u32(b, 100000);
		for (int i = 0; i < 100000; i++)
			wire_u8(b, 'x');
	} else if (lie_is("link-nul")) {
		wire_bytes(b, "a\0b", 3);
	} else if (lie_is("link-empty")) {
		wire_bytes(b, NULL, 0);
	} else if (lie_is("workspace-climb")) {
		wire_str(b, "../canary/secret");
	} else if (lie_is("link-climb")) {
		wire_str(b, "../../../canary/secret");
	} else if (moves_on()) {
		moves_text(b);
	} else {
		wire_str(b, truth);
	}
}

void lie_names(struct buf *b, const char *truth, size_t n)
{
	if (lie_is("names-open")) /* without its end */
		wire_bytes(b, truth, n - 1);
	else if (lie_is("names-hollow"))
		wire_bytes(b, "user.a\0\0user.b", 15);
	else
		wire_bytes(b, truth, n);
}

void lie_value(struct buf *b, const char *truth)
{
	if (!lie_is("xattr-long")) {
		wire_str(b, truth);
		return;
	}
	wire_u32(b, PROTO_XATTR_MAX + 1);
	for (uint32_t i = 0; i <= PROTO_XATTR_MAX; i++)
		wire_u8(b, 'x');
}

void lie_text(struct buf *b, const char *truth)
{
	if (lie_is("text-long") ||
		lie_is("text-full")) { /* full: no lie, but all that there may be */
		uint32_t n = PROTO_MAX_DATA + (lie_is("text-long") ? 1 : 0);

		wire_u32(b, n);
		for (uint32_t i = 0; i < n; i++)
			wire_u8(b, 'x');
	} else if (lie_is("text-nul")) {
		wire_bytes(b, "a\0b", 3);
	} else {
		wire_str(b, truth);
	}
}

static bool write_all(const uint8_t *p, size_t n)
{
	size_t piece = lie_is("drip") ? 1 : n;

	while (n) {
		ssize_t r = write(STDOUT_FILENO, p, piece < n ? piece : n);

		if (r <= 0 && !(r < 0 && errno == EINTR))
			return false;
		if (r > 0)
			p += r, n -= (size_t)r;
		if (lie_is("drip"))
			usleep(200);
	}
	return true;
}

/* Handshakes that are none; false if the mode is not one of them. */
static bool bad_hello(bool *go_on)
{
	uint8_t junk[4096];

	*go_on = true;
	memset(junk, 0xff, sizeof(junk));
	if (lie_is("garbage")) {
		for (size_t i = 0; i < sizeof(junk); i++)
			junk[i] = (uint8_t)(i * 167 + 13);
		write_all(junk, sizeof(junk));
	} else if (lie_is("oversize")) {
		write_all(junk, PROTO_HEAD);
	} else if (lie_is("hang")) {
		pause();
	} else if (lie_is("close-hello")) {
		*go_on = false;
	} else {
		return false;
	}
	return true;
}

static int lie_errno(int error)
{
	if (lie_is("errno-512"))
		return 512;
	if (lie_is("errno-38"))
		return 38;
	return error;
}

bool lie_changes(struct buf *b)
{
	struct proto_change c = {.kind = PROTO_CHANGE_NAME,
		.node = PROTO_NODE_WORKSPACE,
		.name = (const uint8_t *)"../file",
		.name_len = 7};

	if (lie_is("changes-junk")) {
		wire_u8(b, 77);
		wire_u64(b, 1);
	} else if (lie_is("changes-slash")) {
		proto_put_change(b, &c);
	} else if (lie_is("changes-flood")) {
		for (uint64_t i = 0; i < 1000; i++) {
			c = (struct proto_change){.kind = 1 + i % 5, .node = i % 40};
			if (proto_change_named(c.kind)) {
				c.name = (const uint8_t *)"file";
				c.name_len = 4;
			}
			proto_put_change(b, &c);
		}
	} else if (lie_is("changes-names")) { /* each takes the directory's lock */
		c.name = (const uint8_t *)"file";
		c.name_len = 4;
		for (int i = 0; i < 1000; i++)
			proto_put_change(b, &c);
	} else if (lie_is("changes-all")) { /* as many as an answer may have */
		c = (struct proto_change){.kind = PROTO_CHANGE_ALL};
		while (b->len < PROTO_MAX_BODY - 9)
			proto_put_change(b, &c);
	} else {
		return lie_is("changes-empty");
	}
	return true;
}

bool lie_send(const struct proto_head *h, int error, const struct buf *body)
{
	bool is_hello = h->type == PROTO_HELLO, go_on;
	uint64_t id = h->id;
	uint16_t type = h->type;
	size_t len = body->len, at;
	struct buf b;

	if (is_hello && bad_hello(&go_on))
		return go_on;
	if (lie_is("silent") && !is_hello)
		return true;
	if (!is_hello)
		error = lie_errno(error);
	id += lie_is("wrong-id") && !is_hello ? 1000 : 0;
	type = (uint16_t)(type + (lie_is("wrong-type") && !is_hello ? 1 : 0));
	len -= lie_is("truncated") && !is_hello && len ? 1 : 0;
	if (error && lie_errno(0))
		len = 0;
	buf_init(&b, 16u << 20);
	for (int i = lie_is("twice") && !is_hello ? 0 : 1; i < 2; i++) {
		at = proto_begin(&b, type | PROTO_REPLY, (uint16_t)error, id, 0, 0);
		if (lie_is("changes-seq"))
			proto_set_seq(&b, at, UINT64_MAX / 2);
		buf_append(&b, body->data ? body->data : (const uint8_t *)"", len);
		if (lie_is("padded") && !is_hello)
			wire_u8(&b, 0);
		proto_end(&b, at);
	}
	if (lie_is("unasked") && is_hello) {
		at = proto_begin(&b, PROTO_READ | PROTO_REPLY, 0, 77, 0, 0);
		proto_end(&b, at);
	}
	if (lie_is("close") && !is_hello) {
		write_all(b.data, b.len / 2);
		go_on = false;
	} else {
		go_on = write_all(b.data, b.len);
	}
	buf_fini(&b);
	return go_on;
}
