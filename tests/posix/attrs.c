/* SPDX-License-Identifier: MIT */
/* chmod, chown, and what happens to set-id bits. */
#include "tests/posix/posix.h"

/* --- chmod -------------------------------------------------------------------------------------
 */

static void every_mode(void)
{
	static const mode_t modes[] = {0, 0111, 0222, 0444, 0531, 0644, 0751, 0777, 01000, 02000,
		04000, 01777, 02755, 04755, 06755, 07777, 07000, 0642};

	for (each_kind(k)) {
		const char *n = name(), *l = at("%s.link", n);

		if (k == LINK)
			continue;
		make(k, n);
		must(c_symlink(n, l));
		for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
			struct stamp before;

			want(0, ROOT, c_chmod(n, modes[m]));
			is_mode(n, modes[m]);
			must(c_chmod(n, 0600));
			before = stamp(n);
			tick();
			want(0, ROOT, c_chmod(l, modes[m])); /* follows the link */
			is_mode(n, modes[m]);
			is_mode(l, 0777);
			times(before, "AMc");
			if (k == REG || k == DIR_ || k == FIFO) {
				must(c_chmod(n, 0600));
				want(0, ROOT, c_fchmod(n, modes[m]));
				is_mode(n, modes[m]);
			}
			is_kind(n, k);
		}
		is_owner(n, 0, 0);
		/* The mode that it has already is a change too. */
		{
			struct stamp before = stamp(n);

			tick();
			want(0, ROOT, c_chmod(n, 0642));
			times(before, "AMc");
		}
	}
}

static void chmod_owner_only(void)
{
	static const struct who strangers[] = {ID(65533, 65533), ID(65533, 65534),
		ID(65533, 65533, 65534), ID(65531, 0), ID(65531, 65531, 0)};
	struct who nobody = NOBODY;

	for (each_kind(k)) {
		const char *n = name(), *l = at("%s.link", n);
		struct stamp before;

		if (k == LINK)
			continue;
		make_for(k, n, nobody);
		must(c_symlink(n, l));
		must(c_lchown(l, 65533, 65533)); /* whose the link is does not matter */
		want(0, NOBODY, c_chmod(n, 0640));
		is_mode(n, 0640);
		want(0, NOBODY, c_chmod(l, 0666));
		is_mode(n, 0666);
		before = stamp(n);
		tick();
		for (size_t s = 0; s < sizeof(strangers) / sizeof(strangers[0]); s++) {
			want(EPERM, strangers[s], c_chmod(n, 0600));
			want(EPERM, strangers[s], c_chmod(l, 0600));
			want(EPERM, strangers[s], c_chmod(n, 0666));
			if (k == REG || k == FIFO)
				want(EPERM, strangers[s], c_fchmod(n, 0600));
		}
		is_mode(n, 0666);
		times(before, "AMC");
		/* Owner of a file in a directory of another: still owner. */
		must(c_chown(n, 65533, 65534));
		want(EPERM, NOBODY, c_chmod(n, 0600));
		want(0, OTHER, c_chmod(n, 0600));
	}
}

/* Only a member of the file's group keeps or gives the set-gid bit; the chmod itself succeeds. */
static void chmod_setgid(void)
{
	static const struct {
		struct who file, caller;
		mode_t mode, got;
	} cases[] = {
		{ID(65534, 65534), ID(65534, 65534), 02755, 02755},
		{ID(65534, 65533), ID(65534, 65534), 02755, 0755},
		{ID(65534, 65533), ID(65534, 65534, 65533), 02755, 02755},
		{ID(65534, 65533), ID(65534, 65534, 65532, 65531, 65533), 02755, 02755},
		{ID(65534, 65533), ID(65534, 65534, 65532), 06755, 04755},
		{ID(65534, 65533), ID(65534, 65534), 02644, 0644},
		{ID(65534, 65533), ID(65534, 65534), 04755, 04755},
		{ID(65534, 65533), ID(65534, 65534), 01755, 01755},
		{ID(65534, 65533), ID(0, 0), 02755, 02755},
		{ID(65534, 0), ID(65534, 65534), 07777, 05777},
	};

	for (enum kind k = REG; k <= FIFO; k++) {
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
			const char *n = name();

			make_for(k, n, cases[c].file);
			want(0, cases[c].caller, c_chmod(n, cases[c].mode));
			is_mode(n, cases[c].got);
			must(c_chmod(n, 0755));
			want(0, cases[c].caller, c_fchmod(n, cases[c].mode));
			is_mode(n, cases[c].got);
		}
	}
}

void topic_chmod(void)
{
	every_mode();
	chmod_owner_only();
	chmod_setgid();
}

/* --- chown -------------------------------------------------------------------------------------
 */

static void root_chowns(void)
{
	static const long ids[][4] = {/* asked, got; -1 is as it was */
		{123, 456, 123, 456}, {-1, 789, 123, 789}, {65534, -1, 65534, 789},
		{-1, -1, 65534, 789}, {0, 0, 0, 0},
		{2147483647, 2147483646, 2147483647, 2147483646},
		{4294967294, 4294967293, 4294967294, 4294967293}};

	for (each_kind(k)) {
		const char *n = name(), *l = at("%s.link", n);

		make(k, n);
		must(c_symlink(n, l));
		for (size_t m = 0; m < sizeof(ids) / sizeof(ids[0]); m++) {
			struct stamp before = stamp(n), link = stamp(l);

			if (options.user_namespace && ids[m][0] > 65535) {
				want(EINVAL, ROOT, c_lchown(n, ids[m][0], ids[m][1]));
				continue;
			}
			tick();
			want(0, ROOT, c_lchown(n, ids[m][0], ids[m][1]));
			is_owner(n, (uid_t)ids[m][2], (gid_t)ids[m][3]);
			times(before, "AM");
			if (ids[m][0] != -1 || ids[m][1] != -1)
				times(before, "c");
			if (k == LINK)
				continue;
			must(c_lchown(n, m == 3 ? 65534 : 123, m == 3 ? 789 : m == 2 ? 789 : 456));
			want(0, ROOT, c_chown(l, ids[m][0], ids[m][1]));
			is_owner(n, (uid_t)ids[m][2], (gid_t)ids[m][3]);
			is_owner(l, 0, 0);
			times(link, "MC");
			want(0, ROOT, c_lchown(l, 5, 6));
			is_owner(l, 5, 6);
			is_owner(n, (uid_t)ids[m][2], (gid_t)ids[m][3]);
			must(c_lchown(l, 0, 0));
		}
		is_kind(n, k);
		if (k != LINK)
			is_mode(n, k == DIR_ ? 0755 : 0644);
	}
	make(REG, "by_fd");
	want(0, ROOT, c_fchown("by_fd", 123, -1));
	is_owner("by_fd", 123, 0);
	want(0, ROOT, c_fchown("by_fd", -1, 456));
	is_owner("by_fd", 123, 456);
}

static void user_chowns(void)
{
	static const struct {
		struct who caller;
		long uid, gid;
		int err;
	} cases[] = {
		/* The owner may give the file to a group that he is in, and to nobody else. */
		{ID(65534, 65534), -1, 65534, 0},
		{ID(65534, 65534), 65534, 65534, 0},
		{ID(65534, 65532), -1, 65532, 0},
		{ID(65534, 65532), 65534, 65532, 0},
		{ID(65534, 65534, 65532), -1, 65532, 0},
		{ID(65534, 65534, 65530, 65531, 65532), -1, 65532, 0},
		{ID(65534, 65534, 65530, 65531, 65532), 65534, 65530, 0},
		{ID(65534, 65534), -1, 65533, EPERM},
		{ID(65534, 65534), 65534, 65533, EPERM},
		{ID(65534, 65534, 65532, 65531), -1, 65533, EPERM},
		{ID(65534, 65534), -1, 0, EPERM},
		{ID(65534, 65534), 65533, -1, EPERM},
		{ID(65534, 65534), 65533, 65534, EPERM},
		{ID(65534, 65534), 0, -1, EPERM},
		{ID(65534, 65534), 0, 0, EPERM},
		{ID(65534, 65534, 65532), 65533, 65532, EPERM},
		/* Others may nothing, not even what would change nothing. */
		{ID(65533, 65533), 65533, -1, EPERM},
		{ID(65533, 65533), -1, 65533, EPERM},
		{ID(65533, 65533), 65533, 65533, EPERM},
		{ID(65533, 65533), 65534, 65534, EPERM},
		{ID(65533, 65534), -1, 65534, EPERM},
		{ID(65533, 65533, 65534), -1, 65534, EPERM},
		{ID(65533, 65533, 65534), 65534, -1, EPERM},
		{ID(65533, 0), -1, 0, EPERM},
	};

	for (each_kind(k)) {
		for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
			const char *n = name();
			struct stamp before;

			make_for(k, n, WHO(65534, 65534));
			before = stamp(n);
			tick();
			want(cases[c].err, cases[c].caller,
				c_lchown(n, cases[c].uid, cases[c].gid));
			if (cases[c].err) {
				is_owner(n, 65534, 65534);
				times(before, "AMC");
			} else {
				is_owner(n, 65534, (gid_t)cases[c].gid);
				times(before, "AMc");
			}
			if (k == LINK)
				continue;
			must(c_lchown(n, 65534, 65534));
			must(c_symlink(n, at("%s.link", n)));
			want(cases[c].err, cases[c].caller,
				c_chown(at("%s.link", n), cases[c].uid, cases[c].gid));
		}
	}
}

void topic_chown(void)
{
	root_chowns();
	user_chowns();
}

/* --- set-id bits are lost ------------------------------------------------------------------------
 */

/* By chown: of a file that can be run, root's or the owner's; a directory keeps them. */
static void lost_by_chown(void)
{
	static const mode_t modes[] = {06555, 04555, 02555, 06755, 04644, 06711, 07755};
	struct who member = WHO(65534, 65534, 65532);

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		mode_t plain = modes[m] & ~(mode_t)06000;
		const char *n = name();

		make_for(REG, n, WHO(65534, 65534));
		must(c_chmod(n, modes[m]));
		want(0, member, c_chown(n, -1, 65532));
		is_mode(n, plain);
		is_owner(n, 65534, 65532);
		must(c_chmod(n, modes[m]));
		want(0, member, c_chown(n, 65534, 65534));
		is_mode(n, plain);
		must(c_chmod(n, modes[m]));
		want(0, member, c_fchown(n, -1, 65532));
		is_mode(n, plain);
		must(c_chmod(n, modes[m]));
		want(0, ROOT, c_chown(n, 65533, 65533));
		is_mode(n, plain);
		must(c_chmod(n, modes[m]));
		want(EPERM, NOBODY, c_chown(n, 65534, 65534));
		is_mode(n, modes[m]);
	}
	make_for(DIR_, "dir", WHO(65534, 65534));
	must(c_chmod("dir", 07755));
	want(0, member, c_chown("dir", -1, 65532));
	is_mode("dir", 07755);
	want(0, ROOT, c_chown("dir", 65533, 65533));
	is_mode("dir", 07755);
}

/* By new bytes from somebody who is not root. */
static void lost_by_write(void)
{
	struct {
		mode_t mode, left;
	} modes[] = {{04777, 0777}, {02777, 0777}, {06777, 0777}, {04666, 0666}, {06767, 0767},
		{07777, 01777}};
	struct who caller = OTHER;
	const char *from = name(), *copy = name();

	make(REG, from);
	must(c_write(from));
	make_for(REG, copy, caller);
	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		const char *n = name();

		make_for(REG, n, WHO(65534, 65534));
		must(c_write(n));
		/* 02000 without group execution is no set-gid; who is in the group may keep it. */
		if ((modes[m].mode & 02010) == 02000)
			continue;
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_write(n));
		is_mode(n, modes[m].left);
		is_size(n, 2);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_truncate(n, 1));
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_ftruncate(n, 0));
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_open(n, O_WRONLY | O_TRUNC, 0));
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_fallocate(n, 0, 100));
		is_mode(n, modes[m].left);
		is_size(n, 100);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_fallocate(n, 0, 10)); /* what is there already */
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_punch(n, 0, 10));
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_copy(from, n));
		is_mode(n, modes[m].left);
		is_size(n, 100);
		must(c_chmod(n, modes[m].mode));
		want(0, caller, c_copy(n, copy)); /* read only: it keeps them */
		is_mode(n, modes[m].mode);
		want(0, NOBODY, c_write(n)); /* the owner too */
		is_mode(n, modes[m].left);
		must(c_chmod(n, modes[m].mode));
		if (options.user_namespace)
			modes[m].mode = modes[m].left;
		want(0, ROOT, c_write(n));
		is_mode(n, modes[m].mode);
		want(0, ROOT, c_fallocate(n, 0, 200));
		want(0, ROOT, c_punch(n, 0, 10));
		want(0, ROOT, c_copy(from, n));
		is_mode(n, modes[m].mode);
		want(0, ROOT, c_truncate(n, 0));
		is_mode(n, modes[m].mode);
		/* What changes no byte loses nothing. */
		want(0, caller, c_open(n, O_RDWR, 0));
		want(0, caller, c_read(n));
		is_mode(n, modes[m].mode);
	}
}

void topic_setid(void)
{
	lost_by_chown();
	lost_by_write();
}
