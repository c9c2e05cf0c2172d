/* SPDX-License-Identifier: MIT */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int shown = LOG_WARN;

void log_level(enum log_level level)
{
	atomic_store(&shown, (int)level);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load(&shown);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	int saved = errno, n, m;
	va_list ap;

	if (!log_enabled(level))
		return;
	n = snprintf(line, sizeof(line), "sandboxfs: ");
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		errno = saved; /* nowhere to say it */
	errno = saved;
}
