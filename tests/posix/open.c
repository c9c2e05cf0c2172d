/* SPDX-License-Identifier: MIT */
/* open: its flags, and the errors of each kind of file; programs that run are not written. */
#include "tests/posix/posix.h"

#include <stdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void exclusive(void)
{
	for (each_kind(k)) {
		const char *n = name();

		make(k, n);
		want(EEXIST, ROOT, c_open(n, O_CREAT | O_EXCL | O_RDWR, 0644));
		want(EEXIST, ROOT, c_open(n, O_CREAT | O_EXCL | O_RDONLY, 0644));
		want(EEXIST, NOBODY, c_open(n, O_CREAT | O_EXCL | O_WRONLY | O_TRUNC, 0644));
		want(EEXIST, ROOT, c_open(n, O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
		is_kind(n, k);
		/* And a link to it, whether it leads anywhere or not. */
		must(c_symlink(n, at("%s.l", n)));
		want(EEXIST, ROOT, c_open(at("%s.l", n), O_CREAT | O_EXCL | O_RDWR, 0644));
		if (k == LINK)
			is_gone("nowhere");
	}
}

static void by_kind(void)
{
	for (each_kind(k)) {
		const char *n = name(), *l = at("%s.l", n);
		int dir = k == DIR_ ? 0 : k == LINK ? ENOENT : ENOTDIR;

		make(k, n);
		must(c_symlink(n, l));
		want(dir, ROOT, c_open(n, O_RDONLY | O_DIRECTORY, 0));
		want(dir, ROOT, c_open(l, O_RDONLY | O_DIRECTORY, 0));
		want(ELOOP, ROOT, c_open(l, O_RDONLY | O_NOFOLLOW, 0));
		want(ELOOP, ROOT, c_open(l, O_WRONLY | O_NOFOLLOW | O_CREAT, 0644));
		want(0, ROOT, c_open(l, O_PATH | O_NOFOLLOW, 0));
		want(0, ROOT, c_open(n, O_PATH | O_NOFOLLOW, 0));
	}
	make(DIR_, "dir");
	want(EISDIR, ROOT, c_open("dir", O_WRONLY, 0));
	want(EISDIR, ROOT, c_open("dir", O_RDWR, 0));
	want(EISDIR, ROOT, c_open("dir", O_RDONLY | O_TRUNC, 0));
	want(EISDIR, ROOT, c_open("dir", O_WRONLY | O_TRUNC, 0));
	want(EISDIR, ROOT, c_open("dir", O_RDONLY | O_CREAT, 0644));
	want(EISDIR, ROOT, c_open("dir", O_RDWR | O_CREAT, 0644));
	want(EISDIR, ROOT, c_read("dir"));
	want(EISDIR, ROOT, c_truncate("dir", 0));
	make(FIFO, "fifo");
	want(ENXIO, ROOT, c_open("fifo", O_WRONLY | O_NONBLOCK, 0));
	want(0, ROOT, c_open("fifo", O_RDONLY | O_NONBLOCK, 0));
	want(0, ROOT, c_open("fifo", O_RDWR, 0));
	make(SOCK, "sock");
	want(ENXIO, ROOT, c_open("sock", O_RDONLY, 0));
	want(ENXIO, ROOT, c_open("sock", O_WRONLY, 0));
	want(ENXIO, ROOT, c_open("sock", O_RDWR | O_NONBLOCK, 0));
}

/* What a descriptor allows is what it was opened for, not what the mode has become. */
static void descriptors(void)
{
	char c = 'x';
	int fd;

	make(REG, "fd");
	fd = open("fd", O_RDONLY);
	equals(write(fd, &c, 1) < 0 ? errno : 0, EBADF, "errno of write to O_RDONLY");
	equals(ftruncate(fd, 0) < 0 ? errno : 0, EINVAL, "errno of ftruncate of O_RDONLY");
	equals(posix_fallocate(fd, 0, 1), EBADF, "errno of posix_fallocate of O_RDONLY");
	close(fd);
	fd = open("fd", O_WRONLY);
	equals(read(fd, &c, 1) < 0 ? errno : 0, EBADF, "errno of read of O_WRONLY");
	close(fd);
	fd = open("fd", O_PATH);
	equals(read(fd, &c, 1) < 0 ? errno : 0, EBADF, "errno of read of O_PATH");
	equals(fchmod(fd, 0600) < 0 ? errno : 0, EBADF, "errno of fchmod of O_PATH");
	close(fd);
}

static int new_without_rights(const void *arg)
{
	int fd = open(arg, O_RDWR | O_CREAT | O_EXCL, 0);

	if (fd < 0)
		return errno;
	/* The mode is for those who come later. */
	if (write(fd, "x", 1) != 1 || pread(fd, (char[1]){0}, 1, 0) != 1 || ftruncate(fd, 10) < 0)
		return errno;
	return close(fd) < 0 ? errno : 0;
}

static int keeps_rights(const void *arg)
{
	int fd = open(arg, O_RDWR);

	if (fd < 0)
		return errno;
	if (chmod(arg, 0) < 0 || write(fd, "y", 1) != 1 || pread(fd, (char[1]){0}, 1, 0) != 1 ||
		ftruncate(fd, 5) < 0)
		return errno;
	return close(fd) < 0 ? errno : 0;
}

static void rights_at_open(void)
{
	struct who nobody = NOBODY;

	must(c_mkdir("free", 0777));
	equals(run_as(nobody, new_without_rights, "free/new"), 0,
		"errno of writing to a new 0000 file");
	is_mode("free/new", 0);
	is_size("free/new", 10);
	want(EACCES, NOBODY, c_open("free/new", O_RDONLY, 0));
	want(EACCES, NOBODY, c_open("free/new", O_WRONLY | O_CREAT, 0666));
	make_for(REG, "free/old", nobody);
	equals(run_as(nobody, keeps_rights, "free/old"), 0, "errno of writing after chmod 0");
	is_size("free/old", 5);
	is_mode("free/old", 0);
	/* O_CREAT of a file that is there changes neither mode nor owner. */
	make_for(REG, "free/there", WHO(65533, 65533));
	must(c_chmod("free/there", 0666));
	want(0, masked(nobody, 077), c_open("free/there", O_CREAT | O_RDWR, 0111));
	is_mode("free/there", 0666);
	is_owner("free/there", 65533, 65533);
	/* O_NOATIME is the owner's. */
	want(EPERM, NOBODY, c_open("free/there", O_RDONLY | O_NOATIME, 0));
	want(0, OTHER, c_open("free/there", O_RDONLY | O_NOATIME, 0));
	want(0, ROOT, c_open("free/there", O_RDONLY | O_NOATIME, 0));
}

static void truncating(void)
{
	struct stamp s;

	make(REG, "t");
	must(c_truncate("t", 100));
	want(0, ROOT, c_open("t", O_RDWR, 0));
	is_size("t", 100);
	want(0, ROOT, c_open("t", O_CREAT | O_RDWR, 0644));
	is_size("t", 100);
	s = stamp("t");
	tick();
	want(0, ROOT, c_open("t", O_WRONLY | O_TRUNC, 0));
	is_size("t", 0);
	times(s, "Amc");
	s = stamp("t");
	tick();
	want(0, ROOT, c_open("t", O_RDWR | O_TRUNC, 0)); /* empty already: all the same */
	times(s, "Amc");
	s = stamp("t");
	tick();
	want(0, ROOT, c_open("t", O_RDWR, 0));
	want(0, ROOT, c_open("t", O_RDWR | O_CREAT, 0644));
	times(s, "AMC");
	must(c_truncate("t", 100));
	want(0, ROOT, c_open("t", O_CREAT | O_TRUNC | O_WRONLY, 0600));
	is_size("t", 0);
	is_mode("t", 0644);
	must(c_truncate("t", 100));
	s = stamp("t");
	tick();
	want(0, ROOT,
		c_open("t", O_RDONLY | O_TRUNC, 0)); /* POSIX leaves it open, Linux truncates */
	is_size("t", 0);
	times(s, "Amc");
}

static void appending(void)
{
	char buf[16] = "";
	int a, b;

	make(REG, "log");
	a = open("log", O_WRONLY | O_APPEND);
	b = open("log", O_RDWR | O_APPEND);
	for (int k = 0; k < 3; k++) {
		equals(write(a, "a", 1), 1, "append");
		equals(write(b, "b", 1), 1, "append");
	}
	equals(lseek(a, 0, SEEK_SET), 0, "lseek");
	equals(write(a, "A", 1), 1, "append after lseek");
	is_size("log", 7);
	equals(pread(b, buf, sizeof(buf), 0), 7, "pread");
	holds(memcmp(buf, "abababA", 7) == 0, "all appended, in order");
	must(c_truncate("log", 2));
	equals(write(a, "c", 1), 1, "append after truncate");
	is_size("log", 3);
	close(a);
	close(b);
}

static int over_the_limit(const void *arg)
{
	struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
	static char page[8192];
	int fd = open(arg, O_RDWR), err;

	/* What is past the limit is not written: the signal is ignored, the errno counts. */
	if (fd < 0 || signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) < 0)
		return 200;
	if (pwrite(fd, page, sizeof(page), 0) != 4096)
		return 201;
	if (pwrite(fd, page, 1, 4096) >= 0 || errno != EFBIG)
		return 202;
	err = ftruncate(fd, 4097) < 0 ? errno : 0;
	if (err != EFBIG)
		return 203;
	return truncate(arg, 5000) < 0 ? errno : 0;
}

static void too_big(void)
{
	make_for(REG, "big", WHO(65534, 65534));
	equals(run_as(WHO(65534, 65534), over_the_limit, "big"), EFBIG, "errno over RLIMIT_FSIZE");
	is_size("big", 4096);
}

void topic_open(void)
{
	exclusive();
	by_kind();
	descriptors();
	rights_at_open();
	truncating();
	appending();
	too_big();
}

/* --- ETXTBSY
 * ---------------------------------------------------------------------------------------- */

static void copy_self(const char *to)
{
	int in = open(options.self, O_RDONLY), out = open(to, O_CREAT | O_EXCL | O_WRONLY, 0755);
	static char buf[65536];
	ssize_t n;

	if (in < 0 || out < 0)
		bail("cannot copy %s: %s", options.self, strerror(errno));
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			bail("write: %s", strerror(errno));
	close(in);
	if (close(out) < 0)
		bail("close: %s", strerror(errno));
}

/* Runs PROGRAM until *END is closed; returns when it runs. */
static pid_t start(const char *program, int *end)
{
	int in[2], out[2];
	pid_t pid;
	char c;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		bail("pipe: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bail("fork: %s", strerror(errno));
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(program, program, "--pause", NULL);
		_exit(errno);
	}
	close(in[0]);
	close(out[1]);
	holds(read(out[0], &c, 1) == 1 && c == 'r', "a program starts from here");
	close(out[0]);
	*end = in[1];
	return pid;
}

static int finish(pid_t pid, int end)
{
	int status;

	close(end);
	if (waitpid(pid, &status, 0) < 0)
		bail("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

void topic_busy_text(void)
{
	struct stamp s;
	int end, fd;
	pid_t pid;

	copy_self("program");
	if (options.no_exec) {
		equals(execl("./program", "program", "--pause", NULL) < 0 ? errno : 0, EACCES,
			"errno of exec");
		return;
	}
	pid = start("./program", &end);
	s = stamp("program");
	want(ETXTBSY, ROOT, c_open("program", O_WRONLY, 0));
	want(ETXTBSY, ROOT, c_open("program", O_RDWR, 0));
	want(ETXTBSY, ROOT, c_open("program", O_WRONLY | O_TRUNC, 0));
	want(ETXTBSY, ROOT, c_open("program", O_RDONLY | O_TRUNC, 0));
	want(ETXTBSY, ROOT, c_truncate("program", 123));
	times(s, "MC");
	is_size("program", s.st.st_size);
	want(0, ROOT, c_open("program", O_RDONLY, 0));
	want(0, ROOT, c_chmod("program", 0700));
	want(0, ROOT, c_rename("program", "other"));
	want(ETXTBSY, ROOT, c_open("other", O_WRONLY, 0));
	want(0, ROOT, c_unlink("other"));
	equals(finish(pid, end), 0, "status of the program, though unlinked");
	copy_self("program");
	fd = open("program", O_WRONLY);
	fflush(stdout); /* or a child writes it too */
	pid = fork();
	if (pid == 0) {
		execl("./program", "program", "--pause", NULL);
		_exit(errno);
	}
	equals(finish(pid, open("/dev/null", O_RDONLY)), ETXTBSY,
		"errno of exec of what is written");
	close(fd);
	must(c_chmod("program", 0644));
	equals(execl("./program", "program", "--pause", NULL) < 0 ? errno : 0, EACCES,
		"errno of exec without x");
	must(c_chmod("program", 0755));
	pid = start("./program", &end);
	equals(finish(pid, end), 0, "status of the program");
	want(0, ROOT, c_open("program", O_WRONLY | O_TRUNC, 0));
}
