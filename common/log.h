/* SPDX-License-Identifier: MIT */
/* The daemon's and the agent's own log lines: to standard error. Any thread. */
#pragma once

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_TRACE };

/* What is shown from now on; LOG_WARN at first. */
void log_level(enum log_level level);
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_trace(...)                                    \
	do {                                              \
		if (log_enabled(LOG_TRACE))               \
			log_line(LOG_TRACE, __VA_ARGS__); \
	} while (0)
