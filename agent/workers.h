/* SPDX-License-Identifier: MIT */
/* A few threads for requests that may take long. */
#pragma once

struct request;

/* run: what a worker does with a request, which it then owns. */
void workers_init(void (*run)(struct request *r));
void workers_add(struct request *r);
