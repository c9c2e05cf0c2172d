/*
 * How long a call takes, for the benchmark: a shell is slower than what is measured.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "stress.h"

static int stat_once(const char *name)
{
	struct stat st;

	return stat(name, &st);
}

static int read_once(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	char buf[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)sizeof(buf) ? 0 : -1;
}

/* time stat|read FILE COUNT: prints the microseconds of one, on average after a first that does not
 * count */
int time_main(int argc, char **argv)
{
	int (*once)(const char *) =
		argc > 1 && strcmp(argv[1], "stat") == 0 ? stat_once : read_once;
	long count = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
	int64_t start;

	if (count <= 0) {
		fprintf(stderr, "usage: time stat|read FILE COUNT\n");
		return 2;
	}
	if (once(argv[2])) {
		perror(argv[2]);
		return 1;
	}
	start = now_ns();
	for (long i = 0; i < count; i++)
		if (once(argv[2])) {
			perror(argv[2]);
			return 1;
		}
	printf("%.3f\n", (double)(now_ns() - start) / 1e3 / (double)count);
	return 0;
}
