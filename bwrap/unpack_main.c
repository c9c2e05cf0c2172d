/* SPDX-License-Identifier: MIT */
/*
 * `launch unpack` goes on as this program, in its user namespace: apart, since what reads archives
 * is a dozen libraries, and a sandbox's start is not to wait until they are loaded. One thread.
 *
 *   unpack COUNT NAME     the archive is descriptor 3, the directory 4; there are COUNT ids; NAME
 * is the archive's for people. Prints what launch prints.
 */
#include "bwrap/unpack.h"
#include "bwrap/unpack_main.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void tell_bytes(void *arg, uint64_t bytes)
{
	(void)arg;
	printf("bytes %" PRIu64 "\n", bytes);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct err err = {0};

	if (argc != 3) {
		fputs("usage: unpack COUNT NAME, by sandboxfs's launcher only\n", stderr);
		return 2;
	}
	umask(022);
	if (unpack_archive(UNPACK_ARCHIVE_FD, UNPACK_DIR_FD, strcmp(argv[1], "1") == 0, tell_bytes,
		    NULL, &err) == 0)
		return 0;
	printf("error %d %s: %s\n", err.code, argv[2], err.msg);
	return 1;
}
