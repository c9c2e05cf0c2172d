/* SPDX-License-Identifier: MIT */
#include "sandbox/report.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

static void a_failure_is_one_line(void)
{
	struct report *r = report_new();
	struct err err = {0};
	struct buf b;

	CHECK(r != NULL);
	err_set(&err, EINVAL, "no template\tof that\nname");
	report_add(r, 0, "mkdir", "a\nb\x7f\\", &err);
	buf_init(&b, 4096);
	report_render(r, REPORT_ALL, &b);
	buf_append(&b, "", 1);
	CHECK(strstr((char *)b.data, " mkdir a\\012b\\177\\ EINVAL no template of that name\n"));
	CHECK(strchr((char *)b.data, '\n')[1] == 0);
	buf_fini(&b);
	report_free(r);
}

int main(void)
{
	TEST(a_failure_is_one_line);
	return check_done();
}
