/* SPDX-License-Identifier: MIT */
/* Lists of parked requests; a list is its job's. Loop's thread. */
#include "agent/waiter.h"

#include "agent/job.h"

#include <stdlib.h>

int waiter_park(struct waiter **list, struct request *r, bool patient)
{
	struct waiter *w = malloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	conn_get(r->conn);
	*w = (struct waiter){.next = *list,
		.conn = r->conn,
		.id = r->head.id,
		.type = r->head.type,
		.patient = patient};
	*list = w;
	return PARKED;
}

int waiter_park_more(struct waiter **list, struct request *r, unsigned stream, uint64_t offset)
{
	int ret = waiter_park(list, r, false);

	if (ret == PARKED) {
		(*list)->stream = stream;
		(*list)->offset = offset;
	}
	return ret;
}

static void answer_one(struct waiter *w, const struct job *j, int code)
{
	struct buf b;
	size_t begun;

	buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
	begun = proto_begin(&b, w->type | PROTO_REPLY, 0, w->id, 0, 0);
	if (!code && (w->type == PROTO_JOB_WAIT || w->type == PROTO_JOB_MORE))
		code = -job_put(&b, j);
	else if (!code && w->type == PROTO_JOB_START)
		wire_u32(&b, (uint32_t)j->pid);
	if (w->conn->session)
		proto_set_seq(&b, begun, changes_seq(w->conn->session));
	if (!code && proto_end(&b, begun) == 0) {
		conn_reply(w->conn, &b, 0);
	} else {
		buf_fini(&b);
		conn_fail(w->conn, w->type, w->id, code ? code : ENOMEM, NULL, 0);
	}
	conn_put(w->conn);
	free(w);
}

/* In the order in which they asked: who told others of a job's start hears of its end first. */
void waiter_answer(struct waiter **list, const struct job *j, int failure)
{
	struct waiter *w, *first = NULL;

	while ((w = *list)) {
		*list = w->next;
		w->next = first;
		first = w;
	}
	while ((w = first)) {
		first = w->next;
		answer_one(w, j, failure);
	}
}

bool waiter_more(struct waiter **list, const struct job *j)
{
	struct waiter **at = list, *w;
	struct store_info info;
	bool others = false;

	job_info(j, &info);
	while ((w = *at)) {
		if (w->type != PROTO_JOB_MORE || info.size[w->stream] <= w->offset) {
			others |= w->type == PROTO_JOB_MORE;
			at = &w->next;
			continue;
		}
		*at = w->next;
		answer_one(w, j, 0);
	}
	return others;
}

void waiter_lose_patience(struct waiter **list, const struct job *j)
{
	struct waiter **at = list, *w;

	while ((w = *at)) {
		if (!w->patient) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		answer_one(w, j, 0);
	}
}

void waiter_cancel(struct waiter **list, const struct conn *c, uint64_t id)
{
	struct waiter **at = list, *w;

	while ((w = *at)) {
		if (w->conn != c || (id && w->id != id)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		conn_fail(w->conn, w->type, w->id, EINTR, NULL, 0);
		conn_put(w->conn);
		free(w);
	}
}
