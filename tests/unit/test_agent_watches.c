/* SPDX-License-Identifier: MIT */
/* Watches of files: by whatever number or name they are known, and where there are few. */
#include "test_agent_watch.h"

/* A file's watch goes with it, by whatever number the daemon goes on. */
static void another_number(void)
{
	unsigned long long f, g;
	struct proto_attr attr;

	put_file("twice", "x");
	f = look("twice", &attr);
	g = look("twice", &attr);
	CHECK(keeps(&attr) == PROTO_CACHE_ALL);
	hear();
	write_out_of_sight("twice"); /* the daemon may still drop either */
	hear();
	CHECK(has("data %llu", f) && has("data %llu", g));
	CHECK(do_getattr(&c, f, 0, &attr) == 0);
	forget(g);
	CHECK(do_getattr(&c, f, 0, &attr) == 0 && keeps(&attr) == PROTO_CACHE_ALL);
	hear();
	write_out_of_sight("twice");
	hear();
	CHECK(has("data %llu", f));
	g = look("twice", &attr);
	forget(f);
	CHECK(do_getattr(&c, g, 0, &attr) == 0 && keeps(&attr) == PROTO_CACHE_ALL);
	hear();
	write_out_of_sight("twice");
	hear();
	CHECK(has("data %llu", g));
}

static void a_command_ends(void)
{
	struct proto_job j;

	run_text(&c, "true", &j);
	proto_job_fini(&j);
	hear();
}

/* On a busy machine the moment may be over when the command ends: so it is tried again. */
static bool ends_with_a_command(uint64_t f, bool by_another)
{
	struct proto_attr attr;
	char attr_of[32];

	snprintf(attr_of, sizeof(attr_of), "attr %llu", (unsigned long long)f);
	for (int i = 0; i < 50; i++) {
		if (by_another)
			forget(look("b1", &attr));
		else
			CHECK(do_getattr(&c, f, 0, &attr) == 0);
		a_command_ends();
		if (strstr(heard, attr_of))
			return true;
	}
	return false;
}

/* What is not watched may be kept for a moment, of which a barrier is the end. */
static void kept_for_a_moment(void)
{
	struct timespec moment = {.tv_nsec = 300000000};
	unsigned long long f;
	struct proto_attr attr;
	struct proto_hello h;
	struct client old;

	put_file("b1", "x");
	hear();
	f = look("b1", &attr);
	CHECK(attr.cache == (PROTO_CACHE_NAME | PROTO_CACHE_BRIEF));
	CHECK(hears_nothing_of(f)); /* an open of another file is none */
	CHECK(do_getattr(&c, f, 0, &attr) == 0 && attr.cache & PROTO_CACHE_BRIEF);
	CHECK(ends_with_a_command(f, false));
	/* By a number that the daemon did not need. */
	CHECK(ends_with_a_command(f, true));
	/* Nobody has it any more. */
	CHECK(do_getattr(&c, f, 0, &attr) == 0);
	nanosleep(&moment, NULL);
	a_command_ends();
	CHECK(!strstr(heard, "attr"));
	/* A daemon of before does not know what that means. */
	CHECK(client_hello_as(&old, &a, "old", PROTO_VERSION_BRIEF - 1, &h) == 0);
	CHECK(h.version == PROTO_VERSION_BRIEF - 1);
	proto_hello_fini(&h);
	CHECK(do_lookup(&old, 2, "b1", next_node++, &attr) == 0 &&
		!(attr.cache & PROTO_CACHE_BRIEF));
	client_close(&old);
	/* Nor what has a second name. */
	CHECK(link(path("b1"), path("b2")) == 0);
	CHECK(do_getattr(&c, f, 0, &attr) == 0 && !(attr.cache & PROTO_CACHE_BRIEF));
}

#define FEW 12

static struct {
	unsigned long long node;
	bool kept; /* its attributes are, and we have not heard that they are old */
	uint64_t fh;
} few[FEW];

static void hear_of_few(void)
{
	char word[64];

	hear();
	for (int i = 0; i < FEW; i++) {
		snprintf(word, sizeof(word), "attr %llu", few[i].node);
		if (strstr(heard, word) || strstr(heard, "all "))
			few[i].kept = false;
		snprintf(word, sizeof(word), "data %llu", few[i].node);
		if (strstr(heard, word))
			few[i].kept = false;
	}
}

static bool keep_of_few(int i)
{
	struct proto_attr attr;

	CHECK(do_getattr(&c, few[i].node, 0, &attr) == 0);
	return few[i].kept = keeps(&attr) == PROTO_CACHE_ALL;
}

static void open_of_few(int i)
{
	struct proto_attr attr;
	int ret = do_open(&c, few[i].node, next_fh, PROTO_O_READ);

	if (ret == ESTALE) { /* as the kernel does; and that once only */
		CHECK(do_lookup(&c, 2, (char[]){'f', (char)('a' + i), 0}, next_node, &attr) == 0);
		forget(next_node++);
		ret = do_open(&c, few[i].node, next_fh, PROTO_O_READ);
	}
	CHECK(ret == 0);
	few[i].fh = next_fh++;
}

/* There are 8 watches: whatever is done, what is kept is heard of. */
static void more_files_than_watches(void)
{
	unsigned unheard = 0, heard_of = 0;
	struct proto_attr attr;
	char name[3] = "fa";

	for (int i = 0; i < FEW; i++) {
		name[1] = (char)('a' + i);
		put_file(name, "text");
		few[i].node = look(name, &attr);
		few[i].kept = keeps(&attr) == PROTO_CACHE_ALL;
		CHECK(few[i].kept == (i < 6)); /* and the dummy, and their directory */
		CHECK(few[i].kept || keeps(&attr) == PROTO_CACHE_NAME);
	}
	srand(1);
	for (int n = 0; n < 2000; n++) {
		int i = rand() % FEW;

		name[1] = (char)('a' + i);
		switch (rand() % 6) {
		case 0:
			hear_of_few();
			write_out_of_sight(name);
			(few[i].kept ? heard_of++ : unheard++);
			hear_of_few();
			CHECK(!few[i].kept);
			break;
		case 1:
			if (!few[i].fh)
				open_of_few(i);
			break;
		case 2:
			if (few[i].fh)
				do_close(&c, few[i].fh);
			few[i].fh = 0;
			break;
		case 3: /* by a number that is not needed */
			CHECK(do_lookup(&c, 2, name, next_node, &attr) == 0);
			few[i].kept = keeps(&attr) == PROTO_CACHE_ALL;
			forget(next_node++);
			break;
		default:
			keep_of_few(i);
		}
	}
	printf("# written out of sight: %u that were kept, %u that were not\n", heard_of, unheard);
	CHECK(heard_of > 20 && unheard > 20);
	for (int i = 0; i < FEW; i++)
		if (few[i].fh)
			do_close(&c, few[i].fh);
}

static void few_watches(void)
{
	struct proto_attr attr;
	char name[16];

	/* An open file has one. */
	open_of_few(1);
	CHECK(keep_of_few(1));
	/* What is asked for again and again gets one in time. */
	for (int i = 0; i < 64 && !keep_of_few(2); i++)
		;
	CHECK(few[2].kept);
	/* A file of another size than was told must be looked up again; but never twice in a row,
	 * or one that is always written to could not be opened at all. */
	hear_of_few();
	append_text(path("ff"), "more");
	CHECK(do_open(&c, few[5].node, next_fh, PROTO_O_READ) == ESTALE);
	append_text(path("ff"), "more");
	CHECK(do_open(&c, few[5].node, next_fh, PROTO_O_READ) == 0);
	do_close(&c, next_fh++);
	/* Directories come first, but for open files. */
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "dir%d", i);
		CHECK(do_make(&c, PROTO_MKDIR, 2, name, next_node, 0755) == 0);
		CHECK(do_getattr(&c, next_node++, 0, &attr) == 0);
		CHECK((keeps(&attr) == PROTO_CACHE_ALL) == (i < 6));
	}
	CHECK(keep_of_few(1) && !keep_of_few(2));
}

/* There are 8 watches in all, and more directories. */
static void moved_out_of_sight(void)
{
	unsigned long long m, n, far = next_node++;
	struct proto_attr attr;
	char name[16];

	CHECK(do_make(&c, PROTO_MKNOD, 2, "m", m = next_node++, S_IFREG | 0644) == 0);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "full%d", i);
		CHECK(do_make(&c, PROTO_MKDIR, 2, name, next_node, 0755) == 0);
		CHECK(do_lookup(&c, next_node, "none", next_node + 1, &attr) == ENOENT);
		next_node += 2;
	}
	CHECK(do_make(&c, PROTO_MKDIR, 2, "far", far, 0755) == 0);
	CHECK(do_make(&c, PROTO_MKNOD, far, "n", n = next_node++, S_IFREG | 0644) == 0);
	hear();
	CHECK(do_rename(&c, 2, "m", far, "m2", 0) == 0);
	hear();
	CHECK(has("attr %llu", m) && has("size %llu m2", far));
	CHECK(do_getattr(&c, m, 0, &attr) == 0 && keeps(&attr) == 0);
	CHECK(do_lookup(&c, far, "m2", next_node++, &attr) == 0 && keeps(&attr) == 0);
	/* Back, and there again in exchange for another. */
	CHECK(do_rename(&c, far, "m2", 2, "m", 0) == 0);
	CHECK(do_getattr(&c, m, 0, &attr) == 0 && keeps(&attr) == PROTO_CACHE_NAME);
	hear();
	CHECK(do_rename(&c, far, "n", 2, "m", PROTO_RENAME_EXCHANGE) == 0);
	hear();
	CHECK(has("attr %llu", m) && has("size %llu n", far));
	CHECK(do_getattr(&c, n, 0, &attr) == 0 && keeps(&attr) == PROTO_CACHE_NAME);
}

int main(void)
{
	if (!may_test())
		return 77;
	start();
	TEST(another_number);
	client_close(&c);
	agent_clean(&a);
	setenv("AGENT_WATCHES", "32", 1); /* of which one sandbox takes a quarter */
	start();
	TEST(more_files_than_watches);
	TEST(few_watches);
	client_close(&c);
	agent_clean(&a);
	start();
	TEST(moved_out_of_sight);
	client_close(&c);
	agent_clean(&a);
	setenv("AGENT_WATCHES", "4", 1);
	start();
	TEST(kept_for_a_moment);
	client_close(&c);
	agent_clean(&a);
	return check_done();
}
