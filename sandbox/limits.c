/* SPDX-License-Identifier: MIT */
/* The texts of memory.max, cpu.max and pids.max. Pure: any thread. */
#include "sandbox/limits.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_US     100000u
#define PERIOD_MIN_US 1000u
#define PERIOD_MAX_US 1000000u
#define QUOTA_MIN_US  1000u
#define QUOTA_MAX_US  1000000000000u	  /* times a period it still is a 64-bit number */
#define MEMORY_MAX    ((uint64_t)1 << 53) /* what JSON can say */
#define PIDS_MAX      4194304u		  /* as many as Linux can have */

static const char *spaces(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

/* A number at *p, which it moves on; false: none, or above max. */
static bool number(const char **p, uint64_t max, uint64_t *out)
{
	size_t len = strspn(*p, "0123456789");

	if (!len || len > 18)
		return false;
	*out = strtoull(*p, NULL, 10);
	*p += len;
	return *out <= max;
}

static bool is_max(const char **p)
{
	if (strncmp(*p, "max", 3) != 0)
		return false;
	*p += 3;
	return true;
}

static int parse_memory(const char *p, struct engine_limits *out, struct err *err)
{
	static const char units[] = "bkmg";
	const char *unit;
	uint64_t n = 0;

	if (!is_max(&p)) {
		if (!number(&p, MEMORY_MAX, &n) || !n)
			return err_set(err, EINVAL, "memory.max takes bytes or max");
		unit = *p ? strchr(units, tolower((unsigned char)*p)) : NULL;
		if (unit) {
			unsigned shift = 10 * (unsigned)(unit - units);

			/* What is shifted out would be another number, or none: max. */
			n = n > MEMORY_MAX >> shift ? MEMORY_MAX + 1 : n << shift;
			p++;
			if (unit > units && tolower((unsigned char)*p) == 'b')
				p++; /* "512mb" */
		}
	}
	if (*spaces(p) || n > MEMORY_MAX)
		return err_set(err, EINVAL, "memory.max takes bytes or max");
	out->memory = n;
	return 0;
}

static int parse_cpu(const char *p, struct engine_limits *out, struct err *err)
{
	uint64_t quota = 0, period = 0;
	bool ok = is_max(&p) || (number(&p, QUOTA_MAX_US, &quota) && quota >= QUOTA_MIN_US);

	if (ok && isspace((unsigned char)*p) && *spaces(p)) {
		p = spaces(p);
		ok = number(&p, PERIOD_MAX_US, &period) && period >= PERIOD_MIN_US;
	}
	if (!ok || *spaces(p))
		return err_set(err, EINVAL,
			"cpu.max takes QUOTA or max, and then a PERIOD, in microseconds: "
			"quota at least %u, period %u to %u",
			QUOTA_MIN_US, PERIOD_MIN_US, PERIOD_MAX_US);
	out->cpu_quota_us = quota;
	out->cpu_period_us = period;
	return 0;
}

static int parse_pids(const char *p, struct engine_limits *out, struct err *err)
{
	uint64_t n = 0;

	if ((!is_max(&p) && (!number(&p, PIDS_MAX, &n) || !n)) || *spaces(p))
		return err_set(err, EINVAL, "pids.max takes a number of processes or max");
	out->pids = n;
	return 0;
}

int limits_parse(unsigned which, const char *text, struct engine_limits *out, struct err *err)
{
	const char *p = spaces(text);

	return which == ENGINE_LIMIT_MEMORY ? parse_memory(p, out, err)
	       : which == ENGINE_LIMIT_CPU  ? parse_cpu(p, out, err)
					    : parse_pids(p, out, err);
}

static uint64_t period(const struct engine_limits *l)
{
	return l->cpu_period_us ? l->cpu_period_us : PERIOD_US;
}

void limits_render(unsigned which, const struct engine_limits *l, struct buf *out)
{
	uint64_t n = which == ENGINE_LIMIT_MEMORY ? l->memory
		     : which == ENGINE_LIMIT_CPU  ? l->cpu_quota_us
						  : l->pids;

	if (n)
		buf_printf(out, "%" PRIu64, n);
	else
		buf_puts(out, "max");
	if (which == ENGINE_LIMIT_CPU)
		buf_printf(out, " %" PRIu64, period(l));
	buf_puts(out, "\n");
}

static bool more(uint64_t from, uint64_t to)
{
	return from && (!to || to > from);
}

bool limits_raise(unsigned which, const struct engine_limits *from, const struct engine_limits *to)
{
	if (which == ENGINE_LIMIT_MEMORY)
		return more(from->memory, to->memory);
	if (which == ENGINE_LIMIT_PIDS)
		return more(from->pids, to->pids);
	return more(from->cpu_quota_us * period(to), to->cpu_quota_us * period(from));
}
