/* SPDX-License-Identifier: MIT */
/* The wrapped allocator of oom.h. */
#include "tests/unit/oom.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long countdown = -1, live;

void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void __wrap_free(void *p);

void oom_arm(long n)
{
	countdown = n;
}

long oom_live(void)
{
	return live;
}

static bool fails(void)
{
	if (countdown < 0)
		return false;
	return countdown-- == 0;
}

void *__wrap_malloc(size_t n)
{
	void *p = fails() ? NULL : __real_malloc(n);

	live += p != NULL;
	return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *p;

	if (size && n > SIZE_MAX / size)
		return NULL;
	p = __wrap_malloc(n * size);
	return p ? memset(p, 0, n * size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
	void *q = fails() ? NULL : __real_realloc(p, n);

	live += q && !p;
	return q;
}

char *__wrap_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = __wrap_malloc(len + 1);

	if (p) {
		memcpy(p, s, len);
		p[len] = 0;
	}
	return p;
}

char *__wrap_strdup(const char *s)
{
	return __wrap_strndup(s, strlen(s));
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (fails())
		return -1;
	va_start(ap, fmt);
	n = vasprintf(out, fmt, ap);
	va_end(ap);
	live += n >= 0;
	return n;
}

void __wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}
