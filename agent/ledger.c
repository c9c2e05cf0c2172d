/* SPDX-License-Identifier: MIT */
/*
 * Jobs on the state volume: DIR/jobs/NUMBER/{command,stdout,stderr,output,meta}. `meta` is written
 * at the start (so that an interrupted job is known as lost) and at the end. Loop's thread.
 */
#include "agent/ledger.h"

#include "agent/sys.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define META_MAX 4096
#define LOAD_MAX 1024 /* jobs read at start */

static const char *const files[] = {
	"command", "stdout", "stderr", "output", "meta", "meta.new", "fifo"};

static void dir_name(uint64_t num, char name[24])
{
	snprintf(name, 24, "%" PRIu64, num);
}

int ledger_dir(int jobs_fd, uint64_t num, bool make)
{
	char name[24];
	int fd;

	dir_name(num, name);
	if (make && mkdirat(jobs_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(jobs_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

void ledger_remove(int jobs_fd, uint64_t num)
{
	cleanup_close int fd = ledger_dir(jobs_fd, num, false);
	char name[24];

	if (fd < 0)
		return;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(fd, files[i], 0);
	dir_name(num, name);
	unlinkat(jobs_fd, name, AT_REMOVEDIR);
}

void ledger_save(int jobs_fd, const struct job *j)
{
	cleanup_close int dir = ledger_dir(jobs_fd, j->num, false);
	cleanup_close int fd = -1;
	struct store_info info;
	char text[META_MAX];
	int n;

	if (dir < 0)
		return;
	job_info(j, &info);
	n = snprintf(text, sizeof(text),
		"result %d\nexit %d\npid %d\nforeground %d\nwall %" PRIu64 "\nuser %" PRIu64
		"\nsystem %" PRIu64 "\npeak %" PRIu64 "\ncommand %" PRIu64 "\n",
		j->result, j->exit_code, j->pid, j->foreground, j->wall_us, j->user_us,
		j->system_us, j->peak_kib, j->command_size);
	for (unsigned i = 0; i < PROTO_STREAMS && n > 0; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			"stream%u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, info.size[i],
			info.hole_from[i], info.hole_to[i]);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "words %s\n", j->words);
	fd = openat(dir, "meta.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return; /* no room: it will be lost after a restart, no more */
	renameat(dir, "meta.new", dir, "meta");
}

static uint64_t field(const char *text, const char *key)
{
	char line[32];
	const char *at;

	snprintf(line, sizeof(line), "\n%s ", key);
	at = strstr(text, line);
	return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

/* Sizes by the files themselves: what a lost job printed is there even if meta says nothing. */
static void load_streams(int dir, const char *text, struct job *j, bool lost)
{
	struct store_info *info = &j->saved;
	struct stat st;

	for (unsigned i = 0; i < PROTO_STREAMS; i++) {
		char line[16];
		const char *at;

		snprintf(line, sizeof(line), "\nstream%u ", i);
		at = strstr(text, line);
		if (at && sscanf(at + strlen(line), "%" SCNu64 " %" SCNu64 " %" SCNu64,
				  &info->size[i], &info->hole_from[i], &info->hole_to[i]) != 3)
			info->size[i] = info->hole_from[i] = info->hole_to[i] = 0;
		if (lost && fstatat(dir, store_names[i], &st, AT_SYMLINK_NOFOLLOW) == 0) {
			info->size[i] = (uint64_t)st.st_size;
			store_lost_hole(info, i, (uint64_t)st.st_size);
		}
		if (info->hole_from[i] > info->hole_to[i] || info->hole_to[i] > info->size[i])
			info->hole_from[i] = info->hole_to[i] = 0;
	}
}

static struct job *load_one(int jobs_fd, uint64_t num)
{
	cleanup_close int dir = ledger_dir(jobs_fd, num, false);
	cleanup_close int fd = -1;
	char text[META_MAX + 2] = "\n";
	struct job *j;
	const char *words;
	ssize_t n;
	bool lost;

	if (dir < 0)
		return NULL;
	fd = openat(dir, "meta", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? -1 : read(fd, text + 1, META_MAX);
	j = n <= 0 ? NULL : calloc(1, sizeof(*j));
	if (!j)
		return NULL;
	text[n + 1] = 0;
	j->num = num;
	j->report.fd = -1;
	j->result = (uint8_t)field(text, "result");
	j->exit_code = (int)(int64_t)field(text, "exit");
	j->pid = (pid_t)field(text, "pid");
	j->foreground = field(text, "foreground");
	j->wall_us = field(text, "wall");
	j->user_us = field(text, "user");
	j->system_us = field(text, "system");
	j->peak_kib = field(text, "peak");
	j->command_size = field(text, "command");
	lost = j->result < PROTO_RESULT_SUCCESS || j->result >= PROTO_RESULTS;
	if (lost)
		j->result = PROTO_RESULT_LOST;
	if (lost || j->exit_code < -1 || j->exit_code > 255)
		j->exit_code = -1;
	words = strstr(text, "\nwords ");
	if (words)
		snprintf(j->words, sizeof(j->words), "%.*s", (int)strcspn(words + 7, "\n"),
			words + 7);
	load_streams(dir, text, j, lost);
	if (lost)
		ledger_save(jobs_fd, j);
	return j;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int ledger_load(int jobs_fd, void (*each)(struct job *j))
{
	_Alignas(8) uint8_t batch[8192];
	uint64_t nums[LOAD_MAX];
	size_t n_nums = 0;
	ssize_t n;

	while ((n = sys_getdents(jobs_fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			if (isdigit((unsigned char)d->name[0]) && n_nums < LOAD_MAX)
				nums[n_nums++] = strtoull(d->name, NULL, 10);
		}
	qsort(nums, n_nums, sizeof(nums[0]), by_number);
	for (size_t i = 0; i < n_nums; i++) {
		struct job *j = load_one(jobs_fd, nums[i]);

		if (j)
			each(j);
		else
			ledger_remove(jobs_fd, nums[i]); /* never started, or unreadable */
	}
	return n < 0 ? -errno : 0;
}

ssize_t ledger_read(
	int jobs_fd, const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size)
{
	cleanup_close int dir = -1;
	cleanup_close int fd = -1;
	struct store_info info;
	uint64_t total = j->command_size;
	size_t len = 0;

	job_info(j, &info);
	if (stream < PROTO_STREAMS)
		total = info.size[stream];
	if (offset >= total)
		return 0;
	if (size > total - offset)
		size = (size_t)(total - offset);
	dir = ledger_dir(jobs_fd, j->num, false);
	if (dir < 0)
		return dir;
	fd = openat(dir, stream < PROTO_STREAMS ? store_names[stream] : "command",
		O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	while (fd >= 0 && len < size) {
		ssize_t n = pread(fd, (uint8_t *)p + len, size - len, (off_t)(offset + len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	memset((uint8_t *)p + len, 0, size - len); /* dropped, but counted */
	return (ssize_t)size;
}
