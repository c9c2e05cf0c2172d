/* SPDX-License-Identifier: MIT */
/* Pure functions. */
#include "bwrap/ulimit.h"

#include <string.h>

int ulimit_named(const char *name)
{
	static const struct {
		const char *name;
		int resource;
	} known[] = {{"core", RLIMIT_CORE}, {"cpu", RLIMIT_CPU}, {"data", RLIMIT_DATA},
		{"fsize", RLIMIT_FSIZE}, {"locks", RLIMIT_LOCKS}, {"memlock", RLIMIT_MEMLOCK},
		{"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE}, {"nofile", RLIMIT_NOFILE},
		{"nproc", RLIMIT_NPROC}, {"rss", RLIMIT_RSS}, {"rtprio", RLIMIT_RTPRIO},
		{"rttime", RLIMIT_RTTIME}, {"sigpending", RLIMIT_SIGPENDING},
		{"stack", RLIMIT_STACK}, {"as", RLIMIT_AS}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].resource;
	return -1;
}

rlim_t ulimit_value(long long value)
{
	return value < 0 ? RLIM_INFINITY : (rlim_t)value;
}

bool ulimit_within(rlim_t value, rlim_t own)
{
	return own == RLIM_INFINITY || (value != RLIM_INFINITY && value <= own);
}
