/* SPDX-License-Identifier: MIT */
#include "bwrap/plan.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PLAN_MAX (16u << 20)

int plan_args(const char *directive)
{
	static const struct {
		const char *name;
		int args;
	} known[] = {{"lower", 1}, {"bind", 2}, {"robind", 2}, {"tryrobind", 2}, {"tmpfs", 3},
		{"rotmpfs", 3}, {"shm", 1}, {"rlimit", 3}, {"pids", 1}, {"readonly", 0},
		{"share-net", 0}, {"hostname", 1}, {"cap", 1}, {"env", 2}, {"exec", 1}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(known[i].name, directive) == 0)
			return known[i].args;
	return -1;
}

static int read_all(int box_fd, struct plan *p, struct err *err)
{
	cleanup_close int fd = openat(box_fd, PLAN_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "the sandbox's plan: %s", strerror(errno));
	if (st.st_size > PLAN_MAX)
		return err_set(err, E2BIG, "the sandbox's plan has more than 16 MiB");
	p->text = calloc(1, (size_t)st.st_size + 1);
	if (!p->text)
		return err_set(err, ENOMEM, "out of memory");
	while (p->len < (size_t)st.st_size) {
		n = read(fd, p->text + p->len, (size_t)st.st_size - p->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		p->len += (size_t)n;
	}
	if (p->len == 0 || p->text[p->len - 1] != 0)
		return err_set(err, EIO, "the sandbox's plan is cut off");
	return 0;
}

static int find_words(struct plan *p, struct err *err)
{
	size_t count = 0;

	for (size_t i = 0; i < p->len; i++)
		count += p->text[i] == 0;
	p->words = calloc(count + 1, sizeof(*p->words));
	if (!p->words)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t at = 0; at < p->len; at += strlen(p->text + at) + 1)
		p->words[p->n_words++] = p->text + at;
	for (size_t i = 0; i < p->n_words;) {
		int args = plan_args(p->words[i]);

		if (args < 0 || i + (size_t)args >= p->n_words)
			return err_set(
				err, EINVAL, "the sandbox's plan has a bad %.64s", p->words[i]);
		i += (size_t)args + 1;
	}
	return 0;
}

int plan_read(int box_fd, struct plan *p, struct err *err)
{
	int r;

	*p = (struct plan){0};
	r = read_all(box_fd, p, err);
	if (r == 0)
		r = find_words(p, err);
	if (r < 0)
		plan_fini(p);
	return r;
}

void plan_fini(struct plan *p)
{
	free(p->text);
	free(p->words);
	*p = (struct plan){0};
}
