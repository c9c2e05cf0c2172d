/* SPDX-License-Identifier: MIT */
/*
 * Takes locks, on either side of a mount. KIND: posix, ofd, flock. TYPE: read, write. Bytes START
 * and LEN (0: to the end); flock ignores them. FILE is made if it is not there.
 *
 *   locker try  KIND TYPE FILE START LEN          0: it was free; 1: it is taken
 *   locker hold KIND TYPE FILE START LEN          waits for it, says "held PID", keeps it until
 *                                                 TERM: says "released MS", then unlocks
 *   locker wait KIND TYPE FILE START LEN SECONDS  "got MS", or "timeout MS" by SIGALRM and EINTR
 *   locker run  KIND TYPE FILE START LEN CMD...   waits for it and runs CMD, as flock(1) does
 *   locker turns KIND TYPE FILE START LEN N       N times changes files here, and unlocks
 *   locker test KIND TYPE FILE START LEN          "free", or "TYPE START LEN PID" of who has it
 *
 * MS is monotonic time, the same for all processes of a machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *kind;

static void die(const char *what)
{
	fprintf(stderr, "locker: %s: %s\n", what, strerror(errno));
	exit(2);
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void nothing(int sig)
{
	(void)sig;
}

static int range(int fd, int cmd, int ofd_cmd, struct flock *fl)
{
	return fcntl(fd, strcmp(kind, "ofd") == 0 ? ofd_cmd : cmd, fl);
}

/* 0, or -1 and errno. */
static int take(int fd, short type, const struct flock *bytes, int wait)
{
	struct flock fl = *bytes;
	int op = type == F_RDLCK ? LOCK_SH : type == F_WRLCK ? LOCK_EX : LOCK_UN;

	fl.l_type = type;
	if (strcmp(kind, "flock") == 0)
		return flock(fd, wait ? op : op | LOCK_NB);
	return wait ? range(fd, F_SETLKW, F_OFD_SETLKW, &fl) : range(fd, F_SETLK, F_OFD_SETLK, &fl);
}

static int try_it(int fd, short type, const struct flock *bytes)
{
	if (take(fd, type, bytes, 0) == 0)
		return 0;
	if (errno != EAGAIN)
		die("try");
	return 1;
}

static int hold(int fd, short type, const struct flock *bytes)
{
	sigset_t term, old;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &old);
	signal(SIGTERM, nothing);
	if (take(fd, type, bytes, 1) < 0)
		die("hold");
	printf("held %d\n", (int)getpid());
	fflush(stdout);
	sigsuspend(&old);
	printf("released %lld\n", now_ms());
	fflush(stdout);
	if (take(fd, F_UNLCK, bytes, 0) < 0)
		die("unlock");
	return 0;
}

static int wait_for(int fd, short type, const struct flock *bytes, unsigned seconds)
{
	struct sigaction sa = {.sa_handler = nothing};

	sigaction(SIGALRM, &sa, NULL);
	alarm(seconds);
	if (take(fd, type, bytes, 1) == 0) {
		printf("got %lld\n", now_ms());
		return 0;
	}
	if (errno != EINTR)
		die("wait");
	printf("timeout %lld\n", now_ms());
	return 1;
}

static int test(int fd, short type, const struct flock *bytes)
{
	struct flock fl = *bytes;

	fl.l_type = type;
	if (range(fd, F_GETLK, F_OFD_GETLK, &fl) < 0)
		die("test");
	if (fl.l_type == F_UNLCK)
		puts("free");
	else
		printf("%s %lld %lld %d\n", fl.l_type == F_RDLCK ? "read" : "write",
			(long long)fl.l_start, (long long)fl.l_len, (int)fl.l_pid);
	return 0;
}

static int run(int fd, short type, const struct flock *bytes, char **argv)
{
	int status;
	pid_t pid;

	if (take(fd, type, bytes, 1) < 0)
		die("run");
	pid = fork();
	if (pid == 0) {
		execvp(*argv, argv);
		die(*argv);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die(*argv);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void check(long result, const char *what)
{
	if (result < 0)
		die(what);
}

static const char *numbered(const char *word, int i)
{
	static char name[2][32];
	static int next;

	next = !next;
	snprintf(name[next], sizeof(name[next]), "%s%d", word, i);
	return name[next];
}

static void make(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT, 0666);

	check(fd, name);
	close(fd);
}

static void until_there(const char *name)
{
	while (access(name, F_OK) != 0)
		usleep(1000);
}

/* The files that it writes stay open: no close tells of them. The other side waits for the lock,
 * most likely, when they change. */
static int turns(int fd, short type, const struct flock *bytes, int n)
{
	int data = open("bytes", O_WRONLY), longer = open("longer", O_WRONLY | O_APPEND);
	char text[16];

	check(data, "bytes");
	check(longer, "longer");
	for (int i = 1; i <= n; i++) {
		check(take(fd, type, bytes, 1), "lock");
		make(numbered("turn", i));
		until_there(numbered("go", i));
		usleep(5000);
		check(rename(numbered("name", i - 1), numbered("name", i)), "rename");
		check(chmod("other", i % 2 ? 0644 : 0600), "chmod");
		check(write(longer, "123456", 6), "longer");
		snprintf(text, sizeof(text), "%06d", i);
		check(pwrite(data, text, 6, 0), "bytes");
		check(take(fd, F_UNLCK, bytes, 0), "unlock");
		until_there(numbered("seen", i)); /* or we would have it again first */
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct flock bytes = {.l_whence = SEEK_SET};
	short type;
	int fd;

	if (argc < 7) {
		fprintf(stderr, "locker: see its source\n");
		return 2;
	}
	kind = argv[2];
	type = strcmp(argv[3], "read") == 0 ? F_RDLCK : F_WRLCK;
	fd = open(argv[4], O_RDWR | O_CREAT, 0666);
	if (fd < 0)
		die(argv[4]);
	bytes.l_start = atoll(argv[5]);
	bytes.l_len = atoll(argv[6]);
	if (strcmp(argv[1], "try") == 0)
		return try_it(fd, type, &bytes);
	if (strcmp(argv[1], "hold") == 0)
		return hold(fd, type, &bytes);
	if (strcmp(argv[1], "run") == 0 && argc > 7)
		return run(fd, type, &bytes, argv + 7);
	if (strcmp(argv[1], "turns") == 0 && argc > 7)
		return turns(fd, type, &bytes, atoi(argv[7]));
	if (strcmp(argv[1], "test") == 0)
		return test(fd, type, &bytes);
	return wait_for(fd, type, &bytes, argc > 7 ? (unsigned)atoi(argv[7]) : 0);
}
