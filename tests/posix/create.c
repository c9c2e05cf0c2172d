/* SPDX-License-Identifier: MIT */
/* What a new name begins with: owner, group, mode under a umask, times, links; and its parent. */
#include "tests/posix/posix.h"

/* How the caller makes each kind. The socket is bound, as sockets are. */
static struct call maker(enum kind k, const char *path, mode_t mode)
{
	switch (k) {
	case REG:
		return c_open(path, O_CREAT | O_EXCL | O_WRONLY, mode);
	case DIR_:
		return c_mkdir(path, mode);
	case FIFO:
		return c_mkfifo(path, mode);
	case SOCK:
		return c_mknod(path, S_IFSOCK | mode, 0);
	case LINK:
		return c_symlink("text", path);
	default:
		return c_mknod(path, S_IFREG | mode, 0);
	}
}

/* What any user can make; CHR stands for a file made by mknod. */
#define MADE_KINDS BLK

static void modes(void)
{
	static const mode_t asked[] = {0, 0777, 0755, 0644, 0600, 0151, 0345, 0666, 01777};
	static const mode_t masks[] = {0, 022, 027, 077, 0777, 0151, 070, 0501, 0345};
	struct who nobody = NOBODY;

	must(c_mkdir("modes", 0777));
	for (enum kind k = 0; k < MADE_KINDS; k++) {
		for (size_t a = 0; a < sizeof(asked) / sizeof(asked[0]); a++) {
			for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
				const char *n = at("modes/%s", name());

				want(0, masked(nobody, masks[m]), maker(k, n, asked[a]));
				is_mode(n, k == LINK ? 0777 : asked[a] & ~masks[m]);
			}
		}
	}
	for (enum kind k = 0; k < MADE_KINDS; k++) {
		const char *n = at("modes/%s", name());

		want(0, WHO(0, 0, 65532), maker(k, n, 06755));
		/* mkdir takes no set-id bits; the rest may have them. */
		is_mode(n, k == LINK ? 0777 : k == DIR_ ? 0755 : 06755);
	}
}

static void owners(void)
{
	static const struct {
		struct who dir, caller;
		mode_t mode; /* of the directory */
		gid_t gid;   /* that the new name must have */
	} cases[] = {
		{ID(0, 0), ID(0, 0), 0777, 0},
		{ID(0, 0), ID(65534, 65534), 0777, 65534},
		{ID(0, 0), ID(65534, 65533), 0777, 65533},
		{ID(65534, 65534), ID(65534, 65533), 0700, 65533},
		{ID(65534, 65532), ID(65534, 65533, 65532), 0700, 65533},
		{ID(0, 65532), ID(65534, 65534, 65532), 0770, 65534},
		{ID(65533, 65533), ID(65534, 65534), 0777, 65534},
		{ID(65533, 65533), ID(0, 0), 0777, 0},
		{ID(65533, 65533), ID(0, 65532), 0777, 65532},
		{ID(65533, 65533), ID(65534, 65534), 01777, 65534},
		/* A set-gid directory gives its group. */
		{ID(0, 0), ID(65534, 65534), 02777, 0},
		{ID(65533, 65533), ID(65534, 65534), 02777, 65533},
		{ID(65533, 65532), ID(65534, 65534, 65532), 02770, 65532},
		{ID(65534, 65533), ID(65534, 65534), 02700, 65533},
		{ID(65533, 65533), ID(0, 0), 02755, 65533},
		{ID(65533, 65532), ID(65534, 65534), 03777, 65532},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const char *d = name();

		make_for(DIR_, d, cases[c].dir);
		must(c_chmod(d, cases[c].mode));
		for (enum kind k = 0; k < MADE_KINDS; k++) {
			const char *n = at("%s/%s", d, name());

			want(0, cases[c].caller, maker(k, n, 0755));
			is_owner(n, cases[c].caller.uid, cases[c].gid);
			if (k == DIR_)
				is_mode(n, cases[c].mode & 02000 ? 02755 : 0755);
			else if (k != LINK)
				is_mode(n, 0755);
		}
		is_mode(d, cases[c].mode);
	}
}

/* A file with set-gid in a set-gid directory of a group that is not the caller's loses the bit. */
static void setgid_inherit(void)
{
	static const struct {
		struct who caller;
		mode_t asked, got;
	} cases[] = {
		{ID(65534, 65534), 02755, 0755},
		{ID(65534, 65534, 65532), 02755, 02755},
		{ID(0, 0), 02755, 02755},
		{ID(65534, 65534), 04755, 04755},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const char *d = name(), *n = at("%s/f", d);

		make_for(DIR_, d, WHO(0, 65532));
		must(c_chmod(d, 02777));
		want(0, cases[c].caller, c_open(n, O_CREAT | O_EXCL | O_WRONLY, cases[c].asked));
		is_mode(n, cases[c].got);
		is_owner(n, cases[c].caller.uid, 65532);
	}
}

static void beginnings(void)
{
	static const off_t sizes[MADE_KINDS] = {[LINK] = 4};
	struct stat now;

	for (enum kind k = 0; k < MADE_KINDS; k++) {
		const char *d = name(), *n = at("%s/n", d);
		struct stamp dir, clock;

		must(c_mkdir(d, 0777));
		make(REG, at("%s.clock", d));
		dir = stamp(d);
		clock = stamp(at("%s.clock", d));
		tick();
		want(0, NOBODY, maker(k, n, 0755));
		times(dir, "Amc");
		if (lstat(n, &now) < 0)
			bail("lstat: %s", strerror(errno));
		clock.path = n; /* all its times are later than that */
		times(clock, "amc");
		is_kind(n, k == CHR ? REG : k);
		is_links(n, k == DIR_ ? 2 : 1);
		is_links(d, k == DIR_ ? 3 : 2);
		if (k != DIR_)
			is_size(n, sizes[k]);
		holds(k == DIR_ || now.st_blocks <= 8, "a new %s has no blocks", kind_names[k]);
		/* Once more, and under each kind: it is there already. */
		dir = stamp(d);
		clock = stamp(n);
		tick();
		for (enum kind k2 = 0; k2 < MADE_KINDS; k2++) {
			want(EEXIST, NOBODY, maker(k2, n, 0755));
			want(EEXIST, ROOT, maker(k2, n, 0755));
		}
		times(dir, "AMC");
		times(clock, "AMC");
		is_kind(n, k == CHR ? REG : k);
	}
}

/* Names stay apart whatever bytes they have. */
static void names(void)
{
	static const char *const odd[] = {" ", "  ", "a b", "-rf", "*", "\\", "\n", "\t", "\"", "'",
		"\x01", "\x7f", "\x80", "\xff", "\xc3\xa4", "A", "...", "..a", ".hidden", "a.",
		"a..", "~", "$x", "`", "%s", "ctl", "workspace", "CON", "a:b", "lost+found"};
	struct stat st;

	must(c_mkdir("names", 0777));
	for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
		want(ENOENT, ROOT, c_stat(at("names/%s", odd[k])));
		want(0, NOBODY, c_open(at("names/%s", odd[k]), O_CREAT | O_EXCL | O_RDWR, 0600));
		must(c_truncate(at("names/%s", odd[k]), (off_t)k));
	}
	for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
		if (lstat(at("names/%s", odd[k]), &st) < 0)
			st.st_size = -1;
		equals(st.st_size, (long long)k, "size of the odd name %zu", k);
		want(0, NOBODY, c_unlink(at("names/%s", odd[k])));
	}
	want(0, ROOT, c_rmdir("names"));
}

void topic_create(void)
{
	modes();
	owners();
	setgid_inherit();
	beginnings();
	names();
}
