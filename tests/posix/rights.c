/* SPDX-License-Identifier: MIT */
/*
 * Who may do what with which mode bits. The class of a caller (owner, group, a supplementary group,
 * others) decides alone: the other classes' bits are always the opposite of the ones tested.
 */
#include "tests/posix/posix.h"

static const struct class
{
	const char *name;
	struct who caller;
	unsigned shift; /* its bits in a mode of a file that belongs to 65534:65534 */
} classes[] = {
	{"owner", ID(65534, 65533), 6},
	{"owner in the group", ID(65534, 65534), 6},
	{"owner in the group too", ID(65534, 65533, 65534), 6},
	{"group", ID(65533, 65534), 3},
	{"extra group", ID(65533, 65533, 65534), 3},
	{"third extra group", ID(65533, 65533, 65531, 65532, 65534), 3},
	{"other", ID(65533, 65533), 0},
	{"other with extra groups", ID(65533, 65533, 65531, 65532), 0},
	{"other with root's group", ID(65533, 0), 0},
};

#define each_class(c)                                       \
	const struct class *c = classes;                    \
	c < classes + sizeof(classes) / sizeof(classes[0]); \
	c++

/* BITS for this class, the opposite for the others. */
static mode_t mode_for(const struct class *c, mode_t bits)
{
	mode_t others = ~bits & 7, mode = others << 6 | others << 3 | others;

	mode &= ~((mode_t)7 << c->shift);
	return mode | bits << c->shift;
}

static int needs(mode_t bits, mode_t needed)
{
	return needed & ~bits ? EACCES : 0;
}

/* --- access ------------------------------------------------------------------------------------
 */

void topic_access(void)
{
	struct who nobody = NOBODY;

	for (each_kind(k)) {
		const char *n = name();

		if (k == LINK)
			continue;
		make_for(k, n, nobody);
		for (mode_t bits = 0; bits < 8; bits++) {
			for (each_class(c)) {
				/* All kinds one mask, files and directories all of them. */
				int last = k == REG || k == DIR_ ? 7 : 0;

				must(c_chmod(n, mode_for(c, bits)));
				for (int mask = 0; mask <= last; mask++)
					want(needs(bits, (mode_t)mask), c->caller,
						c_access(n, mask));
				want(needs(bits, R_OK), c->caller, c_access(n, R_OK));
				want(needs(bits, W_OK), c->caller, c_eaccess(n, W_OK));
			}
		}
		/* Root may all, but run only what somebody may run. */
		for (mode_t mode = 0; mode <= 0777; mode += 0111) {
			must(c_chmod(n, mode));
			want(0, ROOT, c_access(n, R_OK | W_OK));
			want(k == DIR_ || (mode & 0111) ? 0 : EACCES, ROOT, c_access(n, X_OK));
		}
		want(EINVAL, ROOT, c_access(n, 8));
		wipe(n);
	}
	/* A link has no rights of its own: the target's count. */
	make_for(REG, "target", nobody);
	must(c_symlink("target", "link"));
	must(c_chmod("target", 0400));
	want(0, NOBODY, c_access("link", R_OK));
	want(EACCES, NOBODY, c_access("link", W_OK));
	want(EACCES, OTHER, c_access("link", R_OK));
	want(0, OTHER, c_access("link", F_OK));
}

/* --- open --------------------------------------------------------------------------------------
 */

void topic_open_rights(void)
{
	static const struct {
		int flags;
		mode_t needed;
	} modes[] = {
		{O_RDONLY, 4},
		{O_WRONLY, 2},
		{O_RDWR, 6},
		{O_RDONLY | O_TRUNC, 6},
		{O_WRONLY | O_TRUNC, 2},
		{O_RDWR | O_TRUNC, 6},
		{O_WRONLY | O_APPEND, 2},
		{O_RDWR | O_CREAT, 6},
	};
	struct who nobody = NOBODY;

	make_for(REG, "file", nobody);
	make_for(FIFO, "fifo", nobody);
	make_for(DIR_, "dir", nobody);
	for (each_class(c)) {
		for (mode_t bits = 0; bits < 8; bits++) {
			mode_t mode = mode_for(c, bits);

			must(c_chmod("file", mode));
			must(c_chmod("fifo", mode));
			must(c_chmod("dir", mode));
			for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++)
				want(needs(bits, modes[k].needed), c->caller,
					c_open("file", modes[k].flags, 0));
			want(needs(bits, 4), c->caller, c_open("fifo", O_RDONLY | O_NONBLOCK, 0));
			want(needs(bits, 6), c->caller, c_open("fifo", O_RDWR, 0));
			want(bits & 2 ? ENXIO : EACCES, c->caller,
				c_open("fifo", O_WRONLY | O_NONBLOCK, 0));
			want(needs(bits, 4), c->caller, c_open("dir", O_RDONLY | O_DIRECTORY, 0));
			want(needs(bits, 1), c->caller, c_chdir("dir"));
			want(needs(bits, 2), c->caller, c_truncate("file", 3));
			/* Metadata is for anybody who can reach it. */
			want(0, c->caller, c_stat("file"));
			want(0, c->caller, c_open("file", O_PATH, 0));
		}
	}
	must(c_chmod("file", 0));
	want(0, ROOT, c_open("file", O_RDWR, 0));
	must(c_chmod("dir", 0));
	want(0, ROOT, c_opendir("dir"));
}

/* --- what the rights of a directory allow -------------------------------------------------------
 */

struct change {
	const char *what;
	struct call (*call)(const char *dir);
};

static struct call d_create(const char *d)
{
	return c_open(at("%s/new", d), O_CREAT | O_EXCL | O_WRONLY, 0644);
}

static struct call d_mkdir(const char *d)
{
	return c_mkdir(at("%s/new", d), 0755);
}

static struct call d_mkfifo(const char *d)
{
	return c_mkfifo(at("%s/new", d), 0644);
}

static struct call d_bind(const char *d)
{
	return c_bind(at("%s/new", d));
}

static struct call d_symlink(const char *d)
{
	return c_symlink("text", at("%s/new", d));
}

static struct call d_link_in(const char *d)
{
	return c_link("out/f", at("%s/new", d));
}

static struct call d_move_in(const char *d)
{
	return c_rename("out/f", at("%s/new", d));
}

static struct call d_move_over(const char *d)
{
	return c_rename("out/f", at("%s/f", d));
}

static struct call d_move_out(const char *d)
{
	return c_rename(at("%s/f", d), "out/g");
}

static struct call d_move_within(const char *d)
{
	return c_rename(at("%s/f", d), at("%s/g", d));
}

static struct call d_unlink(const char *d)
{
	return c_unlink(at("%s/f", d));
}

static struct call d_rmdir(const char *d)
{
	return c_rmdir(at("%s/d", d));
}

static const struct change changes[] = {
	{"create", d_create},
	{"mkdir", d_mkdir},
	{"mkfifo", d_mkfifo},
	{"bind", d_bind},
	{"symlink", d_symlink},
	{"link into", d_link_in},
	{"move into", d_move_in},
	{"move over", d_move_over},
	{"move out", d_move_out},
	{"move within", d_move_within},
	{"unlink", d_unlink},
	{"rmdir", d_rmdir},
};

/* dir/f, dir/d and out/f, the caller's. */
static void make_changeable(const char *d, struct who caller)
{
	const char *const files[] = {at("%s/f", d), "out/f"};

	wipe(at("%s/new", d));
	wipe(at("%s/g", d));
	wipe("out/g");
	for (size_t k = 0; k < 2; k++)
		if (access(files[k], F_OK) < 0)
			make_for(REG, files[k], caller);
	if (access(at("%s/d", d), F_OK) < 0)
		make_for(DIR_, at("%s/d", d), caller);
}

static void try_change(const struct change *ch, const struct class *c, const char *d)
{
	make_changeable(d, c->caller);
	for (mode_t bits = 0; bits < 8; bits++) {
		int err = needs(bits, 3);
		struct stamp before;

		must(c_chmod(d, mode_for(c, bits)));
		before = stamp(d);
		if (!err)
			tick();
		want(err, c->caller, ch->call(d));
		times(before, err ? "MC" : "mc");
		if (!err)
			make_changeable(d, c->caller);
	}
}

void topic_dir_rights(void)
{
	struct who nobody = NOBODY;

	must(c_mkdir("out", 0777));
	for (each_class(c)) {
		const char *d = name();

		make_for(DIR_, d, nobody);
		for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
			try_change(&changes[k], c, d);
		wipe(d);
		wipe("out/f");
	}
	/* Reading names needs r, reaching what they name needs x. */
	make_for(DIR_, "dir", nobody);
	make(REG, "dir/file");
	for (each_class(c)) {
		for (mode_t bits = 0; bits < 8; bits++) {
			must(c_chmod("dir", mode_for(c, bits)));
			want(needs(bits, 4), c->caller, c_opendir("dir"));
			want(needs(bits, 1), c->caller, c_stat("dir/file"));
			want(needs(bits, 1), c->caller, c_open("dir/file", O_RDONLY, 0));
			want(needs(bits, 1), c->caller, c_stat("dir/."));
			want(bits & 1 ? ENOENT : EACCES, c->caller, c_stat("dir/none"));
		}
	}
}
