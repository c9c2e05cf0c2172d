/*
 * Makes COUNT small files, 500 in a directory: quicker than any shell.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stress.h"

enum { EACH = 500 };

static int make(long i)
{
	char name[64];
	int fd, len;

	if (i % EACH == 0) {
		snprintf(name, sizeof(name), "d%ld", i / EACH);
		if (mkdir(name, 0755))
			return -1;
	}
	snprintf(name, sizeof(name), "d%ld/file%ld", i / EACH, i);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -1;
	len = snprintf(name, sizeof(name), "%ld\n", i);
	if (write(fd, name, (size_t)len) != len) {
		close(fd);
		return -1;
	}
	return close(fd);
}

/* files DIR COUNT */
int files_main(int argc, char **argv)
{
	if (argc != 3 || (mkdir(argv[1], 0755), chdir(argv[1]))) {
		fprintf(stderr, "usage: files DIR COUNT\n");
		return 2;
	}
	for (long i = 0, count = strtol(argv[2], NULL, 10); i < count; i++)
		if (make(i)) {
			perror("files");
			return 1;
		}
	return 0;
}
