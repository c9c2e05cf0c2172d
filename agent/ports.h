/* SPDX-License-Identifier: MIT */
/* Forwarded ports: TCP connections that the daemon has inside. The loop's thread. */
#pragma once

#include "agent/request.h"

int ports_open(struct request *r);
int ports_read(struct request *r);
int ports_write(struct request *r);
int ports_shut(struct request *r);
int ports_close(struct request *r);

unsigned ports_count(void);	    /* connections that are open */
void ports_gone(struct conn *c);    /* ends all of a connection of the daemon's */
void ports_drained(struct conn *c); /* replies have been taken: reading goes on */
