/* SPDX-License-Identifier: MIT */
/* The events: lines that are JSON whatever is in them, a ring that forgets, an audit file that
 * holds nobody up. */
#include "sandbox/audit.h"
#include "sandbox/events.h"
#include "tests/unit/check.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_events.XXXXXX";

/* The text of a key in a line, which must be JSON. */
static bool value_is(const char *line, const char *key, const char *want)
{
	cJSON *j = cJSON_Parse(line);
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);
	bool is = cJSON_IsString(v) && strcmp(v->valuestring, want) == 0;

	if (!is)
		printf("# %s in %s", key, line);
	cJSON_Delete(j);
	return is;
}

static bool escaped_is(const char *text, const char *want)
{
	struct event_field f = {.key = "command", .text = text};
	struct event_line *l = event_line_new("exec-start", "demo", &f, 1);
	bool is = l && l->text[l->len - 1] == '\n' &&
		  strchr(l->text, '\n') == l->text + l->len - 1 &&
		  value_is(l->text, "command", want);

	event_line_put(l);
	return is;
}

static void says_what_happened(void)
{
	struct event_field f[] = {{.key = "uid", .number = -1}, {.key = "id", .number = INT64_MIN},
		{.key = "words", .text = "why"}, {.key = "wall", .number = 12034, .decimals = 3}};
	struct event_line *l = event_line_new("failed", "demo", f, 4);

	CHECK(l);
	CHECK(strncmp(l->text, "{\"time\":\"20", 11) == 0);
	CHECK_STR(strchr(l->text, ','),
		",\"event\":\"failed\",\"sandbox\":\"demo\",\"uid\":-1,\"id\":-9223372036854775808,"
		"\"words\":\"why\",\"wall\":12.034}\n");
	event_line_put(l);
	l = event_line_new("up", NULL, NULL, 0);
	CHECK_STR(strchr(l->text, ','), ",\"event\":\"up\"}\n");
	event_line_put(l);
}

static void escapes(void)
{
	CHECK(escaped_is("a \"b\" \\c\b\f\n\r\t\x01\x7f/", "a \"b\" \\c\b\f\n\r\t\x01\x7f/"));
	CHECK(escaped_is("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
	CHECK(escaped_is("a\xff"
			 "b",
		"a\xef\xbf\xbd"
		"b"));
	CHECK(escaped_is("\xc3", "\xef\xbf\xbd")); /* cut within a character */
	CHECK(escaped_is("\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"));
	CHECK(escaped_is("\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"));		   /* overlong */
	CHECK(escaped_is("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")); /* surrogate */
	CHECK(escaped_is("\xf5\x80", "\xef\xbf\xbd\xef\xbf\xbd"));
}

/* Whatever is long, the line is JSON, and what comes behind it is there. */
static void cuts(void)
{
	static char text[3 * EVENT_LINE_MAX];
	const char *const fill[] = {"x", "\"", "\x01", "\xe2\x82\xac", "\xff"};

	for (size_t k = 0; k < sizeof(fill) / sizeof(*fill); k++) {
		for (size_t len = EVENT_LINE_MAX / 8; len < sizeof(text) - 4; len += 37) {
			struct event_field f[] = {{.key = "command", .text = text},
				{.key = "code", .number = INT64_MIN},
				{.key = "job", .text = "job-name"}};
			struct event_line *l;
			bool cut;

			text[0] = 0;
			for (size_t n = 0; n < len; n += strlen(fill[k]))
				memcpy(text + n, fill[k], strlen(fill[k]) + 1);
			l = event_line_new("exec-start", "demo", f, 3);
			cut = strstr(l->text, "...\",\"code\":-9223372036854775808");
			CHECK(l->len <= EVENT_LINE_MAX && l->len == strlen(l->text));
			CHECK(cut || strstr(l->text, "\",\"code\":-9223372036854775808"));
			CHECK(!cut || l->len > EVENT_LINE_MAX - 120);
			CHECK(value_is(l->text, "job", "job-name"));
			event_line_put(l);
		}
	}
	struct event_line *l = event_line_new("created", text, NULL, 0);

	CHECK(l->len <= EVENT_LINE_MAX && value_is(l->text, "event", "created"));
	event_line_put(l);
}

static void add(struct events *e, const char *event, const char *sandbox, int64_t n)
{
	events_add(e, event, sandbox, &(struct event_field){.key = "n", .number = n}, 1);
}

static void forgets_the_oldest(void)
{
	struct events *e;
	struct events_view *v;
	char want[32], *all;
	size_t size, at = 0;

	CHECK(events_new(NULL, &e, NULL) == 0);
	for (int k = 0; k < EVENTS_MAX + 3; k++)
		add(e, "created", "demo", k);
	v = events_view_new(e, NULL);
	size = events_view_size(v);
	CHECK(size == events_size(e));
	add(e, "created", "demo", -1);
	CHECK(events_view_size(v) == size);
	CHECK(strstr(events_view_line(v, 0)->text, "\"n\":3}"));
	snprintf(want, sizeof(want), "\"n\":%d}", EVENTS_MAX + 2);
	CHECK(strstr(events_view_line(v, EVENTS_MAX - 1)->text, want));
	CHECK(!events_view_line(v, EVENTS_MAX));
	/* In pieces of any size it is the same text. */
	all = malloc(size + 1);
	for (size_t step = 1; at < size; step = step * 7 % 1009 + 1)
		at += events_view_read(v, at, all + at, step < size - at ? step : size - at);
	CHECK(at == size && events_view_read(v, size, all, 100) == 0);
	CHECK(events_view_read(v, size + 1, all, 100) == 0);
	at = 0;
	for (size_t k = 0; k < EVENTS_MAX; k++) {
		const struct event_line *l = events_view_line(v, k);

		CHECK(memcmp(all + at, l->text, l->len) == 0);
		at += l->len;
	}
	free(all);
	events_view_free(v);
	events_free(e);
}

/* The n of the lines of one sandbox. */
static void numbers(struct events *e, const char *sandbox, char *out)
{
	struct events_view *v = events_view_new(e, sandbox);

	*out = 0;
	for (size_t k = 0; events_view_line(v, k); k++)
		out += sprintf(
			out, "%d ", atoi(strstr(events_view_line(v, k)->text, "\"n\":") + 4));
	events_view_free(v);
}

static void knows_one_from_the_other(void)
{
	struct event_field to = {.key = "to", .text = "new"};
	struct event_field renamed[] = {{.key = "n", .number = 5}, to};
	struct events *e;
	char got[64];

	CHECK(events_new(NULL, &e, NULL) == 0);
	add(e, "created", "old", 1);
	add(e, "removed", "old", 2);
	add(e, "created", "old", 3);
	add(e, "created", "other", 4);
	events_add(e, "renamed", "old", renamed, 2);
	add(e, "stopped", "new", 6);
	add(e, "created", "old", 7);
	add(e, "started", "found", 8);
	numbers(e, "new", got);
	CHECK_STR(got, "3 5 6 ");
	numbers(e, "old", got);
	CHECK_STR(got, "7 ");
	numbers(e, "found", got);
	CHECK_STR(got, "8 ");
	numbers(e, "none", got);
	CHECK_STR(got, "");
	events_free(e);
}

static char *in_dir(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static size_t slurp(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	size_t n = 0;
	ssize_t got;

	while (n < size - 1 && (got = read(fd, to + n, size - 1 - n)) > 0)
		n += (size_t)got;
	to[n] = 0;
	close(fd);
	return n;
}

static void appends_to_a_file(void)
{
	const char *path = in_dir("audit");
	struct err err = {0};
	struct events *e;
	char text[1024];

	for (int k = 1; k < 3; k++) {
		CHECK(events_new(path, &e, &err) == 0);
		add(e, "created", "demo", k);
		events_free(e);
	}
	slurp(path, text, sizeof(text));
	CHECK(strstr(text, "\"n\":1}\n{\"time\"") && strstr(text, "\"n\":2}\n"));
	CHECK(events_new("/nowhere/at/all", &e, &err) == -ENOENT);
	CHECK(strstr(err.msg, "/nowhere/at/all"));
}

/* A FIFO that nobody reads: the pipe and the queue fill up, nobody waits. Then it is read, and what
 * is not there is told. */
static void never_waits_for_a_fifo(void)
{
	static char text[1 << 22];
	const char *path = in_dir("fifo");
	struct events *e;
	struct err err = {0};
	int lines = 20000, told = 0, lost = 0, fd;
	size_t n = 0;

	CHECK(mkfifo(path, 0600) == 0);
	CHECK(events_new(path, &e, &err) == 0);
	for (int k = 0; k < lines; k++)
		add(e, "created", "demo", k);
	fd = open(path, O_RDONLY);
	while (lost + told < lines && n < sizeof(text) - 1) { /* ends: all come, or are told of */
		ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);

		CHECK(got > 0);
		n += (size_t)got;
		text[n] = 0;
		if (text[n - 1] != '\n')
			continue;
		told = lost = 0;
		for (char *p = text; *p; p = strchr(p, '\n') + 1) {
			char *end = strchr(p, '\n');
			char *gone = strstr(p, "\"audit-lost\",\"lines\":");

			if (gone && gone < end)
				lost += atoi(strstr(p, "\"lines\":") + 8);
			else
				told++;
		}
	}
	CHECK(lost + told == lines && lost > 0 && told >= 4096);
	add(e, "created", "demo", -7);
	n = (size_t)read(fd, text, sizeof(text) - 1);
	text[n] = 0;
	CHECK(strstr(text, "\"n\":-7}\n"));
	close(fd);
	events_free(e);
}

/* Nothing to be done: it ends all the same. */
static void ends_with_a_full_fifo(void)
{
	struct events *e;
	struct err err = {0};

	CHECK(events_new(in_dir("fifo"), &e, &err) == 0);
	for (int k = 0; k < 5000; k++)
		add(e, "created", "demo", k);
	events_free(e);
}

static void counts_what_a_full_disk_refuses(void)
{
	struct events *e;
	struct err err = {0};

	CHECK(events_new("/dev/full", &e, &err) == 0);
	for (int k = 0; k < 100; k++)
		add(e, "created", "demo", k);
	CHECK(events_size(e) > 0);
	events_free(e);
}

int main(void)
{
	char rm[sizeof(dir) + 16];
	int r;

	if (!mkdtemp(dir))
		return 99;
	TEST(says_what_happened);
	TEST(escapes);
	TEST(cuts);
	TEST(forgets_the_oldest);
	TEST(knows_one_from_the_other);
	TEST(appends_to_a_file);
	TEST(never_waits_for_a_fifo);
	TEST(ends_with_a_full_fifo);
	TEST(counts_what_a_full_disk_refuses);
	r = check_done();
	snprintf(rm, sizeof(rm), "rm -rf %s", dir);
	return system(rm) == 0 ? r : 99;
}
