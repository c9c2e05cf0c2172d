/* SPDX-License-Identifier: MIT */
/*
 * Ports of a sandbox on this machine's loopback: a listener whose connections are forwarded through
 * the agent, so that it needs no network inside; or what the engine publishes itself. Any thread.
 */
#pragma once

#include "common/err.h"
#include "sandbox/engine.h"

struct sandbox;

/* The address of a port inside ("127.0.0.1:49153"). The first call opens the listener, which lives
 * as long as the sandbox is in sight. -ENOENT: it was removed. */
int forward_open(
	struct sandbox *sb, uint16_t port, char address[ENGINE_ADDRESS_MAX], struct err *err);

/* Its address if it has one already; false: none. */
bool forward_find(struct sandbox *sb, uint16_t port, char address[ENGINE_ADDRESS_MAX]);

/* The ports that have one, in no order: a new array (free() it). -ENOMEM. */
int forward_list(struct sandbox *sb, uint16_t **ports, size_t *n);

/* How long an address is that forward_open makes: sizes are told before there is one. */
#define FORWARD_ADDRESS_LEN 15u

/* registry.c's: the sandbox is out of sight. Ends listeners and connections; none come after. */
void forward_end_all(struct sandbox *sb);
