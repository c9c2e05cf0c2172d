/* SPDX-License-Identifier: MIT */
/* signal: what is written goes to the job's whole tree. */
#include "fs/ctl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SIGNALS 64 /* Linux's, those of real time included */

/* "TERM", "SIGTERM", "15"; 0: no signal. */
static uint32_t parse(const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	if (isdigit((unsigned char)*word))
		return *end || n > SIGNALS ? 0 : (uint32_t)n;
	if (strncasecmp(word, "SIG", 3) == 0)
		word += 3;
	for (int k = 1; k < NSIG; k++) {
		const char *name = sigabbrev_np(k);

		if (name && strcasecmp(name, word) == 0)
			return (uint32_t)k;
	}
	return 0;
}

static void signal_measure(
	fuse_req_t req, struct inode *i, struct fuse_file_info *fi, enum answer how)
{
	(void)fi;
	ctl_answer(req, i, 0, how);
}

static void signal_open(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	fi->direct_io = 1;
	if ((fi->flags & O_ACCMODE) == O_WRONLY)
		fuse_reply_open(req, fi);
	else
		fuse_reply_err(req, EACCES);
}

static enum op_outcome reply_sent(struct op *op, fuse_req_t req, struct wire_in *body)
{
	if (!wire_end(body))
		return OP_BAD;
	if (req && op->flags)
		fuse_reply_err(req, 0);
	else if (req)
		fuse_reply_write(req, op->size);
	return OP_DONE;
}

static void send_signal(fuse_req_t req, struct inode *i, const char *data, size_t size, bool put)
{
	char word[16] = "";
	size_t n = size;
	uint32_t sig;
	struct op *op;

	while (n && isspace((unsigned char)data[n - 1]))
		n--;
	if (n < sizeof(word))
		memcpy(word, data, n);
	sig = parse(word);
	if (!sig) {
		struct err err;

		err_set(&err, EINVAL, "%s is no signal: a name such as TERM, or 1 to %d",
			*word ? word : "that", SIGNALS);
		ctl_fail(req, i, &err);
		return;
	}
	op = op_new(req, i, PROTO_JOB_KILL, reply_sent);
	if (!op)
		return;
	op->failed = ctl_failed;
	op->size = size;
	op->flags = put;
	wire_u64(&op->call.frame, i->job);
	wire_u32(&op->call.frame, sig);
	op_send(op);
}

static void signal_write(fuse_req_t req, struct inode *i, const char *data, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	(void)off;
	(void)fi;
	send_signal(req, i, data, size, false);
}

static void signal_put(fuse_req_t req, struct inode *i, const char *data, size_t size)
{
	send_signal(req, i, data, size, true);
}

const struct node_ops signal_ops = {
	.kind = 'K',
	.measure = signal_measure,
	.setattr = ctl_setattr,
	.open = signal_open,
	.write = signal_write,
	.put = signal_put,
};
