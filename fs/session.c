/* SPDX-License-Identifier: MIT */
/*
 * HANDLE_KILLPRIV_V2: set-id bits are cleared where the file is, with the writer's rights. Without
 * it the kernel asks for security.capability before each write, and clears the bits by a chmod that
 * the writer may not do. libfuse 3.14 does not know it, so it is added to the answer to INIT, which
 * is the first message in either direction: one thread, before any other is there.
 */
#include "fs/session.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define KILLPRIV_V2 (1u << 28)
#define INIT_OPCODE 26u
#define IN_HEAD	    40 /* bytes of a request's head: length, opcode, unique, ... */
#define FLAGS_AT    12 /* in both bodies: after major, minor, max_readahead */

static enum { BEFORE, ASKED, DONE } state;
static uint64_t unique; /* of the INIT that offers it */

static uint32_t get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static ssize_t io_read(int fd, void *buf, size_t len, void *userdata)
{
	ssize_t n = read(fd, buf, len);
	const char *p = buf;

	(void)userdata;
	if (state != BEFORE || n < 0)
		return n;
	state = DONE;
	if (n >= IN_HEAD + FLAGS_AT + 4 && get32(p + 4) == INIT_OPCODE &&
		(get32(p + IN_HEAD + FLAGS_AT) & KILLPRIV_V2)) {
		memcpy(&unique, p + 8, sizeof(unique));
		state = ASKED;
	}
	return n;
}

/* The answer: a head of 16 bytes (length, error, unique), then the body. */
static void add_flag(struct iovec *iov, int count)
{
	uint64_t to;
	uint32_t flags;
	char *body;

	if (count < 2 || iov[0].iov_len < 16 || iov[1].iov_len < FLAGS_AT + 4)
		return;
	memcpy(&to, (char *)iov[0].iov_base + 8, sizeof(to));
	if (to != unique || get32((char *)iov[0].iov_base + 4) != 0)
		return;
	body = iov[1].iov_base;
	flags = get32(body + FLAGS_AT) | KILLPRIV_V2;
	memcpy(body + FLAGS_AT, &flags, sizeof(flags));
}

static ssize_t io_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	(void)userdata;
	if (state == ASKED) {
		add_flag(iov, count);
		state = DONE;
	}
	return writev(fd, iov, count);
}

int session_extend(struct fuse_session *se)
{
	static const struct fuse_custom_io io = {.writev = io_writev, .read = io_read};

	return fuse_session_custom_io(se, &io, fuse_session_fd(se)) == 0 ? 0 : -EINVAL;
}
