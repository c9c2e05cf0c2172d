/* SPDX-License-Identifier: MIT */
/*
 * A table of processes from /proc. Workers ask, since there may be thousands; the list of
 * supervisors is the loop's, so `lock` guards it. Names are the sandbox's: any bytes, made
 * printable; the whole is cut at what a message holds.
 */
#include "agent/ps.h"

#include "agent/sys.h"
#include "agent/user.h"
#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PROCS_MAX   65536
#define COMMAND_MAX 256
#define NAMES_MAX   64 /* users whose names are looked for */
#define DEPTH_MAX   4096

struct supervisor {
	pid_t pid;
	char *job;
};

struct row {
	pid_t pid, ppid;
	uint32_t uid;
	char state;
	unsigned long utime, stime, rss;
	unsigned long long start;
	char comm[64];
};

struct rows {
	struct row *list;
	size_t n, cap;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct supervisor *supervisors; /* protected by lock, as the next two */
static size_t n_supervisors, cap_supervisors;
static int passwd_root = -1; /* constant after ps_init() */

void ps_init(int root_fd)
{
	passwd_root = root_fd;
}

void ps_add(pid_t pid, const char *job)
{
	char *copy = strdup(job);

	pthread_mutex_lock(&lock);
	if (copy && n_supervisors == cap_supervisors) {
		size_t cap = cap_supervisors ? cap_supervisors * 2 : 64;
		struct supervisor *more = realloc(supervisors, cap * sizeof(*more));

		if (more) {
			supervisors = more;
			cap_supervisors = cap;
		}
	}
	/* Without memory the column stays empty, no more. */
	if (copy && n_supervisors < cap_supervisors)
		supervisors[n_supervisors++] = (struct supervisor){pid, steal_ptr(&copy)};
	pthread_mutex_unlock(&lock);
	free(copy);
}

void ps_del(pid_t pid)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_supervisors; i++)
		if (supervisors[i].pid == pid) {
			free(supervisors[i].job);
			supervisors[i] = supervisors[--n_supervisors];
			break;
		}
	pthread_mutex_unlock(&lock);
}

/* A copy, so that the loop does not wait for a reader of /proc. */
struct known {
	struct supervisor *list;
	size_t n;
};

static int know(struct known *k)
{
	pthread_mutex_lock(&lock);
	k->list = calloc(n_supervisors + 1, sizeof(*k->list));
	while (k->list && k->n < n_supervisors) {
		k->list[k->n] = supervisors[k->n];
		k->list[k->n].job = strdup(supervisors[k->n].job);
		if (!k->list[k->n].job)
			break;
		k->n++;
	}
	pthread_mutex_unlock(&lock);
	return k->list ? 0 : -ENOMEM;
}

static void know_fini(struct known *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->list[i].job);
	free(k->list);
}

static const char *job_of_supervisor(const struct known *k, pid_t pid)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->list[i].pid == pid)
			return k->list[i].job;
	return NULL;
}

static ssize_t read_file(int dir, const char *name, char *text, size_t size)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = 0;
	return n;
}

/* From /proc/PID/stat. The name in it may be anything, with brackets and spaces. */
static int read_row(int proc_fd, const char *pid, struct row *row)
{
	char path[32], text[1024], *from, *to;
	struct stat st;

	snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (read_file(proc_fd, path, text, sizeof(text)) <= 0)
		return -ESRCH;
	from = strchr(text, '(');
	to = strrchr(text, ')');
	if (!from || !to ||
		sscanf(to + 1,
			" %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d "
			"%*d %llu %*u %lu",
			&row->state, &row->ppid, &row->utime, &row->stime, &row->start,
			&row->rss) != 6)
		return -EIO;
	*to = 0;
	snprintf(row->comm, sizeof(row->comm), "%s", from + 1);
	row->pid = atoi(pid);
	row->uid = fstatat(proc_fd, pid, &st, 0) == 0 ? st.st_uid : 0;
	return 0;
}

static int add_row(struct rows *rows, const struct row *row)
{
	if (rows->n == rows->cap) {
		size_t cap = rows->cap ? rows->cap * 2 : 128;
		struct row *list = realloc(rows->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		rows->list = list;
		rows->cap = cap;
	}
	rows->list[rows->n++] = *row;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int scan(int proc_fd, struct rows *rows)
{
	_Alignas(8) uint8_t batch[8192];
	struct row row;
	ssize_t n;

	while ((n = sys_getdents(proc_fd, batch, sizeof(batch))) > 0 && rows->n < PROCS_MAX)
		for (ssize_t at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(batch + at);

			at += d->reclen;
			if (!isdigit((unsigned char)d->name[0]) ||
				read_row(proc_fd, d->name, &row) < 0)
				continue;
			if (add_row(rows, &row) < 0)
				return -ENOMEM;
		}
	if (rows->n)
		qsort(rows->list, rows->n, sizeof(*rows->list), by_pid);
	return n < 0 ? -errno : 0;
}

/* The job whose supervisor is the nearest above. */
static const char *job_of(const struct known *k, const struct rows *rows, const struct row *row)
{
	for (int i = 0; row && i < DEPTH_MAX; i++) {
		const char *job = job_of_supervisor(k, row->ppid);
		struct row key = {.pid = row->ppid};

		if (job)
			return job;
		row = bsearch(&key, rows->list, rows->n, sizeof(key), by_pid);
	}
	return "-";
}

struct names {
	size_t n;
	uint32_t uid[NAMES_MAX];
	char name[NAMES_MAX][64];
};

static const char *name_of(struct names *names, uint32_t uid, char number[16])
{
	struct user user;
	size_t i;

	for (i = 0; i < names->n && names->uid[i] != uid; i++)
		;
	snprintf(number, 16, "%u", uid);
	if (i == NAMES_MAX)
		return number;
	if (i == names->n) {
		names->uid[names->n++] = uid;
		snprintf(names->name[i], sizeof(names->name[i]), "%s",
			user_find(passwd_root, number, &user, NULL) == 0 ? user.name : "");
	}
	return names->name[i][0] ? names->name[i] : number;
}

static void printable(char *s, size_t n)
{
	while (n && (!s[n - 1] || s[n - 1] == ' '))
		n--;
	s[n] = 0;
	for (size_t i = 0; i < n; i++)
		if (!s[i])
			s[i] = ' ';
		else if ((unsigned char)s[i] < 32 || (unsigned char)s[i] > 126)
			s[i] = '?';
}

/* Its arguments, or its name in brackets, as ps(1) has it. */
static void command_of(int proc_fd, const struct row *row, char command[COMMAND_MAX + 4])
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "%d/cmdline", row->pid);
	n = read_file(proc_fd, path, command, COMMAND_MAX);
	if (n <= 0)
		n = snprintf(command, COMMAND_MAX, "[%s]", row->comm);
	printable(command, (size_t)n);
}

static void put_row(struct buf *out, const struct row *row, const char *user, const char *job,
	const char *command, double now)
{
	double tick = (double)sysconf(_SC_CLK_TCK);
	long elapsed = (long)(now - (double)row->start / tick);
	char name[PROTO_NAME_MAX + 1];

	snprintf(name, sizeof(name), "%s", job);
	printable(name, strlen(name));
	buf_printf(out, "%7d %7d %-12s %-4c %8ld %9.2f %9lu %-12s %s\n", row->pid, row->ppid, user,
		row->state, elapsed > 0 ? elapsed : 0, (double)(row->utime + row->stime) / tick,
		row->rss * (unsigned long)sysconf(_SC_PAGESIZE) / 1024, name, command);
}

static void put_table(struct buf *out, int proc_fd, const struct known *k, const struct rows *rows)
{
	char command[COMMAND_MAX + 4], number[16];
	struct names names = {0};
	struct timespec now = {0};
	size_t i;

	clock_gettime(CLOCK_BOOTTIME, &now);
	buf_printf(out, "%7s %7s %-12s %-4s %8s %9s %9s %-12s %s\n", "PID", "PPID", "USER", "STAT",
		"ELAPSED", "CPU", "RSS-KiB", "JOB", "COMMAND");
	for (i = 0; i < rows->n && out->len < PROTO_MAX_DATA - 2048; i++) {
		const struct row *row = &rows->list[i];

		if (job_of_supervisor(k, row->pid))
			continue; /* the agent's own */
		command_of(proc_fd, row, command);
		put_row(out, row, name_of(&names, row->uid, number), job_of(k, rows, row), command,
			(double)now.tv_sec + (double)now.tv_nsec / 1e9);
	}
	if (i < rows->n)
		buf_printf(out, "... and %zu more\n", rows->n - i);
}

int ps_answer(struct request *r)
{
	cleanup_close int proc_fd = -1;
	struct known known = {0};
	struct rows rows = {0};
	struct buf text;
	int ret;

	if (!wire_end(&r->in))
		return bad_request(r);
	proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc_fd < 0)
		return err_set(&r->err, errno, "/proc: %s", strerror(errno));
	buf_init(&text, PROTO_MAX_DATA);
	ret = know(&known);
	if (!ret)
		ret = scan(proc_fd, &rows);
	if (!ret) {
		put_table(&text, proc_fd, &known, &rows);
		ret = text.error;
	}
	if (!ret)
		wire_bytes(&r->out, text.data, text.len);
	buf_fini(&text);
	free(rows.list);
	know_fini(&known);
	return ret;
}
