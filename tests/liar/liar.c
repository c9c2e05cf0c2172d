/* SPDX-License-Identifier: MIT */
/*
 * An agent that lies on purpose. The same command line as the real one: `init` is PID 1 and only
 * waits; `relay` serves a small made-up file system on stdin and stdout, honestly unless the
 * environment has LIE=mode (the template's `environment` puts it there). docs: the table `lies`.
 *
 * The tree: workspace/ has file ("hello\n"), dir/ (empty), link (-> file). One process a
 * connection, one thread.
 */
#include "common/proto.h"
#include "tests/liar/lies.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT "hello\n"

enum kind { KIND_ROOT, KIND_WORKSPACE, KIND_FILE, KIND_DIR, KIND_LINK, KINDS };

static const char *const names[KINDS] = {"", "workspace", "file", "dir", "link"};
static const uint32_t modes[KINDS] = {
	S_IFDIR | 0755, S_IFDIR | 0755, S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777};

/* What the daemon's node numbers stand for; the last 4096 are enough here. */
static struct {
	uint64_t node;
	enum kind kind;
} nodes[4096];
static unsigned n_nodes;

static bool read_all(void *p, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = read(STDIN_FILENO, (uint8_t *)p + got, n - got);

		if (r <= 0 && !(r < 0 && errno == EINTR))
			return false;
		got += r > 0 ? (size_t)r : 0;
	}
	return true;
}

static enum kind kind_of(uint64_t node)
{
	if (node == PROTO_NODE_WORKSPACE)
		return KIND_WORKSPACE;
	for (unsigned i = 0; i < 4096; i++)
		if (nodes[i].node == node)
			return nodes[i].kind;
	return KIND_ROOT;
}

static void remember(uint64_t node, enum kind kind)
{
	nodes[n_nodes % 4096].node = node;
	nodes[n_nodes++ % 4096].kind = kind;
}

static void put_attr(struct buf *b, enum kind kind, const char *name)
{
	struct proto_attr a = {.dev = 1,
		.ino = 100 + (uint64_t)kind,
		.mode = modes[kind],
		.nlink = 1,
		.size = kind == KIND_FILE ? strlen(TEXT) : 4,
		.blksize = 4096,
		.mtime = {.sec = 1000000000}};

	a.cache = PROTO_CACHE_ALL; /* nothing changes here */
	lie_attr(&a, strcmp(name, "/set") == 0);
	moves_attr(&a, name);
	proto_put_attr(b, &a);
}

static char looked_up[PROTO_NAME_MAX + 1]; /* the last name */

static int lookup(struct wire_in *in, struct buf *b)
{
	uint64_t parent = wire_get_u64(in);
	char *name = proto_get_name(in);
	uint64_t node = wire_get_u64(in);
	enum kind k = KINDS;

	looked_up[0] = 0;
	if (!in->bad && (moves_on() || kind_of(parent) == KIND_WORKSPACE)) {
		strcpy(looked_up, name);
		for (k = KIND_FILE; k < KINDS && strcmp(names[k], name) != 0; k++)
			;
		if (moves_is_dir(name))
			k = KIND_DIR;
	}
	free(name);
	if (k == KINDS)
		return ENOENT;
	remember(node, k);
	put_attr(b, k, looked_up);
	return 0;
}

static int read_dir(struct wire_in *in, struct buf *b)
{
	uint64_t offset, new;
	uint32_t n_new;

	wire_get_u64(in);
	offset = wire_get_u64(in);
	wire_get_u32(in);
	new = wire_get_u64(in);
	n_new = wire_get_u32(in);
	if (offset)
		return 0;
	for (uint32_t k = KIND_FILE, i = 0; k < KINDS; k++, i++) {
		struct proto_dirent d = {.ino = 100 + k,
			.next = k,
			.type = modes[k] & S_IFMT,
			.name = (const uint8_t *)names[k],
			.name_len = strlen(names[k])};

		if (n_new && i >= n_new)
			break;
		lie_dirent(&d);
		proto_put_dirent(b, &d); /* without attr: the daemon looks it up */
	}
	(void)new;
	return 0;
}

static int read_file(struct wire_in *in, struct buf *b)
{
	uint64_t offset;
	uint32_t size;

	wire_get_u64(in);
	offset = wire_get_u64(in);
	size = wire_get_u32(in);
	if (lie_is("long-read")) {
		wire_u32(b, size + 1);
		for (uint32_t i = 0; i <= size; i++)
			wire_u8(b, 'x');
		return 0;
	}
	if (offset >= strlen(TEXT))
		wire_bytes(b, NULL, 0);
	else
		wire_bytes(b, &TEXT[offset],
			strlen(TEXT) - offset < size ? strlen(TEXT) - offset : size);
	return 0;
}

static int write_file(struct wire_in *in, struct buf *b)
{
	size_t n;

	wire_get_u64(in);
	wire_get_u64(in);
	wire_get_bytes(in, PROTO_MAX_DATA, &n);
	wire_u32(b, (uint32_t)n + (lie_is("big-write") ? 1 : 0));
	return 0;
}

static int job(struct buf *b)
{
	char command[] = "made up", words[] = "";
	struct proto_job j = {.job = 1,
		.name = (char[]){"1"},
		.result = PROTO_RESULT_SUCCESS,
		.pid = 2,
		.size = {4, 0, 4},
		.command_size = strlen(command),
		.command = command,
		.words = words};

	lie_job(&j);
	proto_put_job(b, &j);
	return 0;
}

static int read_job(struct wire_in *in, struct buf *b)
{
	uint8_t stream;
	uint64_t offset;

	wire_get_u64(in);
	stream = wire_get_u8(in);
	offset = wire_get_u64(in);
	if (offset || stream == PROTO_STREAM_STDERR)
		wire_bytes(b, NULL, 0);
	else if (stream == PROTO_STREAM_COMMAND)
		wire_str(b, "made up");
	else
		wire_str(b, lie_is("long-read") ? "out\nand more than was asked for" : "out\n");
	return 0;
}

/* A setting, or the text of ps and stats. */
static int text(struct buf *b, const char *truth)
{
	lie_text(b, truth);
	return 0;
}

static int list_jobs(struct buf *b)
{
	wire_u64(b, 1);
	wire_str(b, lie_is("job-name") ? "../../x" : "1");
	return 0;
}

static int take_stdin(struct wire_in *in, struct buf *b)
{
	size_t n;

	wire_get_u64(in);
	wire_get_u64(in);
	wire_get_u8(in);
	wire_get_bytes(in, PROTO_MAX_DATA, &n);
	wire_u32(b, (uint32_t)n + (lie_is("big-write") ? 1 : 0));
	return 0;
}

static int hello(struct buf *b)
{
	char agent[] = "liar", workspace[] = "/workspace", climb[] = "/../../../../x", none[] = "";
	struct proto_hello h = {.version = lie_is("wrong-version") ? 99 : PROTO_VERSION,
		.agent = agent,
		.workspace = lie_is("workspace-climb") ? climb : workspace,
		.trouble = none};

	if (lie_is("no-version")) {
		buf_puts(b, "liar speaks 7 only");
		return EPROTONOSUPPORT;
	}
	proto_put_hello(b, &h);
	return 0;
}

/* One attribute, user.a, whose value is "b". */
static int list_xattr(struct buf *b)
{
	lie_names(b, "user.a", 7);
	return 0;
}

static int get_xattr(struct wire_in *in, struct buf *b)
{
	char *name;
	int error = ENODATA;

	wire_get_u64(in);
	name = wire_get_str(in, PROTO_NAME_MAX);
	if (name && strcmp(name, "user.a") == 0) {
		lie_value(b, "b");
		error = 0;
	}
	free(name);
	return error;
}

/* A file of one piece: data from the offset on, the hole is its end. */
static int seek(struct wire_in *in, struct buf *b)
{
	uint64_t offset;
	uint32_t whence;

	wire_get_u64(in);
	offset = wire_get_u64(in);
	whence = wire_get_u32(in);
	if (offset >= strlen(TEXT))
		return ENXIO;
	wire_u64(b, lie_is("seek-far") ? UINT64_MAX : whence == 3 ? offset : strlen(TEXT));
	return 0;
}

/* A server that says one line to whoever comes. */
static int read_port(struct wire_in *in, struct buf *b)
{
	static uint64_t served;
	static uint8_t much[PROTO_PORT_DATA + 1];
	uint64_t port = wire_get_u64(in);

	if (lie_is("port-long"))
		wire_bytes(b, much, sizeof(much));
	else
		wire_str(b, port == served ? "" : "hi\n");
	served = port;
	return 0;
}

static int copy(struct wire_in *in, struct buf *b)
{
	uint64_t n = 0;

	for (int i = 0; i < 5; i++)
		n = wire_get_u64(in);
	wire_u64(b, lie_is("big-copy") ? n + 1 : 0);
	return 0;
}

/* The honest body of a reply; returns its errno. */
static int answer(uint16_t type, struct wire_in *in, struct buf *b)
{
	struct proto_statfs st = {.blocks = 1, .bsize = 4096, .frsize = 4096, .namelen = 255};

	switch (type) {
	case PROTO_HELLO:
		return hello(b);
	case PROTO_LOOKUP:
		return lookup(in, b);
	case PROTO_GETATTR:
	case PROTO_SETATTR:
		put_attr(b, kind_of(wire_get_u64(in)), type == PROTO_SETATTR ? "/set" : "");
		return 0;
	case PROTO_READLINK:
		lie_readlink(b, "file");
		return 0;
	case PROTO_READ:
		return read_file(in, b);
	case PROTO_WRITE:
		return write_file(in, b);
	case PROTO_READDIR:
		return read_dir(in, b);
	case PROTO_STATFS:
		proto_put_statfs(b, &st);
		return 0;
	case PROTO_JOB_OPEN:
		wire_u64(b, 1);
		return 0;
	case PROTO_JOB_START:
		wire_u32(b, 2);
		return 0;
	case PROTO_JOB_WAIT:
	case PROTO_JOB_INFO:
	case PROTO_JOB_FIND:
		return job(b);
	case PROTO_JOB_MAKE:
		wire_u64(b, PROTO_JOB_NAMED);
		return 0;
	case PROTO_JOB_LIST:
		return list_jobs(b);
	case PROTO_JOB_GET:
		return text(b, "0");
	case PROTO_JOB_STDIN:
		return take_stdin(in, b);
	case PROTO_PS:
	case PROTO_STATS:
		return text(b, "made up\n");
	case PROTO_JOB_READ:
		return read_job(in, b);
	case PROTO_OPEN:
		wire_u32(b, 0);
		return 0;
	case PROTO_GETXATTR:
		return get_xattr(in, b);
	case PROTO_LISTXATTR:
		return list_xattr(b);
	case PROTO_LSEEK:
		return seek(in, b);
	case PROTO_COPY:
		return copy(in, b);
	case PROTO_LOCK:
	case PROTO_FLOCK:
		return lie_is("lock-eintr") ? EINTR : 0;
	case PROTO_PORT_READ:
		return read_port(in, b);
	case PROTO_PORT_OPEN:
	case PROTO_PORT_WRITE:
	case PROTO_PORT_SHUT:
	case PROTO_PING:
	case PROTO_RENAME:
	case PROTO_ACCESS:
	case PROTO_FALLOCATE:
	case PROTO_SETXATTR:
	case PROTO_REMOVEXATTR:
	case PROTO_OPENDIR:
	case PROTO_FSYNC:
	case PROTO_JOB_WRITE:
	case PROTO_JOB_SET:
	case PROTO_JOB_KILL:
	case PROTO_JOB_DROP:
	case PROTO_LOCK_DROP:
		return 0;
	default:
		return EOPNOTSUPP;
	}
}

static bool one_way(uint16_t type)
{
	return type == PROTO_CANCEL || type == PROTO_FORGET || type == PROTO_CLOSE ||
	       type == PROTO_PORT_CLOSE;
}

static int relay(void)
{
	static uint8_t body[PROTO_MAX_BODY];
	uint8_t head[PROTO_HEAD];
	struct proto_head h;
	struct wire_in in;
	struct buf b;

	buf_init(&b, 8u << 20);
	while (read_all(head, sizeof(head)) && proto_head(head, &h) == 0 && read_all(body, h.len)) {
		int error;

		if (one_way(h.type) || moves_hold(&h))
			continue;
		buf_reset(&b);
		if (h.type == PROTO_CHANGES) {
			if (lie_changes(&b) && !lie_send(&h, 0, &b))
				break;
			continue;
		}
		in = wire_in(body, h.len);
		error = answer(h.type, &in, &b);
		if (error && error != EPROTONOSUPPORT)
			buf_reset(&b);
		moves_before(&h);
		if (!lie_send(&h, error, &b))
			break;
		moves_after(&h, looked_up);
	}
	buf_fini(&b);
	return 0;
}

static void on_term(int sig)
{
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "relay") == 0)
		return relay();
	signal(SIGTERM, on_term);
	signal(SIGINT, on_term);
	for (;;) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		sleep(1);
	}
}
