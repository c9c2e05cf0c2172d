/* SPDX-License-Identifier: MIT */
/* Finds processes of the test's own agent, among all of the machine. */
#pragma once

#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before the agent is started. */
__attribute__((unused)) static void mark_ours(void)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", getpid());
	setenv("TEST_OF", number, 1);
}

/* Is it, by its environment, of this test's agent? */
static bool is_ours(const char *pid)
{
	char path[300], text[16384], want[48];
	ssize_t len = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	snprintf(want, sizeof(want), "TEST_OF=%d", getpid());
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		len = read(fd, text, sizeof(text));
		close(fd);
	}
	return len > 0 && memmem(text, (size_t)len, want, strlen(want) + 1);
}

/* How many have that in their arguments; shells do not count. */
__attribute__((unused)) static int count_marked(const char *mark)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d))) {
		char path[300], text[4096];
		ssize_t len;
		int fd;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		len = read(fd, text, sizeof(text) - 1);
		close(fd);
		for (ssize_t i = 0; i < len; i++)
			if (!text[i])
				text[i] = ' ';
		text[len > 0 ? len : 0] = 0;
		if (strstr(text, mark) && !strstr(text, "sh -c") && is_ours(e->d_name))
			n++;
	}
	closedir(d);
	return n;
}

/* Waits until there are so many. */
__attribute__((unused)) static bool await_marked(const char *mark, int n)
{
	for (int i = 0; i < 2000; i++) {
		if (count_marked(mark) == n)
			return true;
		usleep(10000);
	}
	return false;
}
