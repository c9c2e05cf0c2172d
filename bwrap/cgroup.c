/* SPDX-License-Identifier: MIT */
/*
 * A sandbox's groups are CONTROLLER/PARENT/ID in each hierarchy of version 1, or PARENT/ID in the
 * one of version 2, where PARENT is this data directory's own. Set once, at open; any thread.
 */
#include "bwrap/cgroup.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TOP	     "/sys/fs/cgroup"
#define PERIOD_US    100000u
#define FREEZE_MS    5000
#define GONE_MS	     2000
#define PARENT_TRIES 10

/* The first three are the bits of ENGINE_LIMIT_*. The last two limit nothing: one stops all at
 * once, the other counts. */
enum { MEMORY, CPU, PIDS, FREEZER, CPUACCT, KINDS };

static const char *const names[KINDS] = {"memory", "cpu", "pids", "freezer", "cpuacct"};

struct cgroups {
	int version; /* 0: none */
	unsigned can;
	bool freezer, cpuacct;
	char parent[32];
	char words[160];
};

/* FNV-1a: two data directories share no group. */
static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3u;
	return h;
}

static int put(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	return fd < 0 ? -errno : write(fd, text, n) == (ssize_t)n ? 0 : -errno;
}

static int get(const char *path, char *text, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		return -errno;
	text[n] = 0;
	return 0;
}

/* The directory of `kind`'s group, of the parent where id is NULL; file may be "". */
static void path_of(const struct cgroups *c, int kind, const char *id, const char *file, char *path,
	size_t size)
{
	snprintf(path, size, "%s%s%s/%s%s%s%s%s", TOP, c->version == 1 ? "/" : "",
		c->version == 1 ? names[kind] : "", c->parent, id ? "/" : "", id ? id : "",
		*file ? "/" : "", file);
}

static bool can_make(const struct cgroups *c, int kind)
{
	char path[256];

	path_of(c, kind, NULL, "", path, sizeof(path));
	return mkdir(path, 0755) == 0 || (errno == EEXIST && access(path, W_OK) == 0);
}

/* Which limits version 2 has in the groups of the parent. */
static unsigned enabled_v2(const struct cgroups *c)
{
	char have[512], path[256], *save = NULL;
	unsigned can = 0;

	path_of(c, MEMORY, NULL, "cgroup.subtree_control", path, sizeof(path));
	if (get(path, have, sizeof(have)) < 0)
		return 0;
	for (char *w = strtok_r(have, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		for (int k = MEMORY; k <= PIDS; k++)
			can |= strcmp(w, names[k]) == 0 ? 1u << k : 0;
	return can;
}

static void enable_v2(const struct cgroups *c)
{
	char path[256], word[16];

	path_of(c, MEMORY, NULL, "cgroup.subtree_control", path, sizeof(path));
	/* One by one: of a line with one that is not there none would be taken. */
	for (int k = MEMORY; k <= PIDS; k++) {
		snprintf(word, sizeof(word), "+%s", names[k]);
		put(TOP "/cgroup.subtree_control", word);
		put(path, word);
	}
}

static void find_v2(struct cgroups *c)
{
	c->version = 2;
	if (!can_make(c, MEMORY)) {
		c->version = 0;
		return;
	}
	enable_v2(c);
	c->can = enabled_v2(c);
	c->freezer = true;
}

static void find_v1(struct cgroups *c)
{
	c->version = 1;
	c->can = (can_make(c, MEMORY) ? ENGINE_LIMIT_MEMORY : 0) |
		 (can_make(c, CPU) ? ENGINE_LIMIT_CPU : 0) |
		 (can_make(c, PIDS) ? ENGINE_LIMIT_PIDS : 0);
	c->freezer = can_make(c, FREEZER);
	c->cpuacct = can_make(c, CPUACCT);
	if (!c->can && !c->freezer)
		c->version = 0;
}

struct cgroups *cgroups_new(const char *data)
{
	struct cgroups *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	snprintf(c->parent, sizeof(c->parent), "sandboxfs-%016" PRIx64, hash(data));
	if (access(TOP "/cgroup.controllers", F_OK) == 0)
		find_v2(c);
	else
		find_v1(c);
	if (c->can)
		snprintf(c->words, sizeof(c->words), "%s%s%sby cgroup v%d%s",
			c->can & ENGINE_LIMIT_MEMORY ? "memory " : "",
			c->can & ENGINE_LIMIT_CPU ? "cpu " : "",
			c->can & ENGINE_LIMIT_PIDS ? "pids " : "", c->version,
			c->can & ENGINE_LIMIT_PIDS ? "" : ", pids by rlimit");
	else
		snprintf(c->words, sizeof(c->words),
			"pids by rlimit; none of memory and cpu: no cgroup %scan be made here",
			c->version ? "of theirs " : "");
	return c;
}

void cgroups_free(struct cgroups *c)
{
	char path[256];

	/* Only where nobody's sandbox is in it: others keep it. */
	for (int k = 0; c && c->version && k < KINDS; k++) {
		path_of(c, k, NULL, "", path, sizeof(path));
		rmdir(path);
	}
	free(c);
}

unsigned cgroups_can(const struct cgroups *c)
{
	return c->can;
}

const char *cgroups_words(const struct cgroups *c)
{
	return c->words;
}

static bool has(const struct cgroups *c, int kind)
{
	if (c->version == 2)
		return kind == MEMORY; /* all of them are one directory */
	if (c->version != 1)
		return false;
	return kind == FREEZER	 ? c->freezer
	       : kind == CPUACCT ? c->cpuacct
				 : (c->can & (1u << kind)) != 0;
}

static int set(const struct cgroups *c, int kind, const char *id, const char *file,
	const char *text, struct err *err)
{
	char path[256];
	int r;

	path_of(c, kind, id, file, path, sizeof(path));
	r = put(path, text);
	return r < 0 ? err_set(err, -r, "%s = %s: %s", file, text, strerror(-r)) : 0;
}

static int set_memory(const struct cgroups *c, const char *id, uint64_t bytes, struct err *err)
{
	char text[32] = "max", path[256];
	int r;

	if (c->version == 2) {
		if (bytes)
			snprintf(text, sizeof(text), "%" PRIu64, bytes);
		r = set(c, MEMORY, id, "memory.max", text, err);
		path_of(c, MEMORY, id, "memory.swap.max", path, sizeof(path));
		put(path, bytes ? "0" : "max");
		return r;
	}
	snprintf(text, sizeof(text), "%" PRId64, bytes ? (int64_t)bytes : (int64_t)-1);
	/* With swap it is never less than without: one of the two orders is right. */
	path_of(c, MEMORY, id, "memory.memsw.limit_in_bytes", path, sizeof(path));
	put(path, text);
	r = set(c, MEMORY, id, "memory.limit_in_bytes", text, err);
	put(path, text);
	return r;
}

static int set_cpu(
	const struct cgroups *c, const char *id, uint64_t quota, uint64_t period, struct err *err)
{
	char text[64];
	int r;

	period = period ? period : PERIOD_US;
	if (c->version == 2) {
		if (quota)
			snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64, quota, period);
		else
			snprintf(text, sizeof(text), "max %" PRIu64, period);
		return set(c, CPU, id, "cpu.max", text, err);
	}
	snprintf(text, sizeof(text), "%" PRIu64, period);
	r = set(c, CPU, id, "cpu.cfs_period_us", text, err);
	snprintf(text, sizeof(text), "%" PRId64, quota ? (int64_t)quota : (int64_t)-1);
	return r < 0 ? r : set(c, CPU, id, "cpu.cfs_quota_us", text, err);
}

static int set_pids(const struct cgroups *c, const char *id, uint64_t pids, struct err *err)
{
	char text[32] = "max";

	if (pids)
		snprintf(text, sizeof(text), "%" PRIu64, pids);
	return set(c, PIDS, id, "pids.max", text, err);
}

int cgroups_set(const struct cgroups *c, const char *id, unsigned which,
	const struct engine_limits *l, struct err *err)
{
	int r = 0;

	if (which & ~c->can)
		return err_set(err, EOPNOTSUPP,
			"this limit cannot be set here: no cgroup of it can be made");
	if (which & ENGINE_LIMIT_MEMORY)
		r = set_memory(c, id, l->memory, err);
	if (r < 0)
		return err_prefix(err, "the memory limit");
	if (which & ENGINE_LIMIT_CPU)
		r = set_cpu(c, id, l->cpu_quota_us, l->cpu_period_us, err);
	if (r == 0 && (which & ENGINE_LIMIT_PIDS))
		r = set_pids(c, id, l->pids, err);
	return r;
}

/* Another daemon on this directory may just have removed the empty parent, and may do so again. */
static int make_group(const struct cgroups *c, int kind, const char *path)
{
	int r = -ENOENT;

	for (int i = 0; r == -ENOENT && i < PARENT_TRIES; i++) {
		can_make(c, kind);
		if (c->version == 2 && (enabled_v2(c) & c->can) != c->can)
			enable_v2(c);
		r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
	}
	return r;
}

int cgroups_make(const struct cgroups *c, const char *id, const struct engine_limits *limits,
	char ***dirs, struct err *err)
{
	char **list = calloc(KINDS + 1, sizeof(*list)), path[256];
	size_t n = 0;
	int r = 0;

	if (!list)
		return err_set(err, ENOMEM, "out of memory");
	for (int k = 0; r == 0 && k < KINDS; k++) {
		if (!has(c, k))
			continue;
		path_of(c, k, id, "", path, sizeof(path));
		r = make_group(c, k, path);
		if (r < 0)
			err_set(err, -r, "%s: %s", path, strerror(-r));
		else if (!(list[n++] = strdup(path)))
			r = err_set(err, ENOMEM, "out of memory");
	}
	r = r < 0 ? r : cgroups_set(c, id, c->can, limits, err);
	if (r < 0)
		cgroups_dirs_free(list);
	else
		*dirs = list;
	return r;
}

/* Version 1 tells nobody when a group is frozen: it is looked at, every millisecond. */
static int until_frozen(const char *path, const char *want, struct err *err)
{
	struct timespec pause = {.tv_nsec = 1000000};
	char text[64];

	for (int ms = 0; ms < FREEZE_MS; ms++) {
		if (get(path, text, sizeof(text)) == 0 && strncmp(text, want, strlen(want)) == 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	return err_set(err, ETIMEDOUT, "the sandbox does not come to be %s", want);
}

static int until_event(const char *path, const char *want, struct err *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct pollfd p = {.fd = fd, .events = POLLPRI};
	char text[256];
	ssize_t n;

	for (int i = 0; fd >= 0 && i < 50; i++) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			break;
		text[n] = 0;
		if (strstr(text, want))
			return 0;
		poll(&p, 1, FREEZE_MS / 50);
	}
	return err_set(err, ETIMEDOUT, "the sandbox does not come to be %s", want);
}

int cgroups_freeze(const struct cgroups *c, const char *id, bool freeze, struct err *err)
{
	const char *word = freeze ? "FROZEN" : "THAWED";
	struct err ignored = {0};
	char path[256];
	int r;

	if (!c->freezer)
		return err_set(err, EOPNOTSUPP, "there is no freezer");
	if (c->version == 2) {
		r = set(c, FREEZER, id, "cgroup.freeze", freeze ? "1" : "0", err);
		path_of(c, FREEZER, id, "cgroup.events", path, sizeof(path));
		r = r < 0 ? r : until_event(path, freeze ? "frozen 1" : "frozen 0", err);
		if (r < 0 && freeze) /* not half */
			set(c, FREEZER, id, "cgroup.freeze", "0", &ignored);
		return r;
	}
	r = set(c, FREEZER, id, "freezer.state", word, err);
	path_of(c, FREEZER, id, "freezer.state", path, sizeof(path));
	r = r < 0 ? r : until_frozen(path, word, err);
	if (r < 0 && freeze)
		set(c, FREEZER, id, "freezer.state", "THAWED", &ignored);
	return r;
}

bool cgroups_oom(const struct cgroups *c, const char *id)
{
	char path[256], text[512];
	const char *at;

	if (!(c->can & ENGINE_LIMIT_MEMORY))
		return false;
	path_of(c, MEMORY, id, c->version == 2 ? "memory.events" : "memory.oom_control", path,
		sizeof(path));
	at = get(path, text, sizeof(text)) == 0 ? strstr(text, "oom_kill ") : NULL;
	return at && strtoull(at + strlen("oom_kill "), NULL, 10) > 0;
}

/* A process is in its group for a moment after its end was told. */
void cgroups_remove(const struct cgroups *c, const char *id)
{
	struct timespec pause = {.tv_nsec = 1000000};
	char path[256];

	for (int k = 0; k < KINDS; k++) {
		if (!has(c, k))
			continue;
		path_of(c, k, id, "", path, sizeof(path));
		for (int ms = 0; rmdir(path) < 0 && errno == EBUSY && ms < GONE_MS; ms++)
			nanosleep(&pause, NULL);
	}
}

void cgroups_dirs_free(char **dirs)
{
	for (char **d = dirs; d && *d; d++)
		free(*d);
	free(dirs);
}
