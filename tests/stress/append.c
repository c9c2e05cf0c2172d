/*
 * Appends COUNT records to a file, all through one descriptor, each by one write: every third is
 * larger than a page. A record is its letter, its number and its length (6 digits each), that
 * letter over and over, and a newline.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

enum { HEAD = 13 };

static size_t record(char letter, long i, char *out)
{
	size_t len = i % 3 ? 20 + (size_t)i * 7 % 200 : 4097 + (size_t)i * 311 % 8000;

	memset(out, letter, len);
	snprintf(out, len, "%c%06ld%06zu", letter, i, len);
	out[HEAD] = letter;
	out[len - 1] = '\n';
	return len;
}

/* append FILE LETTER COUNT STEP_US */
int append_main(int argc, char **argv)
{
	static char text[16384];
	int fd;

	if (argc != 5 || !argv[2][0]) {
		fprintf(stderr, "usage: append FILE LETTER COUNT STEP_US\n");
		return 2;
	}
	fd = open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC);
	for (long i = 0, count = strtol(argv[3], NULL, 10); i < count; i++) {
		size_t len = record(argv[2][0], i, text);

		if (write(fd, text, len) != (ssize_t)len) {
			perror("append");
			return 1;
		}
		usleep((useconds_t)strtol(argv[4], NULL, 10));
	}
	return close(fd);
}
