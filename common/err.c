/* SPDX-License-Identifier: MIT */
/* Errors with words. Pure functions, any thread. */
#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ERR_LARGEST 133 /* EHWPOISON: nothing above it may reach the kernel as a reply */

static void one_line(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = ' ';
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	one_line(err->msg);
	return -code;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char tail[ERR_MSG_MAX];
	va_list ap;
	int n;

	if (!err)
		return -EIO;
	memcpy(tail, err->msg, sizeof(tail));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", tail);
	one_line(err->msg);
	return -err->code;
}

const char *err_name(int code)
{
#ifdef __GLIBC__
	const char *name = strerrorname_np(code);

	return name ? name : "E?";
#else
	(void)code;
	return "E?"; /* the agent sends numbers */
#endif
}

int err_sanitise(int code)
{
	if (code == ENOSYS)
		return EOPNOTSUPP;
	return code >= 1 && code <= ERR_LARGEST ? code : EIO;
}
