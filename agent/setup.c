/* SPDX-License-Identifier: MIT */
/*
 * The setup file, applied once in a sandbox's life, and the requests that wait for its end. The
 * file is the daemon's, in a directory that only root can enter; it is mapped, not read, since it
 * may be large. What later starts need is kept in `setup.done`, whose being there is the mark that
 * all was done.
 */
#include "agent/setup.h"

#include "agent/clock.h"
#include "agent/creds.h"
#include "agent/jobs.h"
#include "agent/setup_files.h"
#include "agent/setup_hooks.h"
#include "agent/setup_users.h"
#include "agent/state_file.h"
#include "agent/store.h"
#include "agent/sys.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/setup_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PRE_STOP_MS 10000
#define OUTPUT_MAX  3000u
#define LIMIT_MIN   4096u

enum stage { STAGE_APPLY, STAGE_HOOKS, STAGE_ENDED, STAGE_STOPPING };

static struct {
	int state_fd;
	bool first; /* nothing was done yet */
	enum stage stage;
	const uint8_t *map;
	size_t size;
	const struct launch_config *config;
	struct hooks post_start, pre_stop;
	struct buf kept; /* what goes into setup.done */
	int64_t stop_at; /* ms: pre_stop must have ended */
	struct proto_setup result;
	char words[PROTO_TEXT_MAX];
	struct waiter *waiters;
} self = {.post_start.name = "post_start", .pre_stop = {.name = "pre_stop", .go_on = true}};

static int map_file(const char *name, struct err *err)
{
	cleanup_close int fd = state_open(self.state_fd, name, O_RDONLY, 0);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "the setup: %s", strerror(errno));
	if (st.st_size < 9 || st.st_size > SETUP_MAX)
		return err_set(err, EINVAL, "the setup: not the file that was put there");
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_set(err, errno, "the setup: %s", strerror(errno));
	self.map = map;
	self.size = (size_t)st.st_size;
	return 0;
}

/* Calls fn for each record. */
static int each(
	int (*fn)(struct setup_record *r, void *arg, struct err *err), void *arg, struct err *err)
{
	struct wire_in in = wire_in(self.map, self.size);
	struct setup_record r;
	int ret = 0;

	if (!self.map)
		return 0;
	if (wire_get_u32(&in) != SETUP_MAGIC || wire_get_u32(&in) != SETUP_VERSION)
		return err_set(err, EINVAL, "the setup: of another version");
	do {
		if (setup_record_next(&in, &r) < 0)
			return err_set(err, EINVAL, "the setup: cut short or malformed");
		if (r.kind == SETUP_END)
			return wire_end(&in) ? 0 : err_set(err, EINVAL, "the setup: too long");
		ret = fn(&r, arg, err);
		setup_record_fini(&r);
	} while (ret == 0);
	return ret;
}

/* The limit and the hooks; and a copy of what is needed again. */
static int take(struct setup_record *r, void *arg, struct err *err)
{
	int ret = 0;

	(void)arg;
	if (r->kind == SETUP_LIMIT)
		store_set_keep(r->limit < LIMIT_MIN ? LIMIT_MIN : r->limit);
	if (r->kind == SETUP_LIMIT || r->kind == SETUP_PRE_STOP)
		buf_append(&self.kept, r->raw, r->n_raw);
	if (r->kind == SETUP_POST_START)
		ret = hooks_add(&self.post_start, r);
	else if (r->kind == SETUP_PRE_STOP)
		ret = hooks_add(&self.pre_stop, r);
	return ret || self.kept.error ? err_set(err, ENOMEM, "the setup: out of memory") : 0;
}

static int add_account(struct setup_record *r, void *arg, struct err *err)
{
	bool is = r->kind == SETUP_USER || r->kind == SETUP_GROUP;

	return is ? accounts_add(arg, r, err) : 0;
}

static int has_accounts(struct setup_record *r, void *arg, struct err *err)
{
	(void)err;
	*(bool *)arg |= r->kind == SETUP_USER || r->kind == SETUP_GROUP;
	return 0;
}

static int make_accounts(int root_fd, struct err *err)
{
	struct accounts *a;
	bool any = false;
	int ret = each(has_accounts, &any, err);

	if (ret < 0 || !any)
		return ret;
	a = accounts_open(root_fd, err);
	if (!a)
		return -err->code;
	ret = each(add_account, a, err);
	if (ret == 0)
		ret = accounts_save(a, err);
	accounts_free(a);
	return ret;
}

/* Not by faccessat(): not to follow a link is a flag that older kernels, and seccomp profiles, do
 * not know, which is no sign that the file is missing. */
static bool is_missing(const char *name)
{
	struct stat st;

	return fstatat(self.state_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int setup_begin(int state_fd, int root_fd, bool expected, struct err *err)
{
	int ret;

	self.state_fd = state_fd;
	buf_init(&self.kept, SETUP_MAX);
	wire_u32(&self.kept, SETUP_MAGIC);
	wire_u32(&self.kept, SETUP_VERSION);
	self.first = is_missing(SETUP_DONE);
	if (self.first && !expected)
		return 0;
	if (self.first && is_missing(SETUP_NAME))
		return err_set(err, EIO, "the setup has not arrived: the sandbox was made by half");
	ret = map_file(self.first ? SETUP_NAME : SETUP_DONE, err);
	if (ret == 0)
		ret = each(take, NULL, err);
	return ret < 0 || !self.first ? ret : make_accounts(root_fd, err);
}

static int make_file(struct setup_record *r, void *arg, struct err *err)
{
	bool is = r->kind == SETUP_DIR || r->kind == SETUP_FILE || r->kind == SETUP_LINK;
	int ret = is ? setup_file(*(int *)arg, r, err) : 0;

	return ret < 0 ? err_prefix(err, "files") : 0;
}

int setup_files(int root_fd, struct err *err)
{
	return self.first ? each(make_file, &root_fd, err) : 0;
}

static int set_default(struct setup_record *r, void *arg, struct err *err)
{
	(void)arg;
	return r->kind == SETUP_SET ? jobs_default(r->id, r->name, err) : 0;
}

int setup_defaults(struct err *err)
{
	return self.first ? each(set_default, NULL, err) : 0;
}

/* All was done, and never again. */
static int mark(void)
{
	static const char fresh[] = SETUP_DONE ".new";
	cleanup_close int fd = state_create(self.state_fd, fresh, 0600);
	size_t done = 0;

	wire_u8(&self.kept, SETUP_END);
	if (fd < 0 || self.kept.error)
		return fd < 0 ? -errno : self.kept.error;
	while (done < self.kept.len) {
		ssize_t n = write(fd, self.kept.data + done, self.kept.len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	if (fsync(fd) < 0 || renameat(self.state_fd, fresh, self.state_fd, SETUP_DONE) < 0)
		return -errno;
	unlinkat(self.state_fd, SETUP_NAME, 0); /* it may be large */
	return 0;
}

static void answer(struct waiter *w)
{
	char none[] = "";
	struct proto_setup s = self.result;
	struct buf b;
	size_t begun;

	s.words = self.words;
	s.output = s.output ? s.output : none;
	buf_init(&b, PROTO_HEAD + PROTO_MAX_BODY);
	begun = proto_begin(&b, PROTO_SETUP | PROTO_REPLY, 0, w->id, 0, 0);
	proto_put_setup(&b, &s);
	if (w->conn->session)
		proto_set_seq(&b, begun, changes_seq(w->conn->session));
	if (proto_end(&b, begun) == 0) {
		conn_reply(w->conn, &b, 0);
	} else {
		buf_fini(&b);
		conn_fail(w->conn, PROTO_SETUP, w->id, ENOMEM, NULL, 0);
	}
	conn_put(w->conn);
	free(w);
}

/* The map goes: what was in it has been used. */
static void end(uint8_t result, const struct err *what)
{
	struct waiter *w;

	self.result.result = result;
	if (what)
		snprintf(self.words, sizeof(self.words), "%s", what->msg);
	if (what)
		log_error("%s", what->msg);
	if (self.map)
		munmap((void *)(uintptr_t)self.map, self.size);
	self.map = NULL;
	self.stage = STAGE_ENDED;
	while ((w = self.waiters)) {
		self.waiters = w->next;
		answer(w);
	}
}

void setup_give_up(void)
{
	end(PROTO_SETUP_FAILED, NULL);
}

void setup_start(const struct launch_config *config)
{
	self.config = config;
	if (!self.first || !self.map) {
		end(PROTO_SETUP_FINE, NULL);
		return;
	}
	self.stage = STAGE_HOOKS;
	setup_tick();
}

static void go_on(void)
{
	struct err what = {0};
	uint64_t job = 0;
	int ret = hooks_go_on(&self.post_start, self.config, &what, &self.result.exit_code, &job);

	if (ret == 1)
		return;
	self.result.hooks = (uint32_t)self.post_start.n;
	if (ret < 0) {
		self.result.output = job ? hooks_output(job, OUTPUT_MAX) : NULL;
		end(PROTO_SETUP_HOOK_FAILED, &what);
		return;
	}
	ret = mark();
	if (ret < 0)
		err_set(&what, -ret, "the state volume: %s", strerror(-ret));
	end(ret < 0 ? PROTO_SETUP_FAILED : PROTO_SETUP_FINE, ret < 0 ? &what : NULL);
}

bool setup_stop(void)
{
	if (self.stage != STAGE_ENDED || self.result.result || !self.pre_stop.n)
		return false;
	self.stage = STAGE_STOPPING;
	self.stop_at = clock_ms() + PRE_STOP_MS;
	return true;
}

bool setup_stopping(void)
{
	return self.stage == STAGE_STOPPING;
}

int setup_tick(void)
{
	struct err what = {0};
	uint64_t job;
	int code;

	if (self.stage == STAGE_HOOKS || self.stage == STAGE_STOPPING)
		creds_own();
	if (self.stage == STAGE_HOOKS)
		go_on();
	if (self.stage != STAGE_STOPPING)
		return -1;
	if (clock_ms() < self.stop_at &&
		hooks_go_on(&self.pre_stop, self.config, &what, &code, &job) == 1)
		return (int)(self.stop_at - clock_ms()) + 1;
	self.stage = STAGE_ENDED;
	self.pre_stop.n = 0; /* once */
	return 0;
}

int setup_ask(struct request *r)
{
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	ret = waiter_park(&self.waiters, r, false);
	if (ret == PARKED && self.stage >= STAGE_ENDED) {
		struct waiter *w = self.waiters;

		self.waiters = w->next;
		answer(w);
	}
	return ret;
}

void setup_cancel(const struct conn *c, uint64_t id)
{
	waiter_cancel(&self.waiters, c, id);
}
