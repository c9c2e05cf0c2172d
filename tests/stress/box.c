/*
 * See box.h. One thread; box_begin's child is waited for in box_end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"

#define JOB "jobs/stress"

enum { ARGS = 2048 };

static void die(const char *what, const char *name)
{
	fprintf(stderr, "%s %s: %s\n", what, name, strerror(errno));
	exit(2);
}

static void copy_self(const char *to)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	char buf[65536];
	ssize_t n;

	if (in < 0 || out < 0)
		die("copying this program to", to);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			die("writing", to);
	close(in);
	if (n < 0 || close(out))
		die("copying this program to", to);
}

static void make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		die("mkdir", path);
	if (chmod(path, 0755))
		die("chmod", path);
}

void box_open(struct box *box, const char *dir, const char *inside)
{
	int n;

	memset(box, 0, sizeof(*box));
	if (inside) {
		if (!realpath(inside, box->inside) || !realpath(dir, box->outside))
			die("no directory", inside);
	} else {
		n = snprintf(box->ctl, sizeof(box->ctl), "%s/ctl", dir);
		snprintf(box->outside, sizeof(box->outside), "%s/workspace", dir);
		if (n >= (int)sizeof(box->ctl))
			exit(2);
	}
	umask(0);
	if (chdir(box->outside))
		die("cannot enter", box->outside);
	copy_self(BOX_PROGRAM);
	make_dir(BOX_TREE);
	make_dir(BOX_TREE "/a");
	make_dir(BOX_TREE "/b");
	make_dir(BOX_TREE "/h");
	if (chdir(BOX_TREE))
		die("cannot enter", BOX_TREE);
}

/* --- a local directory --------------------------------------------------------------------------
 */

static void local_output(const struct box *box, char *name, size_t len)
{
	int n = snprintf(name, len, "%s.stdout", box->inside);

	if (n >= (int)len)
		exit(2);
}

static void local_run(const struct box *box, const char *args, size_t len)
{
	char *copy = malloc(len + 1), *argv[ARGS], name[5000];
	int argc = 0, fd;

	local_output(box, name, sizeof(name));
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!copy || fd < 0 || dup2(fd, 1) < 0 || chdir(box->inside))
		_exit(127);
	close(fd);
	memcpy(copy, args, len);
	copy[len] = '\0';
	for (char *p = copy; p < copy + len && argc < ARGS - 1; p += strlen(p) + 1)
		argv[argc++] = p;
	argv[argc] = NULL;
	execvp(argv[0], argv);
	_exit(127);
}

/* --- either -------------------------------------------------------------------------------------
 */

static void read_all(const char *name, char *text, size_t len)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n;

	if (fd < 0)
		die("opening", name);
	while ((n = read(fd, text + got, len - 1 - got)) > 0)
		got += (size_t)n;
	if (n < 0)
		die("reading", name);
	close(fd);
	text[got] = '\0';
}

static void write_ctl(const struct box *box, const char *file, const char *text, size_t len)
{
	char name[5000];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", box->ctl, file);
	fd = open(name, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		die("opening", name);
	if (write(fd, text, len) != (ssize_t)len)
		die("writing", name);
	if (close(fd))
		die("closing", name);
}

static void run_child(struct box *box, const char *args, size_t len)
{
	fflush(NULL);
	box->in_job = 0;
	box->child = fork();
	if (box->child < 0)
		die("fork", "");
	if (box->child)
		return;
	if (!box->ctl[0])
		local_run(box, args, len);
	write_ctl(box, "argv", args, len);
	_exit(0);
}

void box_begin(struct box *box, const char *args, size_t len)
{
	run_child(box, args, len);
}

void box_end(struct box *box)
{
	int status;

	if (waitpid(box->child, &status, 0) < 0)
		die("waitpid", "");
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 2 || WEXITSTATUS(status) == 127) {
		fprintf(stderr, "what was to run inside did not: status %x\n", (unsigned)status);
		exit(2);
	}
}

void box_argv(struct box *box, const char *args, size_t len)
{
	box->in_job = 0;
	if (box->ctl[0]) {
		write_ctl(box, "argv", args, len);
		return;
	}
	box_begin(box, args, len);
	box_end(box);
}

/* What is left of the job before goes first: to remove it now would be to ask the sandbox once
 * more, after the change. */
static void shell_job(struct box *box, const char *text, enum box_way way)
{
	char name[5000], said[64];

	snprintf(name, sizeof(name), "%s/" JOB, box->ctl);
	if (rmdir(name) && errno != ENOENT)
		die("rmdir", name);
	if (mkdir(name, 0700))
		die("mkdir", name);
	write_ctl(box, JOB "/exec", text, strlen(text));
	snprintf(
		name, sizeof(name), "%s/" JOB "/%s", box->ctl, way == BOX_WAIT ? "wait" : "result");
	do
		read_all(name, said, sizeof(said));
	while (strcmp(said, "running\n") == 0);
}

void box_shell(struct box *box, const char *text, enum box_way way)
{
	char args[65536] = "sh\0-c";
	int len;

	box->in_job = box->ctl[0] && way != BOX_EXEC;
	if (box->in_job) {
		shell_job(box, text, way);
		return;
	}
	if (box->ctl[0]) {
		write_ctl(box, "exec", text, strlen(text));
		return;
	}
	len = snprintf(args + 6, sizeof(args) - 6, "%s", text);
	if (len >= (int)sizeof(args) - 6)
		exit(2);
	box_argv(box, args, (size_t)len + 7);
}

void box_output(struct box *box, char *text, size_t len)
{
	char name[5000];

	if (box->ctl[0])
		snprintf(name, sizeof(name), "%s/%s", box->ctl,
			box->in_job ? JOB "/stdout" : "stdout");
	else
		local_output(box, name, sizeof(name));
	read_all(name, text, len);
}
