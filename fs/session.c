/* SPDX-License-Identifier: MIT */
/*
 * What libfuse 3.14 does not know is added to the answer to INIT, which is the first message in
 * either direction: one thread, before any other is there.
 *
 * HANDLE_KILLPRIV_V2: set-id bits are cleared where the file is, with the writer's rights. Without
 * it the kernel asks for security.capability before each write, and clears the bits by a chmod that
 * the writer may not do.
 *
 * DIRECT_IO_ALLOW_MMAP (Linux 6.6): what is opened for direct I/O can be mapped all the same.
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
#define INIT_EXT    (1u << 30) /* there are more flags, which follow */
#define DIRECT_MMAP (1u << 4)  /* among those */
#define INIT_OPCODE 26u
#define IN_HEAD	    40 /* bytes of a request's head: length, opcode, unique, ... */
#define FLAGS_AT    12 /* in both bodies: after major, minor, max_readahead */
#define MORE_IN_AT  16
#define MORE_OUT_AT 32

static enum { BEFORE, ASKED, DONE } state;
static uint64_t unique;		   /* of the INIT, as the next two */
static uint32_t flags, more_flags; /* that it offers, of those that we add */

static uint32_t get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void add32(void *p, uint32_t bits)
{
	uint32_t v = get32(p) | bits;

	memcpy(p, &v, sizeof(v));
}

static ssize_t io_read(int fd, void *buf, size_t len, void *userdata)
{
	ssize_t n = read(fd, buf, len);
	const char *p = buf;

	(void)userdata;
	if (state != BEFORE || n < 0)
		return n;
	state = DONE;
	if (n < IN_HEAD + FLAGS_AT + 4 || get32(p + 4) != INIT_OPCODE)
		return n;
	memcpy(&unique, p + 8, sizeof(unique));
	flags = get32(p + IN_HEAD + FLAGS_AT) & (KILLPRIV_V2 | INIT_EXT);
	if (flags & INIT_EXT && n >= IN_HEAD + MORE_IN_AT + 4)
		more_flags = get32(p + IN_HEAD + MORE_IN_AT) & DIRECT_MMAP;
	state = ASKED;
	return n;
}

/* The answer: a head of 16 bytes (length, error, unique), then the body. */
static bool add_flags(struct iovec *iov, int count)
{
	uint64_t to;

	if (count < 2 || iov[0].iov_len < 16 || iov[1].iov_len < FLAGS_AT + 4)
		return false;
	memcpy(&to, (char *)iov[0].iov_base + 8, sizeof(to));
	if (to != unique || get32((char *)iov[0].iov_base + 4) != 0)
		return false;
	if (iov[1].iov_len < MORE_OUT_AT + 4)
		more_flags = 0;
	add32((char *)iov[1].iov_base + FLAGS_AT, more_flags ? flags : flags & ~INIT_EXT);
	if (more_flags)
		add32((char *)iov[1].iov_base + MORE_OUT_AT, more_flags);
	return true;
}

static ssize_t io_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	(void)userdata;
	if (state == ASKED) {
		if (!add_flags(iov, count))
			more_flags = 0;
		state = DONE;
	}
	return writev(fd, iov, count);
}

bool session_maps_direct(void)
{
	return more_flags & DIRECT_MMAP;
}

int session_extend(struct fuse_session *se)
{
	static const struct fuse_custom_io io = {.writev = io_writev, .read = io_read};

	return fuse_session_custom_io(se, &io, fuse_session_fd(se)) == 0 ? 0 : -EINVAL;
}
