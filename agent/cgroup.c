/* SPDX-License-Identifier: MIT */
/*
 * Control groups by the files under /sys/fs/cgroup. In a container the mounts there are its own
 * group; elsewhere /proc/self/cgroup says which directory is. All is constant after cgroup_init();
 * files are opened for each question, but for the count of OOM kills, which every job asks for.
 */
#include "agent/cgroup.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOUNTS	 "/sys/fs/cgroup"
#define TEXT_MAX 4096
#define NO_LIMIT (1ull << 60) /* version 1 says "none" by a huge number */

static char memory_dir[512], cpu_dir[512], pids_dir[512];
static bool unified;
static int oom_fd = -1;

/* The group's path in one line of /proc/self/cgroup: "N:controllers:path"; "" for controller: the
 * unified one. */
static void own_path(const char *controller, char path[256])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[512];

	path[0] = 0;
	while (f && !path[0] && fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL, *one;

		if (!at)
			continue;
		*at++ = 0;
		at[strcspn(at, "\n")] = 0;
		if (!*controller && !list[1])
			snprintf(path, 256, "%s", at);
		for (one = strtok(list + 1, ","); *controller && one; one = strtok(NULL, ","))
			if (strcmp(one, controller) == 0)
				snprintf(path, 256, "%s", at);
	}
	if (f)
		fclose(f);
}

static bool has(const char *dir, const char *file)
{
	char name[600];

	snprintf(name, sizeof(name), "%s/%s", dir, file);
	return access(name, R_OK) == 0;
}

/* The whole machine is no sandbox: the root of a hierarchy alone has the one file in version 1, and
 * lacks the other in version 2. */
static bool is_root(const char *dir, bool v2)
{
	return v2 ? !has(dir, "cgroup.events") : has(dir, "release_agent");
}

/* The directory under one of the mounts that has `file`; false: none has. */
static bool find_dir(const char *mount, const char *controller, const char *file, char dir[512])
{
	char path[256];

	own_path(controller, path);
	for (int i = 0; i < 2; i++) {
		if (i == 0 && strlen(path) < 2)
			continue;
		snprintf(dir, 512, MOUNTS "%s%s", mount, i ? "" : path);
		if (has(dir, file) && !is_root(dir, !*controller))
			return true;
	}
	dir[0] = 0;
	return false;
}

static ssize_t read_text(const char *dir, const char *file, char text[TEXT_MAX])
{
	char name[600];
	cleanup_close int fd = -1;
	ssize_t n;

	text[0] = 0;
	if (!*dir)
		return -1;
	snprintf(name, sizeof(name), "%s/%s", dir, file);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* The number after "key " at a line's beginning; false: there is none. */
static bool value_of(const char *text, const char *key, uint64_t *value)
{
	size_t len = strlen(key);

	for (; *text; text += strcspn(text, "\n"), text += *text ? 1 : 0)
		if (strncmp(text, key, len) == 0 && text[len] == ' ')
			return sscanf(text + len, "%" SCNu64, value) == 1;
	return false;
}

/* Does the group have processes besides the sandbox's? They show as 0. It is then that of whoever
 * started the sandbox, in whose /sys we are. */
static bool is_shared(const char *dir)
{
	char text[TEXT_MAX];

	read_text(dir, "cgroup.procs", text);
	return strncmp(text, "0\n", 2) == 0 || strstr(text, "\n0\n");
}

void cgroup_init(void)
{
	char name[600];

	unified = find_dir("", "", "cgroup.procs", memory_dir);
	/* Not where the mount itself is the group: there a 0 is an engine that is just entering. */
	if (unified && strcmp(memory_dir, MOUNTS) != 0 && is_shared(memory_dir)) {
		memory_dir[0] = 0;
		return;
	}
	if (unified) {
		memcpy(cpu_dir, memory_dir, sizeof(cpu_dir));
		memcpy(pids_dir, memory_dir, sizeof(pids_dir));
	} else {
		find_dir("/memory", "memory", "memory.usage_in_bytes", memory_dir);
		if (!find_dir("/cpuacct", "cpuacct", "cpuacct.usage", cpu_dir))
			find_dir("/cpu,cpuacct", "cpuacct", "cpuacct.usage", cpu_dir);
		find_dir("/pids", "pids", "cgroup.procs", pids_dir);
	}
	if (!memory_dir[0])
		return;
	snprintf(name, sizeof(name), "%s/%s", memory_dir,
		unified ? "memory.events" : "memory.oom_control");
	oom_fd = open(name, O_RDONLY | O_CLOEXEC);
}

uint64_t cgroup_ooms(void)
{
	char text[512];
	uint64_t value = 0;
	ssize_t n = oom_fd < 0 ? -1 : pread(oom_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = 0;
	return value_of(text, "oom_kill", &value) ? value : 0;
}

uint64_t cgroup_memory_max(void)
{
	char text[TEXT_MAX];
	uint64_t value;

	read_text(memory_dir, unified ? "memory.max" : "memory.limit_in_bytes", text);
	return sscanf(text, "%" SCNu64, &value) == 1 && value < NO_LIMIT ? value : UINT64_MAX;
}

/* A file of one number, or "max"; false: it is not known. */
static bool put_file(struct buf *out, const char *key, const char *dir, const char *file)
{
	char text[TEXT_MAX];
	uint64_t value;

	if (read_text(dir, file, text) <= 0)
		return false;
	if (strncmp(text, "max", 3) == 0 ||
		(sscanf(text, "%" SCNu64, &value) == 1 && value >= NO_LIMIT))
		buf_printf(out, "%s max\n", key);
	else if (sscanf(text, "%" SCNu64, &value) == 1)
		buf_printf(out, "%s %" PRIu64 "\n", key, value);
	else
		return false;
	return true;
}

/* A key of a file of many, times a factor. */
static void put_value(
	struct buf *out, const char *key, const char *text, const char *name, uint64_t factor)
{
	uint64_t value;

	if (value_of(text, name, &value))
		buf_printf(out, "%s %" PRIu64 "\n", key, value * factor);
}

static bool put_cpu(struct buf *out)
{
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK), ns;
	char text[TEXT_MAX];

	if (unified) {
		if (read_text(cpu_dir, "cpu.stat", text) <= 0)
			return false;
		put_value(out, "cpu_usage_usec", text, "usage_usec", 1);
		put_value(out, "cpu_user_usec", text, "user_usec", 1);
		put_value(out, "cpu_system_usec", text, "system_usec", 1);
		put_value(out, "cpu_throttled_usec", text, "throttled_usec", 1);
		return true;
	}
	read_text(cpu_dir, "cpuacct.usage", text);
	if (sscanf(text, "%" SCNu64, &ns) != 1)
		return false;
	buf_printf(out, "cpu_usage_usec %" PRIu64 "\n", ns / 1000);
	read_text(cpu_dir, "cpuacct.stat", text);
	put_value(out, "cpu_user_usec", text, "user", tick_us);
	put_value(out, "cpu_system_usec", text, "system", tick_us);
	return true;
}

unsigned cgroup_stats(struct buf *out)
{
	unsigned known = 0;

	if (put_file(out, "memory_bytes", memory_dir,
		    unified ? "memory.current" : "memory.usage_in_bytes"))
		known |= CGROUP_MEMORY;
	put_file(out, "memory_peak_bytes", memory_dir,
		unified ? "memory.peak" : "memory.max_usage_in_bytes");
	put_file(out, "memory_max", memory_dir, unified ? "memory.max" : "memory.limit_in_bytes");
	if (put_cpu(out))
		known |= CGROUP_CPU;
	if (put_file(out, "pids", pids_dir, "pids.current"))
		known |= CGROUP_PIDS;
	put_file(out, "pids_max", pids_dir, "pids.max");
	if (oom_fd >= 0)
		buf_printf(out, "oom_kills %" PRIu64 "\n", cgroup_ooms());
	return known;
}
