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

#define N(e)                                                                                       \
	[e] = #e
static const char *const names[ERR_LARGEST + 1] = {
	N(EPERM), N(ENOENT), N(ESRCH), N(EINTR), N(EIO), N(ENXIO), N(E2BIG), N(ENOEXEC), N(EBADF),
	N(ECHILD), N(EAGAIN), N(ENOMEM), N(EACCES), N(EFAULT), N(ENOTBLK), N(EBUSY), N(EEXIST),
	N(EXDEV), N(ENODEV), N(ENOTDIR), N(EISDIR), N(EINVAL), N(ENFILE), N(EMFILE), N(ENOTTY),
	N(ETXTBSY), N(EFBIG), N(ENOSPC), N(ESPIPE), N(EROFS), N(EMLINK), N(EPIPE), N(EDOM),
	N(ERANGE), N(EDEADLK), N(ENAMETOOLONG), N(ENOLCK), N(ENOSYS), N(ENOTEMPTY), N(ELOOP),
	N(ENODATA), N(ETIME), N(EPROTO), N(EOVERFLOW), N(EILSEQ), N(EUSERS), N(ENOTSOCK),
	N(EMSGSIZE), N(EPROTONOSUPPORT), N(EOPNOTSUPP), N(EADDRINUSE), N(EADDRNOTAVAIL),
	N(ENETDOWN), N(ENETUNREACH), N(ECONNABORTED), N(ECONNRESET), N(ENOBUFS), N(ENOTCONN),
	N(ESHUTDOWN), N(ETIMEDOUT), N(ECONNREFUSED), N(EHOSTDOWN), N(EHOSTUNREACH), N(EALREADY),
	N(EINPROGRESS), N(ESTALE), N(EREMOTEIO), N(EDQUOT), N(ENOMEDIUM), N(EMEDIUMTYPE),
	N(ECANCELED), N(ENOKEY), N(EKEYEXPIRED), N(EOWNERDEAD), N(ENOTRECOVERABLE),
};
#undef N

const char *err_name(int code)
{
	if (code < 0 || code > ERR_LARGEST || !names[code])
		return "E?";
	return names[code];
}

int err_sanitise(int code)
{
	if (code == ENOSYS)
		return EOPNOTSUPP;
	return code >= 1 && code <= ERR_LARGEST ? code : EIO;
}
