/* SPDX-License-Identifier: MIT */
/*
 * The modes rename-*: lies about moves, told at the worst moment. Here every directory has a link,
 * which climbs, and directories of one letter, each with the same in it.
 *
 * rename-late   RENAME is answered, with success, when its caller has long gone: before READLINK.
 * rename-link   READLINK is answered a while after the RENAME that comes next.
 * rename-race   The same, in one breath with it.
 * rename-mkdir  No lie: `late` is made when its caller has long gone, once somebody asks for `go`.
 * rename-swap   What is to be moved is another directory for who looks, just before it is moved.
 */
#include "tests/liar/lies.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct proto_head held; /* not answered yet */
static bool holding;
static bool made;	    /* rename-mkdir: late is there */
static int64_t released_ms; /* when one was answered last */

bool moves_on(void)
{
	const char *lie = getenv("LIE");

	return lie && strncmp(lie, "rename-", 7) == 0;
}

bool moves_is_dir(const char *name)
{
	return moves_on() && (strlen(name) == 1 || strcmp(name, "late") == 0);
}

/* Out of the mount: from its place in rename-link, else from one below. */
void moves_text(struct buf *b)
{
	wire_str(b, lie_is("rename-link") ? "../../../canary/secret" : "../../../../canary/secret");
}

void moves_attr(struct proto_attr *a, const char *name)
{
	if (lie_is("rename-mkdir") && strcmp(name, "late") == 0 && !made)
		*a = (struct proto_attr){.cache = PROTO_CACHE_ALL}; /* there is none, believe me */
	if (!lie_is("rename-swap") || strcmp(name, "d") != 0)
		return;
	a->cache = 0; /* so that who walks asks */
	a->ino += holding ? 1000 : 0;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void release(void)
{
	struct buf b;

	buf_init(&b, 1u << 16);
	if (held.type == PROTO_READLINK)
		moves_text(&b);
	if (held.type == PROTO_MKDIR)
		proto_put_attr(
			&b, &(struct proto_attr){.dev = 1, .ino = 99, .mode = 0040755, .nlink = 2});
	made = held.type == PROTO_MKDIR;
	holding = false;
	released_ms = now_ms();
	lie_send(&held, 0, &b);
	buf_fini(&b);
}

bool moves_hold(const struct proto_head *h)
{
	uint16_t type = PROTO_RENAME;

	if (lie_is("rename-link") || lie_is("rename-race"))
		type = PROTO_READLINK;
	else if (lie_is("rename-mkdir"))
		type = PROTO_MKDIR;
	if (!moves_on() || holding || h->type != type)
		return false;
	if (now_ms() - released_ms < 150) /* the kernel asks once more */
		return false;
	held = *h;
	return holding = true;
}

void moves_before(const struct proto_head *h)
{
	if (holding && held.type == PROTO_RENAME && h->type == PROTO_READLINK)
		release();
}

void moves_after(const struct proto_head *h, const char *name)
{
	if (!holding)
		return;
	if (held.type == PROTO_READLINK && h->type == PROTO_RENAME) {
		if (lie_is("rename-link"))
			usleep(300000);
		release();
	} else if (held.type == PROTO_MKDIR && h->type == PROTO_LOOKUP && strcmp(name, "go") == 0) {
		release();
	} else if (lie_is("rename-swap") && h->type == PROTO_LOOKUP && strcmp(name, "d") == 0) {
		usleep(300000);
		release();
	}
}
