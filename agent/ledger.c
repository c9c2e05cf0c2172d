/* SPDX-License-Identifier: MIT */
/*
 * Jobs on the state volume: DIR/jobs/NUMBER/{command,stdout,stderr,output,meta}. `meta` is written
 * at the start (so that an interrupted job is known as lost) and at the end. Loop's thread; a
 * worker removes what nobody asks for.
 */
#include "agent/ledger.h"

#include "agent/creds.h"
#include "agent/spare.h"
#include "agent/state_file.h"
#include "agent/sys.h"
#include "agent/workers.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define META_MAX  4096
#define LOAD_MAX  4096 /* directories looked at when the agent starts */
#define NEXT_FILE "next"

static const char *const files[] = {"command", "stdin", "stdout", "stderr", "output", "settings",
	"settings.new", "meta", "meta.new", "fifo"};

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

	dir_name(num, name);
	if (fd == -ENOTDIR || fd == -ELOOP)
		unlinkat(jobs_fd, name, 0); /* nothing of ours */
	if (fd < 0)
		return;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(fd, files[i], 0);
	unlinkat(jobs_fd, name, AT_REMOVEDIR);
}

struct removal {
	struct work work;
	int jobs_fd;
	uint64_t num;
};

static void remove_it(struct work *w)
{
	struct removal *r = (struct removal *)w;

	creds_own();
	ledger_remove(r->jobs_fd, r->num);
	free(r);
}

void ledger_remove_behind(int jobs_fd, uint64_t num)
{
	struct removal *r = malloc(sizeof(*r));

	if (!r) {
		ledger_remove(jobs_fd, num);
		return;
	}
	*r = (struct removal){.work.run = remove_it, .jobs_fd = jobs_fd, .num = num};
	workers_add(&r->work);
}

int ledger_make(int jobs_fd, struct job *j)
{
	cleanup_close int dir = -1, fd = -1;
	char name[24];
	bool spare;
	int ret = 0;

	ledger_remove(jobs_fd, j->num); /* what an agent that was killed may have left */
	dir_name(j->num, name);
	spare = spare_take(jobs_fd, name) == 0;
	dir = ledger_dir(jobs_fd, j->num, !spare);
	if (dir < 0 && spare) { /* no directory: somebody else's */
		ledger_remove(jobs_fd, j->num);
		spare = false;
		dir = ledger_dir(jobs_fd, j->num, true);
	}
	if (dir < 0)
		return dir;
	/* As spare.c makes it. */
	if (!spare) {
		fd = state_create(dir, "command", 0644);
		ret = fd < 0 ? -errno : 0;
	}
	for (unsigned i = 0; !ret && i < PROTO_SETS; i++)
		if (j->set.text[i]) {
			ret = settings_save(&j->set, dir);
			break;
		}
	if (!ret && j->name)
		ledger_save(jobs_fd, j);
	if (ret)
		ledger_remove(jobs_fd, j->num);
	return ret;
}

/* Any bytes may be in a name, newlines too. */
static void put_name(struct buf *b, const char *name)
{
	buf_puts(b, "name ");
	for (; *name; name++)
		buf_printf(b, "%02x", (unsigned char)*name);
	buf_puts(b, "\n");
}

/* In place, by one write of less than a page: whoever is killed has done it or not. What may then
 * be left behind it of an older text is not read, since the first line with a key counts. No room:
 * it will be lost after a restart, no more. */
static void write_file(int dir, const char *name, const struct buf *b)
{
	cleanup_close int fd = b->error ? -1 : state_open(dir, name, O_WRONLY | O_CREAT, 0600);

	if (fd >= 0 && pwrite(fd, b->data, b->len, 0) == (ssize_t)b->len &&
		ftruncate(fd, (off_t)b->len) < 0)
		log_warn("jobs/%s: %s", name, strerror(errno));
}

void ledger_save(int jobs_fd, const struct job *j)
{
	cleanup_close int dir = ledger_dir(jobs_fd, j->num, false);
	struct store_info info;
	struct buf b;

	if (dir < 0)
		return;
	job_info(j, &info);
	buf_init(&b, META_MAX);
	buf_printf(&b,
		"result %d\nexit %d\npid %d\nforeground %d\nwall %" PRIu64 "\nuser %" PRIu64
		"\nsystem %" PRIu64 "\npeak %" PRIu64 "\ncommand %" PRIu64 "\nstdin %" PRIu64
		"\nborn %" PRIu64 "\n",
		j->result, j->exit_code, j->pid, j->foreground, j->wall_us, j->user_us,
		j->system_us, j->peak_kib, j->command_size, j->stdin_size, j->born);
	for (unsigned i = 0; i < PROTO_STREAMS; i++)
		buf_printf(&b, "stream%u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, info.size[i],
			info.hole_from[i], info.hole_to[i]);
	if (j->name)
		put_name(&b, j->name);
	buf_printf(&b, "words %s\n", j->words);
	write_file(dir, "meta", &b);
	buf_fini(&b);
}

void ledger_save_next(int jobs_fd, const struct ledger_next *next)
{
	struct buf b;

	buf_init(&b, META_MAX);
	buf_printf(&b, "\nnumbered %" PRIu64 "\nnamed %" PRIu64 "\nborn %" PRIu64 "\n",
		next->numbered, next->named, next->born);
	write_file(jobs_fd, NEXT_FILE, &b);
	buf_fini(&b);
}

static uint64_t field(const char *text, const char *key)
{
	char line[32];
	const char *at;

	snprintf(line, sizeof(line), "\n%s ", key);
	at = strstr(text, line);
	return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

/* The file's text after a newline; a count, or -1. */
static ssize_t read_file(int dir, const char *name, char text[META_MAX + 2])
{
	cleanup_close int fd = state_open(dir, name, O_RDONLY, 0);
	ssize_t n = fd < 0 ? -1 : read(fd, text + 1, META_MAX);

	text[0] = '\n';
	text[n > 0 ? n + 1 : 1] = 0;
	return n;
}

static void load_next(int jobs_fd, struct ledger_next *next)
{
	char text[META_MAX + 2];
	uint64_t numbered, named, born;

	if (read_file(jobs_fd, NEXT_FILE, text) <= 0)
		return;
	numbered = field(text, "numbered");
	named = field(text, "named");
	born = field(text, "born");
	if (numbered > next->numbered && numbered < PROTO_JOB_MAIN)
		next->numbered = numbered;
	if (named > next->named && named < INT64_MAX)
		next->named = named;
	if (born > next->born && born < INT64_MAX)
		next->born = born;
}

/* Where bytes are missing between the first and the last, by the file itself. */
static void find_hole(int fd, uint64_t size, uint64_t *from, uint64_t *to)
{
	off_t hole = lseek(fd, 0, SEEK_HOLE), data;

	*from = *to = 0;
	if (hole < 0 || (uint64_t)hole >= size)
		return;
	*from = (uint64_t)hole;
	/* There is one; should there be more, they count as one. */
	for (int i = 0; i < 64 && hole >= 0 && (uint64_t)hole < size; i++) {
		data = lseek(fd, hole, SEEK_DATA);
		*to = data < 0 ? size : (uint64_t)data;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
	}
}

/* What was printed after meta was written is in the files alone: of a lost job, or by what an ended
 * one left behind. And no more is kept than there is, whatever meta says: others would have to go
 * for it. */
static void load_stream(int dir, const char *text, struct store_info *info, unsigned i, bool lost)
{
	cleanup_close int fd = state_open(dir, store_names[i], O_RDONLY, 0);
	uint64_t size = 0, from = 0, to = 0, there;
	struct stat st = {0};
	char line[16];
	const char *at;

	snprintf(line, sizeof(line), "\nstream%u ", i);
	at = strstr(text, line);
	if (at && sscanf(at + strlen(line), "%" SCNu64 " %" SCNu64 " %" SCNu64, &size, &from,
			  &to) != 3)
		size = from = to = 0;
	if (size > INT64_MAX)
		size = 0;
	if (from > to || to > size)
		from = to = 0;
	if (fd >= 0 && fstat(fd, &st) < 0)
		st.st_size = 0;
	there = (uint64_t)st.st_size;
	if (fd >= 0 && (lost || there > size || size - (to - from) > there)) {
		size = there;
		find_hole(fd, size, &from, &to);
	} else if (fd < 0) {
		from = 0;
		to = size;
	}
	info->size[i] = size;
	info->hole_from[i] = from;
	info->hole_to[i] = to;
}

/* A new string, or NULL: it has none, or not a good one. */
static char *load_name(const char *text)
{
	const char *at = strstr(text, "\nname ");
	char name[PROTO_NAME_MAX + 1];
	unsigned byte;
	size_t n = 0;

	for (at = at ? at + 6 : "";
		n < PROTO_NAME_MAX && sscanf(at, "%2x", &byte) == 1 && *at != ' '; at += 2)
		name[n++] = (char)byte;
	return *at == '\n' && proto_name_ok((const uint8_t *)name, n) ? strndup(name, n) : NULL;
}

static void load_fields(struct job *j, const char *text)
{
	const char *words = strstr(text, "\nwords ");

	j->result = (uint8_t)field(text, "result");
	j->exit_code = (int)(int64_t)field(text, "exit");
	j->pid = (pid_t)field(text, "pid");
	j->foreground = field(text, "foreground");
	j->wall_us = field(text, "wall");
	j->user_us = field(text, "user");
	j->system_us = field(text, "system");
	j->peak_kib = field(text, "peak");
	j->command_size = field(text, "command");
	j->stdin_size = field(text, "stdin");
	j->born = field(text, "born");
	if (j->command_size > INT64_MAX)
		j->command_size = 0;
	if (j->stdin_size > INT64_MAX)
		j->stdin_size = 0;
	if (words)
		snprintf(j->words, sizeof(j->words), "%.*s", (int)strcspn(words + 7, "\n"),
			words + 7);
}

static uint64_t size_of(int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return (uint64_t)st.st_size;
}

static struct job *load_one(int jobs_fd, uint64_t num)
{
	cleanup_close int dir = ledger_dir(jobs_fd, num, false);
	char text[META_MAX + 2];
	struct job *j;
	bool lost;

	if (dir < 0 || read_file(dir, "meta", text) <= 0)
		return NULL;
	j = calloc(1, sizeof(*j));
	if (!j)
		return NULL;
	j->num = num;
	j->report.fd = -1;
	load_fields(j, text);
	j->name = num >= PROTO_JOB_NAMED ? load_name(text) : NULL;
	if ((num >= PROTO_JOB_NAMED && !j->name) || (!j->name && !j->result)) {
		free(j); /* not one of ours, or never started */
		return NULL;
	}
	lost = j->result == PROTO_RESULT_RUNNING || j->result >= PROTO_RESULTS;
	if (lost)
		j->result = PROTO_RESULT_LOST;
	if (lost || !j->result || j->exit_code < -1 || j->exit_code > 255)
		j->exit_code = -1;
	settings_load(&j->set, dir);
	if (!j->result) /* still to be started: meta is as old as its making */
		j->command_size = size_of(dir, "command");
	if (!j->result || j->stdin_size > size_of(dir, "stdin"))
		j->stdin_size = size_of(dir, "stdin");
	for (unsigned i = 0; i < PROTO_STREAMS; i++)
		load_stream(dir, text, &j->saved, i, lost);
	if (lost)
		ledger_save(jobs_fd, j);
	return j;
}

static int by_age(const void *a, const void *b)
{
	const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;

	if (x->born != y->born)
		return x->born > y->born ? 1 : -1;
	return (x->num > y->num) - (x->num < y->num);
}

static bool is_ours(const char *name, uint64_t *num)
{
	char again[24];

	*num = strtoull(name, NULL, 10);
	dir_name(*num, again);
	return strcmp(again, name) == 0;
}

/* Of one directory; NULL: nothing is to be kept. */
static struct job *load_dir(int jobs_fd, uint64_t num, struct ledger_next *next)
{
	struct job *j;

	/* No number that we give, or so high that the next would be `main`. */
	if (num >= PROTO_JOB_MAIN - 1 && num < PROTO_JOB_NAMED && num != PROTO_JOB_MAIN) {
		ledger_remove(jobs_fd, num);
		return NULL;
	}
	j = load_one(jobs_fd, num);
	if (num < PROTO_JOB_MAIN && num >= next->numbered)
		next->numbered = num + 1;
	if (num >= next->named && num < INT64_MAX)
		next->named = num + 1;
	if (!j)
		ledger_remove(jobs_fd, num);
	else if (j->born >= next->born && j->born < INT64_MAX)
		next->born = j->born + 1;
	return j;
}

int ledger_load(int jobs_fd, void (*each)(struct job *j), struct ledger_next *next)
{
	_Alignas(8) uint8_t batch[8192];
	static struct job *found[LOAD_MAX];
	size_t n_found = 0;
	uint64_t num;
	ssize_t n;

	load_next(jobs_fd, next);
	while ((n = sys_getdents(jobs_fd, batch, sizeof(batch))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			/* 0 is ctl/ itself. */
			if (!is_ours(d->name, &num) || !num || n_found == LOAD_MAX)
				continue;
			found[n_found] = load_dir(jobs_fd, num, next);
			n_found += found[n_found] ? 1 : 0;
		}
	qsort(found, n_found, sizeof(void *), by_age);
	for (size_t i = 0; i < n_found; i++)
		each(found[i]);
	return n < 0 ? -errno : 0;
}

/* How much there is of it. */
static uint64_t total_of(const struct job *j, unsigned stream)
{
	struct store_info info;

	if (stream == PROTO_STREAM_COMMAND)
		return j->command_size;
	if (stream == PROTO_STREAM_STDIN)
		return j->stdin_size;
	job_info(j, &info);
	return info.size[stream];
}

static const char *file_of(unsigned stream)
{
	if (stream == PROTO_STREAM_COMMAND)
		return "command";
	return stream == PROTO_STREAM_STDIN ? "stdin" : store_names[stream];
}

ssize_t ledger_read(
	int jobs_fd, const struct job *j, unsigned stream, uint64_t offset, void *p, size_t size)
{
	uint64_t total = total_of(j, stream);
	cleanup_close int dir = -1;
	cleanup_close int fd = -1;
	size_t len = 0;

	if (offset >= total)
		return 0;
	if (size > total - offset)
		size = (size_t)(total - offset);
	dir = ledger_dir(jobs_fd, j->num, false);
	if (dir < 0)
		return dir;
	fd = state_open(dir, file_of(stream), O_RDONLY, 0);
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

int ledger_write(int jobs_fd, uint64_t num, const char *file, bool empty, uint64_t offset,
	const void *p, size_t n)
{
	cleanup_close int dir = ledger_dir(jobs_fd, num, false);
	cleanup_close int fd = -1;
	size_t done = 0;

	if (dir < 0)
		return dir;
	fd = state_open(dir, file, O_WRONLY | O_CREAT | (empty ? O_TRUNC : 0), 0644);
	if (fd < 0)
		return -errno;
	while (done < n) {
		ssize_t w = pwrite(fd, (const uint8_t *)p + done, n - done, (off_t)(offset + done));

		if (w < 0 && errno != EINTR)
			return -errno;
		done += w > 0 ? (size_t)w : 0;
	}
	return 0;
}
