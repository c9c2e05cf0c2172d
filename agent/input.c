/* SPDX-License-Identifier: MIT */
/*
 * Live input. The loop's thread; its source waits for room in the pipe or terminal. Memory is
 * bounded however long a command does not read: what was written before the start stays in its
 * file, each request that waits holds a piece of at most 64 KiB, and only so many wait.
 */
#include "agent/input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TAKE_MAX   65536u /* of one request; the rest is for the next */
#define PARKED_MAX 64
#define TURN_MAX   (1u << 20) /* of the file, before others have their turn */
#define END_KEY	   4	      /* ^D */

struct parked {
	struct parked *next;
	struct conn *conn; /* counted */
	uint64_t id;
	bool end;
	size_t at, len;
	uint8_t data[];
};

struct input {
	struct source src; /* first: a source is its input. fd -1: closed */
	int file_fd;
	off_t file_at;
	bool terminal, file_end; /* file_end: the end comes after the file */
	bool out_of_loop;	 /* closed, and no event can name it any more */
	bool freed;		 /* and its memory goes then */
	struct parked *first, *last;
	unsigned n_parked;
};

static void answer(struct parked *p, int code)
{
	struct buf b;
	size_t begun;

	/* What was taken was taken, whatever came then. */
	if (code && !p->at) {
		conn_fail(p->conn, PROTO_JOB_STDIN, p->id, code, NULL, 0);
	} else {
		buf_init(&b, PROTO_HEAD + 16);
		begun = proto_begin(&b, PROTO_JOB_STDIN | PROTO_REPLY, 0, p->id, 0, 0);
		wire_u32(&b, (uint32_t)p->at);
		if (p->conn->session)
			proto_set_seq(&b, begun, changes_seq(p->conn->session));
		if (proto_end(&b, begun) == 0) {
			conn_reply(p->conn, &b, 0);
		} else {
			buf_fini(&b);
			conn_fail(p->conn, PROTO_JOB_STDIN, p->id, ENOMEM, NULL, 0);
		}
	}
	conn_put(p->conn);
	free(p);
}

static void gone(struct source *src)
{
	struct input *in = (struct input *)src;

	in->out_of_loop = true;
	if (in->freed)
		free(in);
}

static void close_it(struct input *in)
{
	struct parked *p;

	if (in->src.fd < 0)
		return;
	loop_del(&in->src, gone);
	close(in->src.fd);
	in->src.fd = -1;
	if (in->file_fd >= 0)
		close(in->file_fd);
	in->file_fd = -1;
	while ((p = in->first)) {
		in->first = p->next;
		answer(p, EPIPE);
	}
	in->last = NULL;
	in->n_parked = 0;
}

void input_free(struct input *in)
{
	if (!in)
		return;
	close_it(in);
	if (in->out_of_loop)
		free(in);
	else
		in->freed = true;
}

/* Bytes that were taken; 0: there is no room now; -EPIPE: nobody reads (any more). */
static ssize_t put(const struct input *in, const void *p, size_t n)
{
	ssize_t w;

	do
		w = write(in->src.fd, p, n);
	while (w < 0 && errno == EINTR);
	if (w < 0)
		return errno == EAGAIN ? 0 : -EPIPE;
	return w;
}

/* The end of the input; false: there is no room for it yet. */
static bool end_it(struct input *in)
{
	struct termios t;
	uint8_t key = END_KEY;

	if (!in->terminal) {
		close_it(in);
		return true;
	}
	if (tcgetattr(in->src.fd, &t) == 0)
		key = t.c_cc[VEOF];
	return put(in, &key, 1) != 0;
}

/* What was written before the start. 1: all of it is in; 0: no room; -EPIPE. */
static int feed_file(struct input *in)
{
	uint8_t piece[16384];
	size_t done = 0;
	ssize_t n, w;

	while (in->file_fd >= 0) {
		if (done >= TURN_MAX) {
			loop_mod(&in->src, EPOLLOUT | EPOLLET); /* tells again if there is room */
			return 0;
		}
		n = pread(in->file_fd, piece, sizeof(piece), in->file_at);
		if (n <= 0) {
			close(in->file_fd);
			in->file_fd = -1;
			break;
		}
		w = put(in, piece, (size_t)n);
		if (w <= 0)
			return (int)w;
		in->file_at += w;
		done += (size_t)w;
	}
	if (in->file_end && !end_it(in))
		return 0;
	in->file_end = false;
	return 1;
}

/* The first that waits. 1: it was answered; 0: no room; -EPIPE. */
static int feed_parked(struct input *in)
{
	struct parked *p = in->first;
	bool end = p->end;
	ssize_t w;

	while (p->at < p->len) {
		w = put(in, p->data + p->at, p->len - p->at);
		if (w <= 0)
			return (int)w;
		p->at += (size_t)w;
	}
	if (end && in->terminal && !end_it(in))
		return 0;
	in->first = p->next;
	if (!in->first)
		in->last = NULL;
	in->n_parked--;
	answer(p, 0);
	if (end && !in->terminal)
		close_it(in);
	return 1;
}

/* Gives what there is room for; epoll tells when there is more. */
static void pump(struct input *in)
{
	int ret = 1;

	while (ret > 0 && in->src.fd >= 0 && (in->file_fd >= 0 || in->file_end || in->first))
		ret = in->file_fd >= 0 || in->file_end ? feed_file(in) : feed_parked(in);
	if (ret < 0)
		close_it(in);
}

static void ready(struct source *src, uint32_t events)
{
	struct input *in = (struct input *)src;

	if (events & EPOLLERR)
		close_it(in); /* nobody reads any more */
	else
		pump(in);
}

struct input *input_new(int fd, int file_fd, bool terminal, bool end)
{
	struct input *in = calloc(1, sizeof(*in));

	if (in)
		*in = (struct input){.src = {.fd = fd, .ready = ready},
			.file_fd = file_fd,
			.terminal = terminal,
			.file_end = end};
	/* Edges: a pipe that nobody reads any more would be told again and again. */
	if (!in || loop_add(&in->src, EPOLLOUT | EPOLLET) < 0) {
		close(fd);
		if (file_fd >= 0)
			close(file_fd);
		free(in);
		return NULL;
	}
	pump(in);
	return in;
}

int input_write(struct input *in, struct request *r, const uint8_t *data, size_t n, bool end)
{
	size_t len = n < TAKE_MAX ? n : TAKE_MAX;
	struct parked *p;

	if (in->src.fd < 0)
		return -EPIPE;
	if (in->n_parked >= PARKED_MAX)
		return err_set(&r->err, EAGAIN, "too many writers wait for this command to read");
	p = malloc(sizeof(*p) + len);
	if (!p)
		return -ENOMEM;
	conn_get(r->conn);
	*p = (struct parked){.conn = r->conn, .id = r->head.id, .end = end && len == n, .len = len};
	if (len)
		memcpy(p->data, data, len);
	*(in->last ? &in->last->next : &in->first) = p;
	in->last = p;
	in->n_parked++;
	pump(in);
	return PARKED;
}

void input_cancel(struct input *in, const struct conn *c, uint64_t id)
{
	struct parked **at = &in->first, *p, *last = NULL;

	while ((p = *at)) {
		if (p->conn != c || (id && p->id != id)) {
			last = p;
			at = &p->next;
			continue;
		}
		*at = p->next;
		in->n_parked--;
		answer(p, EINTR);
	}
	in->last = last;
}

int input_resize(const struct input *in, unsigned columns, unsigned rows)
{
	struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};

	if (!in->terminal || in->src.fd < 0)
		return -ENOTTY;
	return ioctl(in->src.fd, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}
