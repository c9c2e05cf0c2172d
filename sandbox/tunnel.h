/* SPDX-License-Identifier: MIT */
/* One forwarded connection: a client's socket here, a connection of the agent's inside. For
 * forward.c. */
#pragma once

#include <stdint.h>

struct sandbox;
struct registry;
struct tunnel;

/* For a client's socket, which is the tunnel's from then on; NULL: no memory, and it is not. In the
 * sandbox's list, with a hold on the registry that is its own. With sb->lock held. */
struct tunnel *tunnel_new(struct sandbox *sb, uint16_t port, int fd);
/* Begins. Once, with no lock held. */
void tunnel_start(struct tunnel *t);
/* Ends all, with a reset for both ends. With sb->lock held. */
void tunnel_end_all(struct sandbox *sb);

/* forward.c: there is one tunnel less. With sb->lock held. */
void forward_room(struct sandbox *sb);
/* forward.c: what the I/O threads must not end without; given back when it is gone. */
void forward_hold(struct registry *r);
void forward_release(struct registry *r);
