/* SPDX-License-Identifier: MIT */
/* Any thread. */
#include "bwrap/record.h"

#include "common/cleanup.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define RECORD_FILE "box.json"
#define FILE_MAX    (8u << 20)

static void json_free(cJSON **j)
{
	cJSON_Delete(*j);
}

#define cleanup_json __attribute__((cleanup(json_free)))

/* The whole file and a NUL, a new string; NULL with errno. */
static char *read_file(int dir, const char *name)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len = 0;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (st.st_size > FILE_MAX) {
		errno = EFBIG;
		return NULL;
	}
	text = malloc((size_t)st.st_size + 1);
	while (text && len < (size_t)st.st_size) {
		n = read(fd, text + len, (size_t)st.st_size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return NULL;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (text)
		text[len] = 0;
	return steal_ptr(&text);
}

static char *get_text(const cJSON *j, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));

	return strdup(s ? s : "");
}

/* Numbers stand as text where a double would round them. */
static uint64_t get_number(const cJSON *j, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));

	return s ? strtoull(s, NULL, 10) : 0;
}

static void put_number(cJSON *j, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	cJSON_AddStringToObject(j, key, text);
}

int record_lock(int box_fd, struct err *err)
{
	cleanup_close int fd = openat(box_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	while (fd >= 0 && flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(err, errno, "the sandbox's lock: %s", strerror(errno));
	return fd < 0 ? err_set(err, errno, "the sandbox's lock: %s", strerror(errno))
		      : steal_fd(&fd);
}

int record_read(int box_fd, struct record *r, struct err *err)
{
	cleanup_free char *text = read_file(box_fd, RECORD_FILE);
	cleanup_json cJSON *j = text ? cJSON_Parse(text) : NULL;
	uint64_t mark;

	if (!text)
		return err_set(err, errno, "the sandbox's record: %s", strerror(errno));
	if (!cJSON_IsObject(j))
		return err_set(err, EIO, "the sandbox's record is no JSON");
	mark = get_number(j, "mark");
	*r = (struct record){.name = get_text(j, "name"),
		.mark = mark <= ENGINE_MARK_IDLE ? (enum engine_mark)mark : ENGINE_MARK_NONE,
		.owner = (uint32_t)get_number(j, "owner"),
		.template = get_text(j, "template"),
		.config = get_text(j, "config"),
		.image_id = get_text(j, "image"),
		.error = get_text(j, "error"),
		.created = (int64_t)get_number(j, "created"),
		.limits = {.memory = get_number(j, "memory"),
			.cpu_quota_us = get_number(j, "cpu_quota_us"),
			.cpu_period_us = get_number(j, "cpu_period_us"),
			.pids = get_number(j, "pids")},
		.paused = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "paused"))};
	if (r->name && r->template && r->config && r->image_id && r->error)
		return 0;
	record_fini(r);
	return err_set(err, ENOMEM, "out of memory");
}

/* As long for one that is paused as for one that is not: write_over() is to be able to change that
 * either way. */
static char *print(const struct record *r)
{
	cleanup_json cJSON *j = cJSON_CreateObject();
	cleanup_free char *text = NULL;
	char *padded;

	cJSON_AddStringToObject(j, "name", r->name);
	put_number(j, "mark", r->mark);
	put_number(j, "owner", r->owner);
	cJSON_AddStringToObject(j, "template", r->template);
	cJSON_AddStringToObject(j, "config", r->config);
	cJSON_AddStringToObject(j, "image", r->image_id);
	cJSON_AddStringToObject(j, "error", r->error);
	put_number(j, "created", (uint64_t)r->created);
	put_number(j, "memory", r->limits.memory);
	put_number(j, "cpu_quota_us", r->limits.cpu_quota_us);
	put_number(j, "cpu_period_us", r->limits.cpu_period_us);
	put_number(j, "pids", r->limits.pids);
	/* The last: with it there is all of it. */
	if (!cJSON_AddBoolToObject(j, "paused", r->paused) || !(text = cJSON_PrintUnformatted(j)))
		return NULL;
	return asprintf(&padded, "%s%s", text, r->paused ? " " : "") < 0 ? NULL : padded;
}

/* In the file's own place, where it is not longer than before: so a full disk keeps nobody from
 * removing a sandbox, which is what makes room. */
static bool write_over(int box_fd, const char *text, size_t n)
{
	cleanup_close int fd = openat(box_fd, RECORD_FILE, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free char *padded = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size < n)
		return false;
	padded = malloc((size_t)st.st_size);
	if (!padded)
		return false;
	memset(padded, ' ', (size_t)st.st_size);
	memcpy(padded, text, n);
	return pwrite(fd, padded, (size_t)st.st_size, 0) == st.st_size;
}

int record_write(int box_fd, const struct record *r, struct err *err)
{
	cleanup_free char *text = print(r);
	cleanup_close int fd = -1;
	size_t n = text ? strlen(text) : 0;
	int code;

	if (!text)
		return err_set(err, ENOMEM, "out of memory");
	fd = openat(box_fd, ".box.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	errno = fd < 0 ? errno : ENOSPC; /* a write that is cut short says nothing else */
	if (fd >= 0 && write(fd, text, n) == (ssize_t)n &&
		renameat(box_fd, ".box.json", box_fd, RECORD_FILE) == 0)
		return 0;
	code = errno;
	unlinkat(box_fd, ".box.json", 0);
	if ((code == ENOSPC || code == EDQUOT) && write_over(box_fd, text, n))
		return 0;
	return err_set(err, code, "the sandbox's record: %s", strerror(code));
}

void record_fini(struct record *r)
{
	free(r->name);
	free(r->template);
	free(r->config);
	free(r->image_id);
	free(r->error);
	*r = (struct record){0};
}

static bool this_boot(const char *boot, bool *unknown)
{
	cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char id[64] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);

	*unknown |= n <= 0;
	if (n > 0 && id[n - 1] == '\n')
		id[n - 1] = 0;
	return strcmp(id, boot) == 0;
}

/* A pid can be another process's by now; its namespace tells. */
static bool lives(pid_t pid, double pidns, bool *unknown)
{
	char path[48], link[64];
	unsigned long long inode = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0) {
		*unknown |= n < 0 && errno == ENOMEM;
		return false;
	}
	link[n] = 0;
	return sscanf(link, "pid:[%llu]", &inode) == 1 && (double)inode == pidns;
}

static void read_status(int box_fd, const char *name, struct status *s)
{
	cleanup_free char *text = read_file(box_fd, name);
	const char *at = text;
	bool boot = false;
	double pidns = -1;

	*s = (struct status){.unknown = !text && errno != ENOENT};
	while (at && *at) {
		const char *end = NULL;
		cleanup_json cJSON *j = cJSON_ParseWithOpts(at, &end, 0);
		const cJSON *v;

		if (!j)
			break;
		at = end;
		v = cJSON_GetObjectItemCaseSensitive(j, "boot");
		boot |= cJSON_IsString(v) && this_boot(v->valuestring, &s->unknown);
		v = cJSON_GetObjectItemCaseSensitive(j, "child-pid");
		if (cJSON_IsNumber(v)) {
			s->started = true;
			s->pid = v->valueint;
			v = cJSON_GetObjectItemCaseSensitive(j, "pid-namespace");
			pidns = cJSON_IsNumber(v) ? v->valuedouble : -1;
		}
		v = cJSON_GetObjectItemCaseSensitive(j, "exit-code");
		if (cJSON_IsNumber(v)) {
			s->has_code = true;
			s->exit_code = v->valueint & 255;
		}
	}
	s->alive = s->started && !s->has_code && boot && s->pid > 0 &&
		   lives(s->pid, pidns, &s->unknown);
}

void status_read(int box_fd, struct status *s)
{
	read_status(box_fd, STATUS_FILE, s);
}

void status_settle(int box_fd)
{
	struct status s;

	read_status(box_fd, STATUS_NEW, &s);
	if (s.started)
		renameat(box_fd, STATUS_NEW, box_fd, STATUS_FILE);
}
