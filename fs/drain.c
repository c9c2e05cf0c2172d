/* SPDX-License-Identifier: MIT */
/* One thread, which knows nothing but the descriptor. */
#include "fs/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM	((1u << 20) + (64u << 10)) /* more than any request: the kernel wants it so */
#define LOOK_MS 50

/* Those that nobody answers. */
#define FORGET	     2u
#define INTERRUPT    36u
#define BATCH_FORGET 42u

struct drain {
	int fd;
	pthread_t thread;
	_Atomic bool stop;
	uint8_t request[ROOM];
};

/* A request begins with its length, its kind and its number; so does an answer, with an errno. */
static void answer(const struct drain *d)
{
	struct {
		uint32_t len;
		int32_t error;
		uint64_t unique;
	} out = {.len = sizeof(out), .error = -ENOTCONN};
	uint32_t kind;

	memcpy(&kind, d->request + 4, sizeof(kind));
	memcpy(&out.unique, d->request + 8, sizeof(out.unique));
	if (kind == FORGET || kind == INTERRUPT || kind == BATCH_FORGET)
		return;
	if (write(d->fd, &out, sizeof(out)) < 0)
		return; /* its caller has gone */
}

static void *run(void *arg)
{
	struct drain *d = arg;
	struct pollfd p = {.fd = d->fd, .events = POLLIN};

	while (!d->stop) {
		ssize_t n = read(d->fd, d->request, sizeof(d->request));

		if (n >= 16)
			answer(d);
		else if (n < 0 && errno == ENODEV)
			break; /* unmounted */
		else
			poll(&p, 1, LOOK_MS);
	}
	return NULL;
}

struct drain *drain_start(struct fuse_session *se)
{
	struct drain *d = calloc(1, sizeof(*d));
	int flags;

	if (!d)
		return NULL;
	d->fd = fuse_session_fd(se);
	flags = fcntl(d->fd, F_GETFL); /* a request can go while we come for it */
	if (flags < 0 || fcntl(d->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		pthread_create(&d->thread, NULL, run, d)) {
		free(d);
		return NULL;
	}
	return d;
}

void drain_stop(struct drain *d)
{
	if (!d)
		return;
	d->stop = true;
	pthread_join(d->thread, NULL);
	free(d);
}
